"""The checker of the secondary program, and a brute-force oracle, independent of the solvers."""

from collections.abc import Sequence

from formulations.second.problem import SecondProblem
from formulations.step.check import (
    assignments,
    check_size,
    plain_loads,
    plain_objective,
)
from formulations.step.check import violations as step_violations


def violations(
    problem: SecondProblem, assignment: Sequence[int | None], objective: int | None = None
) -> dict[str, int]:
    """Return each violated constraint of the secondary program and the amount.

    Parameters
    ----------
    problem : SecondProblem
        Data.
    assignment : sequence of int or None
        Worker of each request, None for those that keep waiting; length N.
    objective : int, optional
        Claimed secondary objective, compared with the recomputed one.

    Returns
    -------
    dict of str to int
        Constraint name to positive amount; empty for a feasible solution.
    """
    violated = step_violations(problem.step, assignment)
    if any(name.startswith(("assignment", "worker")) for name in violated):
        return violated
    first = plain_objective(problem.step, plain_loads(problem.step, assignment))
    if (excess := first - problem.most) > 0:
        violated["most"] = excess
    if objective is not None and (error := abs(objective - second_value(problem, assignment))):
        violated["objective"] = error
    return violated


def second_value(problem: SecondProblem, assignment: Sequence[int | None]) -> int:
    """Return the secondary objective of an assignment, in Python integers without overflow."""
    costs: list[int] = problem.costs.tolist()
    value = sum(cost for cost, g in zip(costs, assignment, strict=True) if g is not None)
    if problem.window is None:
        return value
    return value + plain_objective(problem.window, plain_loads(problem.window, assignment))


def brute_force(problem: SecondProblem) -> tuple[int, list[int | None]] | None:
    """Return the minimum secondary objective and its lexicographically smallest assignment.

    Returns
    -------
    tuple of (int, list of int or None), or None
        None if no assignment is within the limit on the primary objective.

    Raises
    ------
    CapabilityError
        If there are too many assignments to enumerate.
    """
    check_size(problem.step)
    best: tuple[int, list[int | None]] | None = None
    for assignment, loads in assignments(problem.step):
        if plain_objective(problem.step, loads) > problem.most:
            continue
        value = second_value(problem, assignment)
        if (best is None or value < best[0]) and not step_violations(problem.step, assignment):
            best = value, list(assignment)
    return best
