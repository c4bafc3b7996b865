"""The fill problem as a program in size classes for CP-SAT: the last resort of the exact method."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bfio.exact.fill import FillProblem
from formulations.arrays import IntArray


@dataclass(frozen=True)
class ResidualResult:
    """What CP-SAT left: a placement (if any), a valid bound, and whether the limit struck."""

    owner: IntArray | None
    bound: int
    finished: bool


def solve_residual(
    core: FillProblem,
    *,
    first_peak: int,
    last_peak: int,
    lower: int,
    owner: IntArray | None,
    time_limit: float | None,
) -> ResidualResult:
    """Minimise ``G·M − Σ b − T`` over ``first_peak <= M <= last_peak``, identical requests pooled.

    Parameters
    ----------
    core : FillProblem
        Data.
    first_peak, last_peak : int
        Peaks that could hold an optimum.
    lower : int
        Proven lower bound on the objective.
    owner : IntArray, optional
        A placement to start from.
    time_limit : float, optional
        Wall-clock seconds.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    values, classes, counts = np.unique(core.sizes, return_inverse=True, return_counts=True)
    capacity = core.capacity.tolist()
    # take[k][g]: requests of size class k that worker g admits.
    take = [
        [model.new_int_var(0, min(n, c), "") for c in capacity] for n in counts.tolist()
    ]
    for row, n in zip(take, counts.tolist(), strict=True):
        if core.admits_all:
            model.add(sum(row) == n)
        else:
            model.add(sum(row) <= n)
    for g, c in enumerate(capacity):
        count = sum(row[g] for row in take)
        if core.admits_all:
            model.add(count <= c)
        else:
            model.add(count == c)
    peak = model.new_int_var(first_peak, last_peak, "peak")
    loads = [
        sum(v * row[g] for v, row in zip(values.tolist(), take, strict=True))
        for g in range(len(capacity))
    ]
    for load, b in zip(loads, core.base.tolist(), strict=True):
        model.add(load + b <= peak)
    objective = core.num_workers * peak - core.total_base - sum(loads)
    model.add(objective >= lower)
    model.minimize(objective)
    if owner is not None:
        _add_hint(model, take, classes, core, owner)
    solver = cp_model.CpSolver()
    if time_limit is not None:
        solver.parameters.max_time_in_seconds = max(time_limit, 0.01)
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return ResidualResult(None, lower, True)
    found = None
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        found = _owner([[solver.value(x) for x in row] for row in take], classes)
    return ResidualResult(found, _valid_bound(solver, lower), status == cp_model.OPTIMAL)


def _valid_bound(solver: Any, lower: int) -> int:
    """CP-SAT's bound is an integer kept as a double: exact below 2^53 only."""
    claimed = solver.best_objective_bound
    return max(lower, round(claimed)) if abs(claimed) < 2.0**53 else lower


def _add_hint(
    model: Any, take: list[list[Any]], classes: IntArray, core: FillProblem, owner: IntArray
) -> None:
    counts = np.zeros((len(take), len(core.base)), dtype=np.int64)
    placed = owner >= 0
    np.add.at(counts, (classes[placed], owner[placed]), 1)
    for row, given in zip(take, counts.tolist(), strict=True):
        for variable, count in zip(row, given, strict=True):
            model.add_hint(variable, count)


def _owner(taken: list[list[int]], classes: IntArray) -> IntArray:
    """Deal the requests of each size class, oldest first, to the workers that take some."""
    owner = np.full(len(classes), -1, dtype=np.int64)
    for k, row in enumerate(taken):
        members = np.flatnonzero(classes == k)
        workers = np.repeat(np.arange(len(row)), row)
        owner[members[: len(workers)]] = workers
    return owner
