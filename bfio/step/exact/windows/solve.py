"""Solve a step problem by shares and prices, and say what proves the answer."""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bfio.step.exact.effort import CALL, Effort
from bfio.step.exact.result import ExactResult, Seconds
from bfio.step.exact.windows.model import build_model
from bfio.step.exact.windows.search import Case, WindowSearch
from formulations.step.bound import lower_bound
from formulations.step.certificate import CaseRow, Certificate
from formulations.step.problem import StepProblem


def solve_window(
    problem: StepProblem, start: Sequence[int | None] | None, effort: Effort
) -> ExactResult | None:
    """Solve a problem; None if a worker can be used in too many ways.

    Parameters
    ----------
    problem : StepProblem
        Data.
    start : sequence of int or None, optional
        A feasible assignment to begin with.
    effort : Effort
        Limits.
    """
    began = time.perf_counter()
    model = build_model(problem)
    if model is None:
        return None
    effort.spend(CALL + model.modes.loads.size)
    if _is_hopeless(problem) or len(np.unique(model.modes.worker)) < len(model.open):
        return ExactResult("closed-form", None, None, lower_bound(problem), infeasible=True)
    search = WindowSearch(model, effort)
    search.run(start)
    owner = search.placements.owner
    if owner is None:
        return None
    assignment = model.assignment(owner)
    closed = search.closed_form
    found = ExactResult(
        method="bound",
        assignment=assignment,
        objective=search.value,
        bound=max(closed, search.bound),
        seconds=Seconds(search=time.perf_counter() - began),
    )
    if search.bound < closed:
        return replace(found, certificate=Certificate("shares", closed))
    return _certified(found, search)


def _is_hopeless(problem: StepProblem) -> bool:
    """Whether too many are required, or a worker is above its token limit whoever is admitted."""
    limit, required = problem.token_capacity, problem.required
    if required is not None and int(required.sum()) > problem.num_admitted:
        return True
    return limit is not None and bool((problem.base > limit[:, None]).any())


def _case(search: WindowSearch, case: Case, *, whole: bool) -> CaseRow:
    if case.split is None or whole:
        return len(case.rounds), -1, 0, 0
    worker = int(search.model.open[case.split.worker])
    return len(case.rounds), worker, case.split.step, case.split.level


def _certified(found: ExactResult, search: WindowSearch) -> ExactResult:
    # Where cases stay open, only the bounds of the whole prove anything.
    cases = search.cases if search.closed else search.cases[:1]
    rounds = [one for case in cases for one in case.rounds]
    certificate = Certificate(
        "shares-search" if search.searched else "shares",
        search.bound,
        tuple(one.prices for one in rounds),
        search.bounds.scale,
        shares=tuple(one.shares for one in rounds),
        admit_prices=tuple(one.admit_price for one in rounds),
        cases=tuple(_case(search, case, whole=len(cases) == 1) for case in cases),
    )
    method = "columns" if search.searched or len(cases) > 1 else "bound"
    return replace(found, method=method, certificate=certificate)
