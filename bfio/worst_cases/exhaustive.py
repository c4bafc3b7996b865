"""Every instance of a space, one of each class that is alike."""

from bfio.worst_cases.case import Case, Ratio, Space, Target, exceeds
from bfio.worst_cases.found import Found
from formulations.errors import InputError

#: Most instances of a space, before classes are formed.
MAX_INSTANCES = 50_000_000
#: Numbers from here on are told by their magnitude.
_LONGEST_WRITTEN = 10**18


def exhaustive(target: Target, space: Space) -> Found:
    """Find the largest ratio of a space, and prove that it is.

    A policy's cost over a lower bound on the optimum is at least its ratio: where that does not
    exceed the best ratio so far, the optimum is not asked for.

    Parameters
    ----------
    target : Target
        The policy.
    space : Space
        The instances.

    Raises
    ------
    InputError
        If there are too many instances, or an optimum is not proven.
    """
    size = space.size(target)
    if size > MAX_INSTANCES:
        what = f"{_in_digits(size)} instances"
        raise InputError("space", what, "make it smaller, or use --method local")
    best: Case | None = None
    largest: Ratio | None = None
    tried = solved = 0
    for problem in space.instances(target):
        tried += 1
        program = target.program(problem)
        schedule = target.schedule(problem)
        cost = program.objective_value(schedule)
        if not exceeds((cost, program.lower_bound()), largest):
            continue
        solved += 1
        optimum = target.optimum(problem, _most(cost, largest))
        if optimum is None:
            continue
        ratio = cost, program.objective_value(optimum)
        if exceeds(ratio, largest):
            largest, best = ratio, Case(target, problem, schedule, optimum, proven=True)
    if best is None:
        raise InputError("space", "no instance", "make it larger")
    return Found(best, "exhaustive", str(space), tried, solved, is_maximal=True)


def _in_digits(size: int) -> str:
    """Return a number in words; the digits of a huge one fill pages."""
    return (
        f"{size:,}"
        if size < _LONGEST_WRITTEN
        else f"about 10^{size.bit_length() * 30103 // 100000}"
    )


def _most(cost: int, largest: Ratio | None) -> int:
    """Return the largest optimum with which a cost exceeds a ratio."""
    if largest is None or largest[0] == 0:
        return cost
    return -(-cost * largest[1] // largest[0]) - 1
