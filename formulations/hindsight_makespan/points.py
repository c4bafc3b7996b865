"""Schedules as points of the standard form, and back."""

from collections.abc import Mapping, Sequence

import numpy as np

from formulations.arrays import FloatArray
from formulations.hindsight_makespan.check import trajectory
from formulations.hindsight_makespan.kinds import lanes
from formulations.hindsight_makespan.problem import MakespanObjective, MakespanProblem
from formulations.hindsight_makespan.result import Schedule
from formulations.request_table import RequestKind


def schedule_of(
    problem: MakespanProblem, groups: tuple[RequestKind, ...], values: FloatArray
) -> Schedule:
    """Read starts and workers off a point; members of a kind start in order."""
    counts = np.maximum(np.round(values), 0).astype(np.int64)
    starts, workers = problem.arrival.tolist(), [0] * problem.num_requests
    offset = 0
    for kind in groups:
        size = kind.lanes * len(kind.starts)
        chosen = np.repeat(np.arange(size), counts[offset : offset + size])
        lane, place = np.divmod(chosen, len(kind.starts))
        order = np.lexsort((lane, place))
        # A point that starts too few or too many of a kind is caught by its bound or objective.
        for member, j in zip(kind.members, order.tolist(), strict=False):
            starts[member], workers[member] = kind.first_start + int(place[j]), int(lane[j])
        offset += size
    if problem.objective is MakespanObjective.LATENCY and problem.memory is None:
        workers = spread_over_workers(problem, starts)
    return tuple(starts), tuple(workers)


def point_of(
    problem: MakespanProblem,
    groups: tuple[RequestKind, ...],
    index: Mapping[str, int],
    starts: Sequence[int],
    workers: Sequence[int],
) -> FloatArray | None:
    """Write a feasible schedule as a point; None if it is not within the kinds' windows.

    Parameters
    ----------
    problem : MakespanProblem
        Data.
    groups : tuple of RequestKind
        Its kinds.
    index : mapping
        Position of each column by name.
    starts, workers : sequence of int
        The schedule.
    """
    values = np.zeros(len(index))
    lane = _first_uses(problem, groups, workers)
    # Free wall-clock windows begin at the last arrival; what starts earlier is moved there whole.
    shift = max((kind.first_start - starts[i] for kind in groups for i in kind.members), default=0)
    shift = max(shift, 0)
    for c, kind in enumerate(groups):
        for i in kind.members:
            column = index.get(f"x[{c},{lane[i]},{starts[i] + shift}]")
            if column is None:
                return None
            values[column] += 1.0
    path = trajectory(problem, [start + shift for start in starts], workers)
    for step, peak in zip(path.steps.tolist(), path.peaks.tolist(), strict=True):
        for name, value in ((f"peak[{step}]", peak), (f"busy[{step}]", 1.0)):
            if (column := index.get(name)) is not None:
                values[column] = value
    used = np.zeros(int(path.steps.max()) + 2, dtype=np.int64)
    for start, output in zip(starts, problem.output.tolist(), strict=True):
        used[start + shift : start + shift + output] += 1
    for step in np.flatnonzero(used == problem.total_slots).tolist():
        if (column := index.get(f"full[{step}]")) is not None:
            values[column] = 1.0
    return values


def spread_over_workers(problem: MakespanProblem, starts: Sequence[int]) -> list[int]:
    """Give each request a worker with a free slot; the workers do not matter for latency."""
    outputs = problem.output.tolist()
    workers = [0] * len(outputs)
    ends: list[list[int]] = [[] for _ in range(problem.workers)]
    for i in sorted(range(len(outputs)), key=lambda i: (starts[i], i)):
        ends = [[end for end in worker if end > starts[i]] for worker in ends]
        workers[i] = min(range(problem.workers), key=lambda g: len(ends[g]))
        ends[workers[i]].append(starts[i] + outputs[i])
    return workers


def _first_uses(
    problem: MakespanProblem, groups: tuple[RequestKind, ...], workers: Sequence[int]
) -> list[int]:
    """Renumber equal workers in the order in which the kinds' members first use them."""
    if lanes(problem)[0] == 1:
        return [0] * problem.num_requests
    if not problem.is_symmetric:
        return list(workers)
    number: dict[int, int] = {}
    for kind in groups:
        for i in kind.members:
            number.setdefault(workers[i], len(number))
    return [number[worker] for worker in workers]
