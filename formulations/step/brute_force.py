"""Every assignment of a tiny step problem, in lexicographic order: the oracle of the others."""

from collections.abc import Iterator

from formulations.errors import CapabilityError
from formulations.step.check import violations
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
    size = (problem.num_workers + 1) ** problem.num_requests
    if size > MAX_ASSIGNMENTS:
        raise CapabilityError(
            "problem",
            f"{problem.num_requests} requests on {problem.num_workers} workers are more than "
            f"{MAX_ASSIGNMENTS} assignments",
            "use --method cp-sat",
        )
    best: tuple[int, list[int | None]] | None = None
    for assignment in _assignments(problem):
        value = problem.objective_value(assignment)
        if (best is None or value < best[0]) and not violations(problem, assignment):
            best = value, list(assignment)
    return best


def _assignments(problem: StepProblem) -> Iterator[list[int | None]]:
    """Yield the assignments that respect slots and full use, smallest first."""
    free = problem.capacity.tolist()
    chosen: list[int | None] = []

    def extend(left_to_admit: int) -> Iterator[list[int | None]]:
        requests_left = problem.num_requests - len(chosen)
        if requests_left == 0:
            yield chosen
            return
        for g in range(problem.num_workers):
            if free[g] and left_to_admit:
                free[g] -= 1
                chosen.append(g)
                yield from extend(left_to_admit - 1)
                chosen.pop()
                free[g] += 1
        if requests_left > left_to_admit:
            chosen.append(None)
            yield from extend(left_to_admit)
            chosen.pop()

    yield from extend(problem.num_admitted)
