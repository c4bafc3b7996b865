"""Every assignment of a tiny step, in lexicographic order: the oracle of second objectives."""

from formulations.second.check import second_value
from formulations.second.problem import SecondProblem
from formulations.step.brute_force import assignments, check_size
from formulations.step.check import plain_objective, violations


def brute_force(problem: SecondProblem) -> tuple[int, list[int | None]] | None:
    """Return the least second objective and the lexicographically smallest such assignment.

    Returns
    -------
    tuple of (int, list of int or None), or None
        None if no assignment is within the limit of the first objective.

    Raises
    ------
    CapabilityError
        If there are too many assignments.
    """
    check_size(problem.step)
    best: tuple[int, list[int | None]] | None = None
    for assignment, loads in assignments(problem.step):
        if plain_objective(problem.step, loads) > problem.most:
            continue
        value = second_value(problem, assignment)
        if (best is None or value < best[0]) and not violations(problem.step, assignment):
            best = value, list(assignment)
    return best
