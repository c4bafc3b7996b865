"""Solve one step problem by any method of the toolkit."""

import time
from collections.abc import Callable

from formulations.errors import CapabilityError
from formulations.step import StepProblem, StepProgram, StepResult, assess, solve_by_enumeration


def solve_step(
    problem: StepProblem,
    *,
    method: str = "exact",
    time_limit: float | None = None,
    seed: int = 0,
) -> StepResult:
    """Solve one step problem and check the answer.

    Parameters
    ----------
    problem : StepProblem
        Data.
    method : str
        ``exact`` (our own), ``two-stage`` (BR-0's F-score heuristic), ``cp-sat``, ``highs``,
        ``pyomo`` or ``pyomo:SOLVER``, ``brute-force`` (tiny problems).
    time_limit : float, optional
        Wall-clock seconds.
    seed : int
        Random seed of the solver.

    Returns
    -------
    StepResult
        ``termination`` is optimal only with a proof in integers.

    Raises
    ------
    InputError
        If the method is unknown or cannot take the problem.
    """
    own: dict[str, Callable[[], StepResult]] = {
        "exact": lambda: _exact(problem, time_limit),
        "two-stage": lambda: _two_stage(problem),
        "brute-force": lambda: solve_by_enumeration(problem),
    }
    return StepProgram.solve_by(problem, method, time_limit=time_limit, seed=seed, own=own)


def _two_stage(problem: StepProblem) -> StepResult:
    from bfio.step.two_stage.heuristic import prepare_kernels, two_stage_step

    # Loading or compiling the kernels is no part of the solve.
    prepare_kernels()
    began = time.perf_counter()
    assignment = two_stage_step(problem)
    return assess(problem, assignment, method="two-stage", seconds=time.perf_counter() - began)


def _exact(problem: StepProblem, time_limit: float | None) -> StepResult:
    from bfio.step.exact import solve_exact

    start = _start(problem)
    return solve_exact(problem, time_limit=time_limit, hint=start).to_step_result(problem)


def _start(problem: StepProblem) -> list[int | None] | None:
    """Return the heuristic's answer where it knows the problem, so that one is always in hand."""
    from bfio.step.two_stage.heuristic import prepare_kernels, two_stage_step

    prepare_kernels()
    try:
        return two_stage_step(problem)
    except CapabilityError:
        return None
