"""Solve a pausing problem: relaxation bound, heuristic steps, then CP-SAT for the remaining gap.

Without waiting requests that could start, the bound is exact and the heuristic step attains it.
With waiting requests this mostly holds, too. The relaxation may divide requests; if this leaves a
gap, Dinkelbach's sequence of integer programs continues from the best step.
"""

import time
from dataclasses import replace
from fractions import Fraction

from bfio.pausing.heuristic import quick_step
from bfio.pausing.pack import pack
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
        ``exact`` (ours), ``heuristic`` (fast, without a bound), ``brute-force``, or a backend:
        ``cp-sat``, ``highs``, ``pyomo``, ``pyomo:SOLVER``.
    time_limit : float or Deadline, optional
        Wall-clock seconds.
    seed : int
        Random seed of the backends.
    fallback : str, optional
        Backend for the gap that ``exact`` leaves; None leaves the gap.

    Raises
    ------
    InputError
        If the method is unknown or the time limit negative.
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
    began = time.perf_counter()
    step = quick_step(problem)
    seconds = time.perf_counter() - began
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
