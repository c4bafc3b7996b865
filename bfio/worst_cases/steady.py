"""Equal requests in a long queue: as many as fit at once, against a few in every round."""

from bfio.worst_cases.cache import CacheSpace, CacheTarget
from bfio.worst_cases.case import against
from bfio.worst_cases.found import Found
from bfio.worst_cases.limits import MAX_REQUESTS
from formulations.errors import InputError
from formulations.hindsight_latency import LatencyProblem


def steady(target: CacheTarget, space: CacheSpace) -> Found:
    """Return the largest memory's instance of equal requests, with the steady schedule.

    What starts at once ends at once, and then all its memory is free: on average half of it was.
    ``⌊M / area⌋`` requests in every round, where the area of one is its tokens times its rounds,
    leave nothing free in the long run.

    Parameters
    ----------
    target : CacheTarget
        The policy.
    space : CacheSpace
        Requests, memory, prompt and convention; ``longest`` is the output of all.

    Raises
    ------
    InputError
        If no request could start in every round, or there are too many.
    """
    if space.longest is None or space.requests > MAX_REQUESTS:
        raise InputError("longest", "is the output of all requests", "give it, and fewer requests")
    problem = space.problem(space.memory, [(0, space.longest)] * space.requests)
    rate = space.memory // _area(problem)
    if rate < 1:
        what = f"a request of area {_area(problem)} cannot start in every round"
        raise InputError("memory", f"{space.memory}: {what}", f"use {_area(problem)} or more")
    case = against(target, problem, tuple(i // rate for i in range(space.requests)))
    told = (
        f"{space.requests} requests of prompt {space.prompt} and output {space.longest}, memory "
        f"{space.memory}, convention {space.convention}, all at 0"
    )
    return Found(case, "steady", told, 1, 0, is_maximal=False)


def _area(problem: LatencyProblem) -> int:
    """Return the tokens times rounds that the first request fills."""
    convention = problem.convention
    last = convention.last_age(int(problem.output[0]))
    return sum(int(problem.prompt[0]) + age for age in range(convention.first_age, last + 1))
