"""Every assignment of a tiny step problem, in lexicographic order: the oracle of the others."""

from collections.abc import Iterator

from formulations.errors import CapabilityError
from formulations.step.check import plain_benefit, plain_objective, violations
from formulations.step.problem import StepProblem

#: Most assignments ``(G+1)^N`` looked through.
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
    """Refuse a problem of more than `MAX_ASSIGNMENTS` assignments."""
    size = (problem.num_workers + 1) ** problem.num_requests
    if size > MAX_ASSIGNMENTS:
        raise CapabilityError(
            "problem",
            f"{problem.num_requests} requests on {problem.num_workers} workers are more than "
            f"{MAX_ASSIGNMENTS} assignments",
            "use --method cp-sat",
        )


def assignments(
    problem: StepProblem,
) -> Iterator[tuple[list[int | None], list[list[int]]]]:
    """Yield the assignments that respect slots and full use, smallest first, and their loads.

    Both lists are the same objects every time, changed in place.
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
