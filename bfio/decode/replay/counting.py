"""Counts by step, and of faults."""

import numpy as np

from formulations.arrays import BoolArray, IntArray


def count(at_step: IntArray, steps: int) -> IntArray:
    """Return how many requests have each step; -1 and steps beyond the end count nowhere."""
    inside = at_step[(at_step >= 0) & (at_step < steps)]
    counts: IntArray = np.bincount(inside, minlength=steps).astype(np.int64)
    return counts


def grouped(at_step: IntArray, who: IntArray, steps: int) -> list[list[int]]:
    """Return who has each step."""
    groups: list[list[int]] = [[] for _ in range(steps)]
    for step, request in zip(at_step.tolist(), who.tolist(), strict=True):
        if 0 <= step < steps:
            groups[step].append(request)
    return groups


def running_total(at_step: IntArray, steps: int) -> IntArray:
    """Return how many requests have each step or one before."""
    totals: IntArray = np.cumsum(count(at_step, steps))
    return totals


def number(flags: BoolArray) -> int:
    """Return how many of them are true."""
    return int(np.count_nonzero(flags))
