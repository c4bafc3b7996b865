"""Heuristic steps: fill a step of a given length with requests.

Required requests are placed first; of the required waiting ones, the largest goes first, to the
worker with the most spare capacity. Then each worker runs as many of its lightest active requests
as fit. The smallest waiting requests follow, each on the worker with the most spare capacity.
Without waiting requests, this is the optimal step of this length (`formulations.pausing.bound`).
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from formulations.arrays import BoolArray, IntArray
from formulations.pausing import PausingProblem, Relaxation
from formulations.pausing.check import Solution

#: Number of lengths tried at first, and between the neighbours of the best one.
_COARSE, _FINE = 24, 16
#: Number of waiting requests on one worker whose start defines additional lengths.
_BESIDE = 3


def quick_step(problem: PausingProblem) -> Solution | None:
    """Return a step of low time per token, or None if required requests could not be placed.

    The lengths tried are those at which another request fits. A coarse sample comes first, then
    two finer samples around the best length. It takes milliseconds for 16 workers of 72 slots.

    Parameters
    ----------
    problem : PausingProblem
        The pausing problem.
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
    """Return the lengths to try, ascending: those at which a request fits, and the shortest.

    For workers with a free slot, also those at which the smallest waiting requests fit in
    addition.
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
    """A filled step: requests that run, requests that start, and the resulting time and tokens.

    Parameters
    ----------
    runs : BoolArray
        Shape (number of optional requests,): whether each of `Relaxation.optional` runs.
    starts : tuple of (int, int)
        Waiting request and its worker.
    time, tokens : int
        Duration in units of time, and tokens emitted.
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
        """Return which requests run, and the worker of each request that starts."""
        problem = relaxation.problem
        runs = problem.must_run.copy()
        runs[relaxation.optional] = self.runs
        where = dict(self.starts)
        return tuple(runs.tolist()), tuple(where.get(i) for i in range(problem.num_requests))


@dataclass
class Workers:
    """Remaining capacity of each worker in a step of a given length; arrays of shape (G,).

    Parameters
    ----------
    bears, left, room, slots : IntArray
        Load that a worker can process in this time, and the part left; free memory [tokens]; and
        free slots.
    starts : list of (int, int)
        Waiting requests, and their workers.
    """

    bears: IntArray
    left: IntArray
    room: IntArray
    slots: IntArray
    starts: list[tuple[int, int]]

    @classmethod
    def of(cls, relaxation: Relaxation, time: int) -> "Workers | None":
        """Return the workers after the required requests; None if these do not fit."""
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
        """Start a request on the worker of largest ``spare`` that fits; False if none fits."""
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
    """Fill a step of at most ``time`` units; None if nothing runs or required requests fail."""
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
    """Return the filled step, or None if nothing runs."""
    problem = relaxation.problem
    tokens = int(problem.must_run.sum()) + int(runs.sum()) + len(workers.starts)
    time = int((problem.overheads + problem.rates * (workers.bears - workers.left)).max())
    return None if tokens == 0 else Filled(runs, tuple(workers.starts), time, tokens)
