"""Numba kernels of the two-stage heuristic; importing this package loads nothing."""
