"""The checker of the step program, and a brute-force oracle.

Both read the problem data only and share no code with the solvers.
"""

from collections.abc import Iterator, Sequence

from formulations.errors import CapabilityError
from formulations.step.problem import Objective, StepProblem


def violations(
    problem: StepProblem, assignment: Sequence[int | None], objective: int | None = None
) -> dict[str, int]:
    """Return each violated constraint of the step program and the amount.

    Parameters
    ----------
    problem : StepProblem
        Data.
    assignment : sequence of int or None
        Worker of each request, None for those that keep waiting; length N.
    objective : int, optional
        Claimed scaled objective, compared with the recomputed one.

    Returns
    -------
    dict of str to int
        Constraint name to positive amount; empty for a feasible solution.
    """
    if len(assignment) != problem.num_requests:
        return {"assignment": abs(len(assignment) - problem.num_requests)}
    strangers = {
        f"worker[{i}]": 1
        for i, g in enumerate(assignment)
        if g is not None and not (type(g) is int and 0 <= g < problem.num_workers)
    }
    if strangers:
        return strangers
    loads = plain_loads(problem, assignment)
    violated = _slot_violations(problem, assignment) | _token_violations(problem, loads)
    if problem.required is not None:
        started = zip(problem.required.tolist(), assignment, strict=True)
        violated |= {f"required[{i}]": 1 for i, (m, g) in enumerate(started) if m and g is None}
    if objective is not None:
        value = plain_objective(problem, loads) - plain_benefit(problem, assignment)
        if error := abs(objective - value):
            violated["objective"] = error
    return violated


def plain_loads(problem: StepProblem, assignment: Sequence[int | None]) -> list[list[int]]:
    """Return the loads ``[g][h]`` under an assignment [tokens], in Python integers."""
    loads: list[list[int]] = problem.base.tolist()
    for contribution, worker in zip(problem.contribution.tolist(), assignment, strict=True):
        if worker is not None:
            loads[worker] = [a + b for a, b in zip(loads[worker], contribution, strict=True)]
    return loads


def plain_objective(problem: StepProblem, loads: list[list[int]]) -> int:
    """Return the scaled objective of loads ``[g][h]`` [tokens], in Python integers.

    The benefit is not subtracted, see `plain_benefit`.
    """
    speeds = problem.time_weights.tolist()
    total = 0
    for h, weight in enumerate(problem.weights):
        times = [speed * load[h] for speed, load in zip(speeds, loads, strict=True)]
        if problem.objective is Objective.IMBALANCE:
            total += weight * sum(max(times) - time for time in times)
        elif problem.objective is Objective.MAX_LOAD:
            total += weight * max(times)
        else:
            total += weight * (max(times) - min(times))
    return total


def plain_benefit(problem: StepProblem, assignment: Sequence[int | None]) -> int:
    """Return the total benefit of an assignment, in units of the scaled objective."""
    if problem.benefit is None:
        return 0
    rows: list[list[int]] = problem.benefit.tolist()
    return sum(row[g] for row, g in zip(rows, assignment, strict=True) if g is not None)


def _slot_violations(problem: StepProblem, assignment: Sequence[int | None]) -> dict[str, int]:
    violated: dict[str, int] = {}
    for g, slots in enumerate(problem.capacity.tolist()):
        if (excess := assignment.count(g) - slots) > 0:
            violated[f"capacity[{g}]"] = excess
    admitted = len(assignment) - assignment.count(None)
    if admitted != problem.num_admitted:
        violated["use_slots"] = abs(admitted - problem.num_admitted)
    return violated


def _token_violations(problem: StepProblem, loads: list[list[int]]) -> dict[str, int]:
    if problem.token_capacity is None:
        return {}
    return {
        f"token_capacity[{g},{h}]": load - limit
        for g, limit in enumerate(problem.token_capacity.tolist())
        for h, load in enumerate(loads[g])
        if load > limit
    }


#: Largest number of assignments ``(G+1)^N`` that are enumerated.
MAX_ASSIGNMENTS = 2_000_000


def brute_force(problem: StepProblem) -> tuple[int, list[int | None]] | None:
    """Return the optimum and the lexicographically smallest optimal assignment.

    Requests compare in arrival order, lower workers come first, waiting comes last.

    Returns
    -------
    tuple of (int, list of int or None), or None
        Scaled objective and assignment; None if no assignment is feasible.

    Raises
    ------
    CapabilityError
        If there are more than `MAX_ASSIGNMENTS` assignments.
    """
    check_size(problem)
    best: tuple[int, list[int | None]] | None = None
    for assignment, loads in assignments(problem):
        value = plain_objective(problem, loads) - plain_benefit(problem, assignment)
        if (best is None or value < best[0]) and not violations(problem, assignment):
            best = value, list(assignment)
    return best


def check_size(problem: StepProblem) -> None:
    """Raise if a problem has more than `MAX_ASSIGNMENTS` assignments."""
    size = (problem.num_workers + 1) ** problem.num_requests
    if size > MAX_ASSIGNMENTS:
        raise CapabilityError(
            "problem",
            f"{problem.num_requests} requests on {problem.num_workers} workers are more than "
            f"{MAX_ASSIGNMENTS} assignments",
            'use method="cp-sat"',
        )


def assignments(
    problem: StepProblem,
) -> Iterator[tuple[list[int | None], list[list[int]]]]:
    """Yield each assignment that respects the slots and fills them, with its loads.

    Assignments come in lexicographic order. Both lists are reused and changed in place.
    """
    free = problem.capacity.tolist()
    loads: list[list[int]] = problem.base.tolist()
    contributions = problem.contribution.tolist()
    chosen: list[int | None] = []

    def extend(left_to_admit: int) -> Iterator[tuple[list[int | None], list[list[int]]]]:
        request = len(chosen)
        if request == problem.num_requests:
            yield chosen, loads
            return
        for g in range(problem.num_workers):
            if free[g] and left_to_admit:
                before = loads[g]
                loads[g] = [a + b for a, b in zip(before, contributions[request], strict=True)]
                free[g] -= 1
                chosen.append(g)
                yield from extend(left_to_admit - 1)
                chosen.pop()
                free[g] += 1
                loads[g] = before
        if problem.num_requests - request > left_to_admit:
            chosen.append(None)
            yield from extend(left_to_admit)
            chosen.pop()

    yield from extend(problem.num_admitted)
