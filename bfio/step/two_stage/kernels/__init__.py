"""Compiled twins of the two-stage heuristic, for Numba; importing this package loads nothing."""
