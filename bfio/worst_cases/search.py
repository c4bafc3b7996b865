"""Searches for worst cases, and `worst_case`, their common entry point."""

import math
from enum import StrEnum
from functools import partial

import numpy as np

from bfio.worst_cases.barrier import BarrierSpace, BarrierTarget, adversary
from bfio.worst_cases.cache import CacheSpace, CacheTarget, steady
from bfio.worst_cases.case import (
    Case,
    Found,
    Ratio,
    Space,
    Target,
    Watch,
    against,
    exceeds,
    unwatched,
)
from formulations.arrays import integer
from formulations.errors import InputError
from formulations.problem_data import ProblemData, member

#: Maximum number of instances of a space, counting equivalent ones.
MAX_INSTANCES = 50_000_000
#: Numbers from here on are written by their magnitude.
_LONGEST_WRITTEN = 10**18


def exhaustive(target: Target, space: Space, watch: Watch = unwatched) -> Found:
    """Find the maximum ratio over a space, with a proof of maximality.

    The policy's cost divided by a lower bound on the optimum is at least its ratio. If that does
    not exceed the best ratio so far, the optimum is not computed.

    Parameters
    ----------
    target : Target
        The policy.
    space : Space
        The space of instances.
    watch : callable, optional
        Is called before every instance but the first.

    Raises
    ------
    InputError
        If there are too many instances, or an optimum is not proven.
    """
    size = space.size(target)
    if size > MAX_INSTANCES:
        what = f"{_in_digits(size)} instances are too many"
        raise InputError("space", what, 'use a smaller space, or method="local"')
    best: Case | None = None
    largest: Ratio | None = None
    tried = solved = 0
    about = str(space)
    for problem in space.instances(target):
        if best is not None:
            watch(partial(Found, best, "exhaustive", about, tried, solved, is_maximal=False))
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
        raise InputError("space", "contains no instance", "use a larger space")
    return Found(best, "exhaustive", about, tried, solved, is_maximal=True)


def _in_digits(size: int) -> str:
    """Return a number as text; a huge one is given by its magnitude."""
    return (
        f"{size:,}"
        if size < _LONGEST_WRITTEN
        else f"about 10^{size.bit_length() * 30103 // 100000}"
    )


def _most(cost: int, largest: Ratio | None) -> int:
    """Return the largest optimum for which ``cost`` / optimum exceeds the ratio ``largest``."""
    if largest is None or largest[0] == 0:
        return cost
    return -(-cost * largest[1] // largest[0]) - 1


#: First and last temperature of a round, for the logarithm of the ratio.
_HOT, _COLD = 0.03, 0.0005
#: Number of cooling rounds; each continues from the previous one.
_ROUNDS = 4
#: Steps without improvement after which the search restarts from a random instance.
_PATIENCE = 400


def local(
    target: Target, space: Space, *, steps: int, seed: int, watch: Watch = unwatched
) -> Found:
    """Search for a large ratio by annealing; only the ratio found is certified.

    A neighbour is accepted if its ratio is larger, or at random. After `_PATIENCE` steps without
    improvement, the search restarts from a random instance.

    Parameters
    ----------
    target : Target
        The policy.
    space : Space
        Space of instances and neighbours.
    steps : int
        Number of instances evaluated.
    seed : int
        Seed of all draws; equal seeds give equal results.
    watch : callable, optional
        Is called before every instance but the first.
    """
    rng = np.random.default_rng(seed)

    def judged(problem: ProblemData) -> Case:
        return against(target, problem, target.better(problem))

    def found() -> Found:
        return Found(best, "local", str(space), tried, tried, is_maximal=False)

    best = here = judged(space.draw(rng))
    idle, tried = 0, 1
    for step in range(1, steps):
        watch(found)
        temperature = _HOT * (_COLD / _HOT) ** ((step * _ROUNDS % steps) / steps)
        problem = space.neighbour(here.problem, rng)
        restarts = idle >= _PATIENCE
        if restarts:
            problem, idle = space.draw(rng), 0
        case = judged(problem)
        idle, tried = idle + 1, tried + 1
        gain = _logarithm(case) - _logarithm(here)
        if restarts or gain >= 0 or rng.random() < math.exp(gain / temperature):
            here = case
        if exceeds((case.cost, case.least), (best.cost, best.least)):
            best, idle = case, 0
    return found()


def _logarithm(case: Case) -> float:
    """Return the logarithm of a ratio; a large number if the least cost is 0."""
    cost, least = case.cost, case.least
    if least == 0:
        return math.log(cost + 1) + 100.0 * (cost > 0)
    return math.log(cost / least)


#: Default and maximum number of instances of a local search.
STEPS, MAX_STEPS = 2000, 10**7


class Method(StrEnum):
    """Search method."""

    #: Enumerate the space; the result is the proven maximum.
    EXHAUSTIVE = "exhaustive"
    #: Integer programs that contain policy and optimum (Algorithm 1); also proven.
    BILEVEL = "bilevel"
    #: Annealing over instances; only the ratio found is certified.
    LOCAL = "local"
    #: An instance that is bad for every policy without knowledge of lengths (barrier, peaks).
    ADVERSARY = "adversary"
    #: A long queue of equal requests, compared with a steady schedule (cache).
    STEADY = "steady"


def worst_case(
    target: CacheTarget | BarrierTarget,
    space: CacheSpace | BarrierSpace,
    method: Method | str = Method.EXHAUSTIVE,
    *,
    steps: int = STEPS,
    seed: int = 0,
    time_limit: float | None = None,
    watch: Watch = unwatched,
) -> Found:
    """Search a space for the instance with the largest ratio of a policy to the optimum.

    Parameters
    ----------
    target : CacheTarget or BarrierTarget
        The policy.
    space : CacheSpace or BarrierSpace
        The space of instances, for the same system.
    method : Method
        Search method.
    steps, seed : int
        Number of instances that ``local`` tries, and the seed of its draws.
    time_limit : float, optional
        Time limit of each integer program that ``bilevel`` solves [s].
    watch : callable, optional
        Receives, on the way, a function that returns the worst case found so far.

    Raises
    ------
    InputError
        If policy and space are of different systems, the method does not support them or an
        option, or the space is too large.
    """
    method = member(Method, method, "method")
    steps = integer(steps, "steps", minimum=1, maximum=MAX_STEPS)
    if steps != STEPS and method is not Method.LOCAL:
        what = f"method {method} does not use it"
        raise InputError("steps", what, 'leave it out, or use method="local"')
    if time_limit is not None and method is not Method.BILEVEL:
        remedy = 'leave it out, or use method="bilevel"'
        raise InputError("time_limit", f"method {method} does not use it", remedy)
    if isinstance(target, CacheTarget) != isinstance(space, CacheSpace):
        raise InputError("space", "does not belong to this system", "use the space of this system")
    if isinstance(space, CacheSpace) and isinstance(target, CacheTarget):
        _check_arrivals(target, space)
    if method is Method.EXHAUSTIVE:
        return exhaustive(target, space, watch)
    if method is Method.LOCAL:
        return local(target, space, steps=steps, seed=seed, watch=watch)
    if method is Method.BILEVEL:
        # Imported here because it loads Pyomo.
        from bfio.worst_cases.bilevel import bilevel

        return bilevel(target, space, time_limit=time_limit, watch=watch)
    if isinstance(target, CacheTarget) and isinstance(space, CacheSpace):
        of_system, search = Method.STEADY, partial(steady, target, space)
    elif isinstance(target, BarrierTarget) and isinstance(space, BarrierSpace):
        of_system, search = Method.ADVERSARY, partial(adversary, target, space)
    if method is of_system:
        return search()
    raise InputError("method", f"{method} does not support this system", 'use method="exhaustive"')


def _check_arrivals(target: CacheTarget, space: CacheSpace) -> None:
    if target.all_at_once and space.last_arrival:
        what = f"{target.name} knows all requests at 0, but arrivals go up to {space.last_arrival}"
        raise InputError("last_arrival", what, "use 0, or mc-sf")
