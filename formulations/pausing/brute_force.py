"""Every solution of a tiny pausing problem: the oracle of the others."""

from itertools import product

from formulations.errors import CapabilityError
from formulations.pausing.check import time_and_tokens, violations
from formulations.pausing.problem import PausingProblem

#: Most choices of who runs and where who starts, looked through.
MAX_SOLUTIONS = 1_000_000

Solution = tuple[tuple[bool, ...], tuple[int | None, ...]]


def brute_force(problem: PausingProblem) -> tuple[tuple[int, int], Solution] | None:
    """Return the best time and tokens, and the first solution that reaches their ratio.

    Running comes before pausing, lower workers come first, waiting comes last.

    Returns
    -------
    tuple of ((int, int), solution), or None
        Units of time and tokens, who runs and who starts where; None if nothing is feasible.

    Raises
    ------
    CapabilityError
        If there are more than `MAX_SOLUTIONS` solutions.
    """
    size = 2**problem.num_active * (problem.num_workers + 1) ** problem.num_requests
    if size > MAX_SOLUTIONS:
        raise CapabilityError("problem", f"{size:.1e} solutions to look at", "use --method exact")
    best: tuple[tuple[int, int], Solution] | None = None
    places: list[int | None] = [*range(problem.num_workers), None]
    for runs in product((True, False), repeat=problem.num_active):
        for assignment in product(places, repeat=problem.num_requests):
            if violations(problem, runs, assignment):
                continue
            time, tokens = time_and_tokens(problem, runs, assignment)
            if best is None or time * best[0][1] < best[0][0] * tokens:
                best = (time, tokens), (runs, assignment)
    return best
