"""Minimal worst-case instances found by searches, stored for the tests."""

from fractions import Fraction

import numpy as np

from bfio.worst_cases.barrier import BarrierSpace, Criterion
from formulations.hindsight_latency import Convention, LatencyProblem
from formulations.hindsight_makespan import MakespanProblem


def cache(memory: int, convention: str, rows: list[tuple[int, int]]) -> LatencyProblem:
    """Return requests of prompt 1 from rows of arrival and output."""
    arrival, output = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    return LatencyProblem(memory, arrival, np.ones_like(output), output, Convention(convention))


def at_once(memory: int, convention: str, *outputs: int) -> LatencyProblem:
    """Return requests that all arrive at 0."""
    return cache(memory, convention, [(0, output) for output in outputs])


def barrier(workers: int, criterion: Criterion, *rows: tuple[int, int]) -> MakespanProblem:
    """Return requests of prompt and output on workers of one slot."""
    return BarrierSpace(len(rows), workers, criterion=criterion).problem(rows)


#: Of Algorithm 1: instance and ratio, the largest of its size for M up to 8 (7 for n = 6, A).
ALGORITHM_1 = (
    (at_once(6, "A", 2, 2, 3, 3), Fraction(9, 8)),
    (at_once(6, "A", 2, 2, 3, 4, 4), Fraction(8, 7)),
    (at_once(6, "A", 1, 1, 1, 2, 2, 2), Fraction(6, 5)),
)
#: Workers, criterion, requests, and the ratio of first come, first served.
FCFS = (
    # The long request alone at the end: 2 - 1/m for m = 2 and 3, the limit of list schedules.
    (barrier(2, Criterion.STEPS, (1, 1), (1, 1), (1, 2)), Fraction(3, 2)),
    (
        barrier(3, Criterion.STEPS, *[(1, 1)] * 6, (1, 3)),
        Fraction(5, 3),
    ),
    # A heavy with a light request, twice: 6 + 6 against 6 + 2.
    (barrier(2, Criterion.PEAKS, (1, 2), (2, 3), (1, 2), (2, 3)), None),
)
