"""Steps at once: for a given length of the step, who fills it.

Who must run or start comes first, the largest waiting one on the worker that bears most. Then each
worker runs the lightest of its active requests, as many as it bears, and the smallest waiting ones
go where most is left. Without waiting requests that is the best step of its length
(`formulations.pausing.bound`).
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from formulations.arrays import BoolArray, IntArray
from formulations.pausing import PausingProblem, Relaxation
from formulations.pausing.check import Solution

#: Lengths of the step that are tried at first, and between the best of them and its neighbours.
_COARSE, _FINE = 24, 16
#: Waiting requests on one worker whose joining makes further lengths.
_BESIDE = 3


def quick_step(problem: PausingProblem) -> Solution | None:
    """Return a step of low time per token; None if required requests were not placed.

    Lengths are tried at which some request joins: a few of all, then those between the best one
    and its neighbours, twice. Milliseconds at 16 workers of 72 slots.

    Parameters
    ----------
    problem : PausingProblem
        Data.
    """
    relaxation = Relaxation(problem)
    lengths = _lengths(relaxation)
    best: tuple[Fraction, int] | None = None
    low, high = 0, len(lengths) - 1
    for number in (_COARSE, _FINE, _FINE):
        places = np.unique(np.linspace(low, high, number).round().astype(np.int64)).tolist()
        for place in places:
            filled = fill(relaxation, int(lengths[place]))
            if filled is not None and (best is None or filled.ratio < best[0]):
                best = filled.ratio, place
        if best is None:
            continue
        at = int(np.searchsorted(places, best[1]))
        low, high = places[max(0, at - 1)], places[min(len(places) - 1, at + 1)]
    if best is None:
        return None
    filled = fill(relaxation, int(lengths[best[1]]))
    assert filled is not None
    return filled.solution(relaxation)


def _lengths(relaxation: Relaxation) -> IntArray:
    """Return the times at which a request joins, and the shortest, ascending.

    On workers with a free slot also those at which the smallest waiting ones fit besides.
    """
    problem = relaxation.problem
    own = problem.worker[relaxation.optional]
    is_open = problem.capacity[own] > 0
    first, rates = relaxation.joins[is_open], problem.rates[own[is_open]]
    beside = np.cumsum(problem.waiting[relaxation.candidates[:_BESIDE]])
    parts = (
        [relaxation.shortest],
        relaxation.joins,
        relaxation.first_fit[relaxation.candidates],
        *(first + rates * tokens for tokens in beside),
        # Where required requests must share workers, a step may have to last for all.
        [relaxation.never - 1],
    )
    times = np.unique(np.concatenate([np.asarray(part, dtype=np.int64) for part in parts]))
    return times[times >= relaxation.shortest]


@dataclass(frozen=True)
class Filled:
    """A step: which of `Relaxation.optional` run, where who starts, and what comes of it.

    Parameters
    ----------
    runs : BoolArray
        Shape (number of optional ones,).
    starts : tuple of (int, int)
        Waiting request and worker.
    time, tokens : int
        Units of time, and tokens emitted.
    """

    runs: BoolArray
    starts: tuple[tuple[int, int], ...]
    time: int
    tokens: int

    @property
    def ratio(self) -> Fraction:
        """Units of time per token."""
        return Fraction(self.time, self.tokens)

    def solution(self, relaxation: Relaxation) -> Solution:
        """Return who runs and who starts where."""
        problem = relaxation.problem
        runs = problem.must_run.copy()
        runs[relaxation.optional] = self.runs
        where = dict(self.starts)
        return tuple(runs.tolist()), tuple(where.get(i) for i in range(problem.num_requests))


@dataclass
class Workers:
    """What is left of each worker in a step of a given length; all of shape (G,).

    Parameters
    ----------
    bears, left, room, slots : IntArray
        Tokens that it bears in all, and still; tokens that it holds besides, and slots.
    starts : list of (int, int)
        Waiting requests, and the workers that took them.
    """

    bears: IntArray
    left: IntArray
    room: IntArray
    slots: IntArray
    starts: list[tuple[int, int]]

    @classmethod
    def of(cls, relaxation: Relaxation, time: int) -> "Workers | None":
        """Return the workers once those that must have started; None if these do not fit."""
        problem = relaxation.problem
        bears = relaxation.bears(time)
        left = bears - relaxation.base
        if (left < 0).any():
            return None
        workers = cls(bears, left, problem.room.copy(), problem.capacity.copy(), [])
        must = np.flatnonzero(problem.must_start)
        for i in must[np.argsort(-problem.waiting[must], kind="stable")].tolist():
            if not workers.take(i, int(problem.waiting[i]), workers.left):
                return None
        return workers

    def take(self, request: int, tokens: int, spare: IntArray) -> bool:
        """Start a request on the worker that fits and has most to spare; whether one does."""
        fits = (self.slots > 0) & (self.room >= tokens) & (self.left >= tokens)
        if not fits.any():
            return False
        worker = int(np.where(fits, spare, np.iinfo(np.int64).min).argmax())
        self.left[worker] -= tokens
        self.room[worker] -= tokens
        self.slots[worker] -= 1
        self.starts.append((request, worker))
        return True


def fill(relaxation: Relaxation, time: int) -> Filled | None:
    """Fill a step of at most so many units; None if nothing runs, or what must does not fit."""
    workers = Workers.of(relaxation, time)
    if workers is None:
        return None
    problem = relaxation.problem
    own = problem.worker[relaxation.optional]
    runs: BoolArray = relaxation.prefix <= workers.left[own]
    np.subtract.at(workers.left, own[runs], problem.load[relaxation.optional[runs]])
    for i in relaxation.candidates.tolist():
        if not workers.take(i, int(problem.waiting[i]), workers.left):
            break
    return finished(relaxation, runs, workers)


def finished(relaxation: Relaxation, runs: BoolArray, workers: Workers) -> Filled | None:
    """Return what a step comes to; None if nothing runs."""
    problem = relaxation.problem
    tokens = int(problem.must_run.sum()) + int(runs.sum()) + len(workers.starts)
    time = int((problem.overheads + problem.rates * (workers.bears - workers.left)).max())
    return None if tokens == 0 else Filled(runs, tuple(workers.starts), time, tokens)
