"""Solve one step problem by any method of the toolkit."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from bfio.common.kernels import interpreted
from formulations.deadline import Deadline, TimeLimit
from formulations.errors import CapabilityError, InputError, check_kind, known_keywords
from formulations.problem_data import member
from formulations.results import Termination
from formulations.scalars import integer
from formulations.second.problem import Second
from formulations.step import StepProblem, StepProgram, StepResult, assess, solve_by_enumeration
from formulations.step.bound import lower_bound
from formulations.step.problem import MAX_OBJECTIVE

#: Methods that have no work limit: a heuristic of about a millisecond, and an oracle.
_WITHOUT_TICKS = ("two-stage", "brute-force")


@known_keywords
def solve_step(
    problem: StepProblem,
    *,
    method: str = "exact",
    time_limit: TimeLimit = None,
    work_limit: int | None = None,
    seed: int = 0,
    second: Second | str | None = None,
    slack: int = 0,
    model: Any = None,
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
        Ticks (`formulations.deadline`), which are the same on every machine.
    seed : int
        Random seed of the solver.
    second : Second or str, optional
        Objective to minimise among the optima: ``age``, ``largest``, ``smallest``, ``window``,
        ``now`` or ``gap`` (`formulations.second.Second`). It shares the time limit and has a work
        limit of the same size.
    slack : int
        ε: increase of the first objective allowed for the second, in units of the first.
    model : pyomo.environ.ConcreteModel, optional
        The model of ``formulations.step.build(problem)``, to which you have added rows, or whose
        objective you have replaced; for the backends only. ``objective`` of the result is then
        that of the model.

    Returns
    -------
    StepResult
        ``termination`` is optimal only with a proof in integers. With a second objective, a
        `bfio.step.second.ChosenResult`, which states the two proofs separately.

    Raises
    ------
    InputError
        If the method is unknown, does not support the problem, or has no work limit.
    """
    deadline = Deadline.of(time_limit)
    check_kind(problem, StepProblem, "problem", "solve_step(StepProblem.from_mapping(...))")
    wanted = None if second is None else member(Second, second, "second")
    integer(slack, "slack", maximum=MAX_OBJECTIVE // problem.scale // 4)
    if slack and wanted is None:
        what = "has no effect without a second objective"
        raise InputError("slack", what, 'add second="NAME", or leave it out')
    if wanted is not None and method == "lp":
        raise CapabilityError("second", "lp returns a bound only", "use another method")
    if work_limit is not None and method in _WITHOUT_TICKS:
        what = f"{method} counts no ticks"
        raise CapabilityError("work_limit", what, "leave it out, or use another method")
    if model is not None:
        return _changed(problem, model, method, deadline, work_limit, seed, wanted)
    own: dict[str, Callable[[], StepResult]] = {
        "exact": lambda: _exact(problem, deadline, work_limit),
        "two-stage": lambda: _two_stage(problem, deadline),
        "brute-force": lambda: solve_by_enumeration(problem, time_limit=deadline),
    }
    first = StepProgram.solve_by(
        problem,
        method,
        time_limit=deadline,
        seed=seed,
        work_limit=work_limit,
        own=own,
    )
    if wanted is None:
        return first
    from bfio.step.second import chosen_result

    return chosen_result(problem, first, wanted, slack, deadline, work_limit)


def _changed(
    problem: StepProblem,
    model: Any,
    method: str,
    deadline: Deadline,
    work_limit: int | None,
    seed: int,
    second: Second | None,
) -> StepResult:
    from formulations.changed import solve_changed

    if second is not None:
        raise CapabilityError("second", "not supported with a model", "leave one of them out")
    return solve_changed(
        StepProgram(problem),
        model,
        method,
        time_limit=deadline,
        seed=seed,
        work_limit=work_limit,
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
    """Return the heuristic's answer if it has one, as a first feasible solution."""
    from bfio.step.exact.solve import is_small
    from bfio.step.two_stage.heuristic import compile_kernels, prepare_kernels, two_stage_step

    is_plain = is_small(problem) and compile_kernels.cache_info().currsize == 0
    if not is_plain:
        with deadline.stopped():
            prepare_kernels()
    try:
        with interpreted() if is_plain else nullcontext():
            return two_stage_step(problem)
    except CapabilityError:
        return None
