"""Numba as it is after its first kernel, for processes that are forked with it."""

from numba import njit

njit(lambda number: number + 1)(1)
