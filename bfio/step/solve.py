"""Solve one step problem by any method of the toolkit."""

import time
from collections.abc import Callable

from formulations.deadline import Deadline, TimeLimit
from formulations.errors import CapabilityError
from formulations.keywords import check_kind, known_keywords
from formulations.results import Termination
from formulations.step import StepProblem, StepProgram, StepResult, assess, solve_by_enumeration
from formulations.step.bound import lower_bound


@known_keywords
def solve_step(
    problem: StepProblem,
    *,
    method: str = "exact",
    time_limit: TimeLimit = None,
    work_limit: int | None = None,
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
    time_limit : float or Deadline, optional
        Wall-clock seconds.
    work_limit : int, optional
        Ticks (`formulations.work`): where it strikes is the same on every machine.
    seed : int
        Random seed of the solver.

    Returns
    -------
    StepResult
        ``termination`` is optimal only with a proof in integers.

    Raises
    ------
    InputError
        If the method is unknown, cannot take the problem, or cannot be limited by work.
    """
    deadline = Deadline.of(time_limit)
    check_kind(problem, StepProblem, "problem", "solve_step(StepProblem.from_mapping(...))")
    own: dict[str, Callable[[], StepResult]] = {
        "exact": lambda: _exact(problem, deadline, work_limit),
        "two-stage": lambda: _two_stage(problem, deadline),
        "brute-force": lambda: solve_by_enumeration(problem, time_limit=deadline),
    }
    return StepProgram.solve_by(
        problem, method, time_limit=deadline, seed=seed, work_limit=work_limit, own=own
    )


def _two_stage(problem: StepProblem, deadline: Deadline) -> StepResult:
    from bfio.step.two_stage.heuristic import prepare_kernels, two_stage_step

    with deadline.stopped():
        prepare_kernels()
    began = time.perf_counter()
    assignment = two_stage_step(problem)
    return assess(problem, assignment, method="two-stage", seconds=time.perf_counter() - began)


def _exact(problem: StepProblem, deadline: Deadline, work_limit: int | None) -> StepResult:
    from bfio.step.exact import solve_exact

    start = _start(problem, deadline)
    if start is not None:
        program, solution = StepProgram(problem), tuple(start)
        said = Termination.TIME_LIMIT
        deadline.found(
            lambda: program.answer(solution, said, lower_bound(problem), method="exact")
        )
    result = solve_exact(problem, time_limit=deadline, work_limit=work_limit, hint=start)
    return result.to_step_result(problem)


def _start(problem: StepProblem, deadline: Deadline) -> list[int | None] | None:
    """Return the heuristic's answer where it knows the problem, so that one is always in hand."""
    from bfio.step.two_stage.heuristic import prepare_kernels, two_stage_step

    with deadline.stopped():
        prepare_kernels()
    try:
        return two_stage_step(problem)
    except CapabilityError:
        return None
