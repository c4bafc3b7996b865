"""The program of a step with a window, in the form that compiled code uses."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bfio.step.exact.fill import Positions
from bfio.step.exact.sums import sums_of_first
from formulations.arrays import BoolArray, IntArray
from formulations.errors import CapabilityError
from formulations.step.problem import Objective, StepProblem

#: No token limit.
NO_LIMIT = 1 << 60
#: Most modes of all workers.
_MAX_MODES = 100_000


class Requests(NamedTuple):
    """Requests by position: those that differ in size only, ascending, then all others.

    Parameters
    ----------
    rows : IntArray
        Shape (N, H+1): load that each request adds [tokens].
    sizes : IntArray
        Shape (L,): first entries of the first L rows.
    kind : IntArray
        Shape (N,): equal for requests that are interchangeable.
    required : BoolArray
        Shape (N,): whether the request must be admitted.
    """

    rows: IntArray
    sizes: IntArray
    kind: IntArray
    required: BoolArray

    @property
    def growth(self) -> IntArray:
        """Growth of the first L requests beyond their sizes, shape (H+1,); 0 if L = 0."""
        if len(self.sizes) == 0:
            return np.zeros(self.rows.shape[1], dtype=np.int64)
        growth: IntArray = self.rows[0] - self.sizes[0]
        return growth


class Workers(NamedTuple):
    """Workers with a free slot.

    Parameters
    ----------
    base : IntArray
        Shape (K, H+1): loads before admissions [tokens].
    slots, token_time, limit : IntArray
        Shape (K,): free slots, time per token, and limit on tokens at any step.
    """

    base: IntArray
    slots: IntArray
    token_time: IntArray
    limit: IntArray


class Goal(NamedTuple):
    """The objective ``Σ pays·peak − Σ weights·total``; for the gap with negated times.

    Parameters
    ----------
    pays : IntArray
        Shape (S,): weights of the peaks; S is H+1, or 2(H+1) for the gap objective.
    weights : IntArray
        Shape (H+1,): weights of the total time of each step.
    closed : IntArray
        Shape (S,): largest (negated) time of workers without a free slot; hugely negative if none.
    fixed : int
        ``Σ weights·total`` before admissions.
    """

    pays: IntArray
    weights: IntArray
    closed: IntArray
    fixed: int


class Modes(NamedTuple):
    """Modes of workers: the individual requests taken, and the number of other requests.

    Parameters
    ----------
    worker, number : IntArray
        Shape (M,): position of the worker; number of requests that differ in size only.
    own : IntArray
        Shape (M, C): positions of the requests with individual load profiles, padded with -1.
    loads : IntArray
        Shape (M, H+1): load without the sizes of the other requests [tokens].
    low, high : IntArray
        Shape (M,): range of the sum of sizes of interest [tokens]; narrowed as bounds rise.
    weight : IntArray
        Shape (M,): weighted total that the mode adds, without the sizes.
    """

    worker: IntArray
    number: IntArray
    own: IntArray
    loads: IntArray
    low: IntArray
    high: IntArray
    weight: IntArray


class Split(NamedTuple):
    """Two cases: the load of an open worker at a step is at most a level, or above it."""

    worker: int
    step: int
    level: int


@dataclass(frozen=True)
class StepModel(Positions):
    """A step problem with positions of requests and workers in place of indices.

    Parameters
    ----------
    problem : StepProblem
        The step problem.
    requests, workers, goal
        Requests and open workers by position, and the objective.
    """

    problem: StepProblem
    requests: Requests
    workers: Workers
    goal: Goal

    @property
    def fills(self) -> bool:
        """Whether every slot is filled."""
        return self.problem.num_admitted == int(self.problem.capacity.sum())

    @property
    def admits_all(self) -> bool:
        """Whether every request is admitted."""
        return self.problem.num_admitted == self.problem.num_requests

    def sets_of(self, owner: IntArray) -> list[tuple[int, IntArray]]:
        """Return each open worker with the positions of its requests."""
        return [(k, np.flatnonzero(owner == k)) for k in range(len(self.open))]


def step_model(problem: StepProblem, order: IntArray | None = None) -> StepModel:
    """Return the model of a problem, with requests in ``order`` if given.

    Raises
    ------
    CapabilityError
        If placements have benefits (``benefit``).
    """
    if problem.benefit is not None:
        raise CapabilityError(
            "benefit",
            "the search for windows does not support benefits",
            "use bfio.step.exact.solve_exact",
        )
    common = 0
    if order is None:
        order, common = _ordered(problem)
    rows = np.ascontiguousarray(problem.contribution[order])
    requests = Requests(rows, rows[:common, 0].copy(), *_kinds(problem, order, rows))
    is_open = np.flatnonzero(problem.capacity > 0)
    limit = np.full(len(is_open), NO_LIMIT)
    if problem.token_capacity is not None:
        limit = problem.token_capacity[is_open]
    workers = Workers(
        np.ascontiguousarray(problem.base[is_open]),
        problem.capacity[is_open],
        problem.time_weights[is_open],
        limit,
    )
    return StepModel(order, is_open, problem, requests, workers, _goal(problem))


def _ordered(problem: StepProblem) -> tuple[IntArray, int]:
    """Return the requests by position, and the number that differ in size only."""
    shifts = problem.contribution - problem.contribution[:, :1]
    if (shifts == shifts[:1]).all():
        common = np.ones(len(shifts), dtype=np.bool_)
    else:
        _, first, counts = np.unique(shifts, axis=0, return_index=True, return_counts=True)
        common = (shifts == shifts[min(first[counts == counts.max()])]).all(axis=1)
    # By all columns, so that interchangeable requests stand side by side.
    required = problem.required
    keys = [] if required is None else [required]
    order = np.lexsort((*keys, *problem.contribution.T[::-1], ~common))
    return order, int(common.sum())


def _kinds(problem: StepProblem, order: IntArray, rows: IntArray) -> tuple[IntArray, BoolArray]:
    required = np.full(len(order), problem.num_admitted == problem.num_requests)
    if problem.required is not None:
        required |= problem.required[order]
    keys = np.concatenate([rows, required[:, None]], axis=1)
    _, kind = np.unique(keys, axis=0, return_inverse=True)
    return kind.reshape(-1).astype(np.int64), required


def _goal(problem: StepProblem) -> Goal:
    weights = np.array(problem.weights, dtype=np.int64)
    times = problem.base * problem.time_weights[:, None]
    closed = times[problem.capacity == 0]
    if problem.objective is Objective.GAP:
        closed = np.concatenate([closed, -closed], axis=1)
    floor = closed.max(axis=0, initial=-NO_LIMIT)
    if problem.objective is Objective.IMBALANCE:
        total = int((times.sum(axis=0) * weights).sum())
        return Goal(problem.num_workers * weights, weights, floor, total)
    return Goal(np.tile(weights, len(floor) // len(weights)), np.zeros_like(weights), floor, 0)


def modes_of(model: StepModel) -> Modes | None:
    """Return all modes of the open workers; None if there are too many."""
    requests, workers = model.requests, model.workers
    choices = _choices(requests, int(workers.slots.max(initial=0)))
    if choices is None:
        return None
    own, own_rows, number = choices
    common = len(requests.sizes)
    parts = []
    for k, slots in enumerate(workers.slots.tolist()):
        for count in range(min(slots, common) + 1):
            fitting = number == slots - count if model.fills else number <= slots - count
            parts.append((k, count, np.flatnonzero(fitting)))
    if sum(len(chosen) for _, _, chosen in parts) > _MAX_MODES:
        return None
    worker = np.concatenate([np.full(len(c), k) for k, _, c in parts]).astype(np.int64)
    counts = np.concatenate([np.full(len(c), n) for _, n, c in parts]).astype(np.int64)
    chosen = np.concatenate([c for _, _, c in parts])
    added = own_rows[chosen] + counts[:, None] * requests.growth
    loads = workers.base[worker] + added
    below = sums_of_first(requests.sizes)
    room = workers.limit[worker] - loads.max(axis=1)
    high = np.minimum(below[-1] - below[common - counts], room)
    low = below[counts]
    weight = workers.token_time[worker] * (added @ model.goal.weights)
    kept = low <= high
    found = Modes(worker, counts, own[chosen], loads, low, high, weight)
    return Modes(*(np.ascontiguousarray(part[kept]) for part in found))


def _choices(requests: Requests, most: int) -> tuple[IntArray, IntArray, IntArray] | None:
    """Return the sets of individual requests: positions, summed load profiles, numbers.

    Of interchangeable requests, a set contains the first ones.
    """
    first, N = len(requests.sizes), len(requests.rows)
    kind = requests.kind
    follows = np.concatenate([[False], kind[1:] == kind[:-1]])
    width = max(1, min(most, N - first))
    own = np.full((1, width), -1, dtype=np.int64)
    level = own
    levels = [own]
    for c in range(min(most, N - first)):
        last = level[:, c - 1] if c else np.full(1, first - 1)
        repeats = N - 1 - last
        if int(repeats.sum()) > _MAX_MODES:
            return None
        level = np.repeat(level, repeats, axis=0)
        start = np.repeat(np.cumsum(repeats) - repeats, repeats)
        level[:, c] = np.repeat(last, repeats) + 1 + np.arange(len(level)) - start
        before = level[:, c - 1] if c else np.full(len(level), -1)
        level = level[~follows[level[:, c]] | (before == level[:, c] - 1)]
        levels.append(level)
    own = np.concatenate(levels)
    numbers = (own >= 0).sum(axis=1)
    rows = np.concatenate([requests.rows, np.zeros_like(requests.rows[:1])])[own].sum(axis=1)
    return own, rows, numbers
