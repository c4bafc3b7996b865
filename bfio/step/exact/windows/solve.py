"""Solve a step problem by shares and prices, with a proof of the answer."""

import time
from collections.abc import Collection, Sequence

import numpy as np

from bfio.step.exact.effort import CALL, Effort, Phase
from bfio.step.exact.result import ExactResult, Seconds
from bfio.step.exact.windows.aggregate import aggregate
from bfio.step.exact.windows.boxes import Boxes
from bfio.step.exact.windows.model import StepModel, step_model
from bfio.step.exact.windows.placements import Placements
from bfio.step.exact.windows.search import Case, WindowSearch
from formulations.step.bound import lower_bound
from formulations.step.certificate import CaseRow, Certificate
from formulations.step.problem import StepProblem
from formulations.step.share_bound import MAX_VALUE, largest_objective

#: Placements where there are too many sets of requests to price them.
_PLACEMENTS = 8


def solve_window(
    problem: StepProblem,
    start: Sequence[int | None] | None,
    effort: Effort,
    skip: Collection[Phase] = (),
) -> ExactResult | None:
    """Solve a problem with a window; None if numbers or limits are too large or too tight.

    ``start`` is a feasible assignment; the phases of ``skip`` are left out.
    """
    began = time.perf_counter()
    if largest_objective(problem) > MAX_VALUE:
        return None
    if _is_hopeless(problem):
        return _infeasible(problem)
    model = step_model(problem)
    boxes = Boxes.of(model)
    if boxes is None:
        return _placed(model, start, effort, began)
    effort.spend(CALL + boxes.modes.loads.size)
    if boxes.is_empty:
        return _infeasible(problem)
    return _searched(WindowSearch(boxes, effort, skip), start, began)


def _infeasible(problem: StepProblem) -> ExactResult:
    return ExactResult("closed-form", None, None, lower_bound(problem), infeasible=True)


def _placed(
    model: StepModel, start: Sequence[int | None] | None, effort: Effort, began: float
) -> ExactResult | None:
    """Place requests only, if there are too many sets of requests for our bound."""
    bound = lower_bound(model.problem)
    placements = Placements(model, effort)
    placements.begin(start)
    floors = np.maximum(model.goal.closed, 0)
    sums = aggregate(model, floors, floors, effort)
    if placements.owner is None:
        return None
    if sums is not None:
        placements.aim(sums)
    for _ in range(_PLACEMENTS):
        if placements.value <= bound or effort.is_over:
            break
        placements.improve(placements.owner.copy())
    return ExactResult(
        method="bound",
        assignment=model.assignment(placements.owner),
        objective=placements.value,
        bound=bound,
        seconds=Seconds(search=time.perf_counter() - began),
        certificate=Certificate("shares", bound),
    )


def _searched(
    search: WindowSearch, start: Sequence[int | None] | None, began: float
) -> ExactResult | None:
    search.run(start)
    owner = search.placements.owner
    if owner is None:
        return None
    cases, method = search.cases, "bound"
    rounds = [one for case in cases for one in case.rounds]
    if search.bound < search.closed_form:
        certificate = Certificate("shares", search.closed_form)
    else:
        method = "columns" if len(cases) > 1 else "bound"
        certificate = Certificate(
            "shares",
            search.bound,
            tuple(one.prices for one in rounds),
            search.bounds.scale,
            shares=tuple(one.shares for one in rounds),
            admit_prices=tuple(one.admit_price for one in rounds),
            cases=tuple(_case(search, case) for case in cases),
        )
    return ExactResult(
        method=method,
        assignment=search.model.assignment(owner),
        objective=search.value,
        bound=certificate.bound,
        seconds=Seconds(search=time.perf_counter() - began),
        certificate=certificate,
    )


def _is_hopeless(problem: StepProblem) -> bool:
    """Return whether the problem is clearly infeasible."""
    limit, required = problem.token_capacity, problem.required
    if required is not None and int(required.sum()) > problem.num_admitted:
        return True
    return limit is not None and bool((problem.base > limit[:, None]).any())


def _case(search: WindowSearch, case: Case) -> CaseRow:
    if case.split is None:
        return len(case.rounds), -1, 0, 0
    worker = int(search.model.open[case.split.worker])
    return len(case.rounds), worker, case.split.step, case.split.level
