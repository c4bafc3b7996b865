"""Pausing: a fast heuristic for steps that may pause requests, and an exact method.

The exact method computes the bound of the relaxation and heuristic steps, then closes the
remaining gap with CP-SAT. If no waiting request can start, the bound is exact and the heuristic
step attains the bound. With waiting requests, the bound is usually attained too. The relaxation
may divide requests. If this leaves a gap, Dinkelbach's sequence of integer programs continues from
the best step.

The heuristic fills a step of a given length. Required requests are placed first; of the required
waiting ones, the largest goes first, to the worker with the most spare capacity. Then each worker
runs as many of its lightest active requests as fit. The smallest waiting requests follow, each on
the worker with the most spare capacity. Without waiting requests, this is the optimal step of this
length (`formulations.pausing.bound`).
"""

import time
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from bfio.common.clock import timed
from formulations.arrays import BoolArray, IntArray
from formulations.deadline import Deadline, OutOfTime, TimeLimit
from formulations.pausing import (
    PausingProblem,
    PausingResult,
    Relaxation,
    assess,
    least_ratio,
    least_times,
    solve,
    solve_by,
    time_and_tokens,
)
from formulations.pausing.check import Solution
from formulations.results import Termination, own_solver

#: Number of lengths tried at first, and between the neighbours of the best one.
_COARSE, _FINE = 24, 16
#: Number of waiting requests on one worker whose start defines additional lengths.
_BESIDE = 3


def quick_step(problem: PausingProblem) -> Solution | None:
    """Return a step of low time per token by the heuristic; None if it finds no feasible step.

    The step lengths tried are those at which another request fits: first a coarse sample, then two
    finer samples around the best length. A call takes milliseconds for 16 workers of 72 slots.

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
    """Return the step lengths to try, ascending: those at which a request fits, and the shortest.

    Where a worker has a free slot, lengths at which the smallest waiting requests also fit are
    included.
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
        # Required requests may have to share a worker, which may need the longest step.
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
        Pairs of a waiting request that starts and its worker.
    time, tokens : int
        Duration in units of time, and tokens emitted.
    """

    runs: BoolArray
    starts: tuple[tuple[int, int], ...]
    time: int
    tokens: int

    @property
    def ratio(self) -> Fraction:
        """Time per token of the step, in units of time."""
        return Fraction(self.time, self.tokens)

    def solution(self, relaxation: Relaxation) -> Solution:
        """Return the step as a solution: running requests, and the worker of starting ones."""
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
        Load that a worker can process in the step, the unused part of this load, free memory
        [tokens], and free slots.
    starts : list of (int, int)
        Waiting requests that start, each with its worker.
    """

    bears: IntArray
    left: IntArray
    room: IntArray
    slots: IntArray
    starts: list[tuple[int, int]]

    @classmethod
    def of(cls, relaxation: Relaxation, time: int) -> "Workers | None":
        """Return the capacity left after the required requests; None if these do not fit."""
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
        """Start a request on the worker of largest ``spare`` that fits; return success."""
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
    """Fill a step of at most ``time`` units; return None if a required request does not fit."""
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
    """Return the filled step; None if no request runs."""
    problem = relaxation.problem
    tokens = int(problem.must_run.sum()) + int(runs.sum()) + len(workers.starts)
    time = int((problem.overheads + problem.rates * (workers.bears - workers.left)).max())
    return None if tokens == 0 else Filled(runs, tuple(workers.starts), time, tokens)


def pack(relaxation: Relaxation, time: int) -> Filled | None:
    """Fill a step of at most ``time`` units greedily, smallest request first.

    Unlike in `fill`, a waiting request precedes heavier active ones. It starts on the worker with
    the most capacity beyond the needs of its own active requests.

    Returns
    -------
    Filled, optional
        None if no request runs or a required request does not fit.
    """
    workers = Workers.of(relaxation, time)
    if workers is None:
        return None
    problem = relaxation.problem
    own = problem.worker[relaxation.optional]
    loads = problem.load[relaxation.optional]
    runs = np.zeros(len(own), dtype=np.bool_)
    # Load of the active requests of each worker that fit in this time and are not yet decided.
    wanted = np.zeros(problem.num_workers, dtype=np.int64)
    joined = relaxation.joins <= time
    np.add.at(wanted, own[joined], loads[joined])
    items = [(int(loads[k]), 0, k) for k in np.flatnonzero(joined).tolist()]
    items += [(int(problem.waiting[i]), 1, i) for i in relaxation.candidates.tolist()]
    for tokens, waits, which in sorted(items):
        if waits:
            workers.take(which, tokens, workers.left - wanted)
            continue
        worker = int(own[which])
        wanted[worker] -= tokens
        if workers.left[worker] >= tokens:
            workers.left[worker] -= tokens
            runs[which] = True
    return finished(relaxation, runs, workers)


#: Largest number of step lengths for which steps are packed.
_MOST_PACKED = 200


def solve_pausing(
    problem: PausingProblem,
    *,
    method: str = "exact",
    time_limit: TimeLimit = None,
    seed: int = 0,
    fallback: str | None = "cp-sat",
) -> PausingResult:
    """Find a step of least time per token, with a proof of optimality.

    Parameters
    ----------
    problem : PausingProblem
        The pausing problem.
    method : str
        ``exact`` (this project's method, see the module docstring), ``heuristic`` (fast, without a
        bound), ``brute-force`` (tiny problems), ``lp`` (only the bound of the linear relaxation),
        or a backend: ``cp-sat``, ``highs``, ``pyomo``, ``pyomo:SOLVER``.
    time_limit : float or Deadline, optional
        Wall-clock seconds.
    seed : int
        Random seed of the backends.
    fallback : str, optional
        Backend that continues if the bound of ``exact`` does not prove its step optimal; None:
        return the step with this bound.

    Raises
    ------
    InputError
        If the method is unknown or the time limit is negative.
    CapabilityError
        If the problem is too large for a backend or for enumeration.
    """
    deadline = Deadline.of(time_limit)
    own = {
        "exact": lambda: _exact(problem, deadline, seed, fallback),
        "heuristic": lambda: _heuristic(problem),
    }
    return solve_by(problem, method, time_limit=deadline, seed=seed, own=own)


def _heuristic(problem: PausingProblem) -> PausingResult:
    step, seconds = timed(lambda: quick_step(problem))
    return assess(problem, step, None, method="heuristic", seconds=seconds, solver=own_solver())


def _exact(
    problem: PausingProblem, deadline: Deadline, seed: int, fallback: str | None
) -> PausingResult:
    began = time.perf_counter()
    relaxation = Relaxation(problem)
    step, bound, times = quick_step(problem), None, None

    def answer() -> PausingResult:
        seconds = time.perf_counter() - began
        return assess(problem, step, bound, method="exact", seconds=seconds, solver=own_solver())

    deadline.found(answer)
    try:
        with deadline.interrupting():
            times = least_times(relaxation, _ratio(problem, step))
            bound = least_ratio(times.tolist())
            if bound is None:
                proof = "no step fits even if requests are divided"
                return replace(answer(), termination=Termination.INFEASIBLE, proof=proof)
            step = _packed(relaxation, step, times.tolist(), bound)
    except OutOfTime:
        return replace(answer(), termination=Termination.TIME_LIMIT)
    found = answer()
    if found.is_optimal or fallback is None or deadline.is_over:
        return found
    ours = replace(found, termination=Termination.TIME_LIMIT)
    deadline.found(lambda: ours)
    closed = solve(
        problem, backend=fallback, time_limit=deadline, hint=step, seed=seed, times=times
    )
    seconds = time.perf_counter() - began - closed.compile_seconds
    return replace(closed, method="exact", seconds=seconds)


def _packed(
    relaxation: Relaxation, step: Solution | None, times: list[int], bound: Fraction
) -> Solution | None:
    """Pack steps of the lengths whose relaxed ratio is below the best step, lowest ratio first."""
    best = _ratio(relaxation.problem, step)
    ratios = [Fraction(length, n + 1) for n, length in enumerate(times)]
    tried: set[int] = set()
    for n in sorted(range(len(times)), key=lambda n: ratios[n]):
        if len(tried) == _MOST_PACKED or (best is not None and ratios[n] >= best):
            break
        # The longest length at which n + 1 tokens would still improve on the best step.
        longest = times[n] if best is None else -(-best * (n + 1) // 1) - 1
        for length in {times[n], int(longest)} - tried:
            tried.add(length)
            found = pack(relaxation, length)
            if found is not None and (best is None or found.ratio < best):
                best, step = found.ratio, found.solution(relaxation)
        if best == bound:
            break
    return step


def _ratio(problem: PausingProblem, step: Solution | None) -> Fraction | None:
    """Return units of time per token of a step; None without a step."""
    return None if step is None else Fraction(*time_and_tokens(problem, *step))
