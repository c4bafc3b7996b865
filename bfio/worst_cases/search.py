"""One door to all searches for worst cases."""

from enum import StrEnum
from functools import partial

from bfio.worst_cases.adversary import adversary
from bfio.worst_cases.barrier import BarrierSpace, BarrierTarget
from bfio.worst_cases.bilevel import bilevel
from bfio.worst_cases.cache import CacheSpace, CacheTarget
from bfio.worst_cases.exhaustive import exhaustive
from bfio.worst_cases.found import Found
from bfio.worst_cases.local import local
from bfio.worst_cases.steady import steady
from formulations.arrays import integer
from formulations.errors import InputError
from formulations.problem_data import member

#: Instances that a local search looks at by default, and at most.
STEPS, MAX_STEPS = 2000, 10**7


class Method(StrEnum):
    """How to search."""

    #: Every instance of the space; what it finds is proven to be the worst there.
    EXHAUSTIVE = "exhaustive"
    #: Integer programs with policy and optimum inside (Algorithm 1); proven as well.
    BILEVEL = "bilevel"
    #: Annealing over instances; proves nothing but the ratio found.
    LOCAL = "local"
    #: The instance that no policy blind to lengths escapes (barrier, peaks).
    ADVERSARY = "adversary"
    #: A long queue of equal requests against a steady start of them (cache).
    STEADY = "steady"


def worst_case(
    target: CacheTarget | BarrierTarget,
    space: CacheSpace | BarrierSpace,
    method: Method | str = Method.EXHAUSTIVE,
    *,
    steps: int = STEPS,
    seed: int = 0,
    time_limit: float | None = None,
) -> Found:
    """Search a space for the instance on which a policy is worst beside the optimum.

    Parameters
    ----------
    target : CacheTarget or BarrierTarget
        The policy.
    space : CacheSpace or BarrierSpace
        The instances, of the same system.
    method : Method
        How to search.
    steps, seed : int
        Instances that ``local`` looks at, and the seed of its draws.
    time_limit : float, optional
        Seconds for each program of ``bilevel``.

    Raises
    ------
    InputError
        If policy and space do not go together, the method does not know them or reads no such
        option, or the space is too large for it.
    """
    method = member(Method, method, "method")
    steps = integer(steps, "steps", minimum=1, maximum=MAX_STEPS)
    if steps != STEPS and method is not Method.LOCAL:
        raise InputError("steps", f"{method} takes none", "leave it out, or use --method local")
    if time_limit is not None and method is not Method.BILEVEL:
        remedy = "leave it out, or use --method bilevel"
        raise InputError("time_limit", f"{method} solves no program that it ends", remedy)
    if isinstance(target, CacheTarget) != isinstance(space, CacheSpace):
        raise InputError("space", "is of another system than the policy", "use one of its own")
    if isinstance(space, CacheSpace) and isinstance(target, CacheTarget):
        _check_arrivals(target, space)
    if method is Method.EXHAUSTIVE:
        return exhaustive(target, space)
    if method is Method.LOCAL:
        return local(target, space, steps=steps, seed=seed)
    if method is Method.BILEVEL:
        return bilevel(target, space, time_limit=time_limit)
    if isinstance(target, CacheTarget) and isinstance(space, CacheSpace):
        of_system, search = Method.STEADY, partial(steady, target, space)
    elif isinstance(target, BarrierTarget) and isinstance(space, BarrierSpace):
        of_system, search = Method.ADVERSARY, partial(adversary, target, space)
    if method is of_system:
        return search()
    raise InputError("method", f"{method} is of the other system", "use --method exhaustive")


def _check_arrivals(target: CacheTarget, space: CacheSpace) -> None:
    if target.all_at_once and space.last_arrival:
        what = f"{target.name} knows all requests at 0, but arrivals go up to {space.last_arrival}"
        raise InputError("last_arrival", what, "use 0, or mc-sf")
