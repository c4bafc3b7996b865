"""Worst cases for one worker with a KV cache: small instances, and policies of `bfio.kvcache`.

`least_within` computes the minimum total latency of a few requests within a limit.

`steady` is an instance of equal requests in a long queue: a policy that starts as many as fit at
once is compared with a schedule that starts a few in every round.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, pairwise, product
from math import comb, inf
from typing import TypeAlias

import numpy as np

from bfio.kvcache.policy import LookAhead, Order, build, clearing_of
from bfio.kvcache.simulation import serve
from bfio.worst_cases.case import MAX_REQUESTS, Found, against, check_counts, refused_as_random
from bfio.worst_cases.starts import StartSearch
from formulations.errors import InputError
from formulations.hindsight_latency import (
    Convention,
    LatencyProblem,
    LatencyProgram,
    total_latency,
)
from formulations.problem_data import member


def least_within(problem: LatencyProblem, most: int) -> tuple[int, ...] | None:
    """Return starts of minimum total latency; None if no schedule has at most ``most``.

    Requests are placed one after the other, the longest first, at every start that the limit
    allows; identical requests start in order. If the limit is close to the sum of outputs, the
    total delay is small and there are few vectors to enumerate.

    Parameters
    ----------
    problem : LatencyProblem
        A problem with few requests.
    most : int
        Upper limit on the total latency [rounds].
    """
    convention, outputs = problem.convention, problem.output.tolist()
    first = convention.first_age
    columns = zip(problem.arrival.tolist(), problem.prompt.tolist(), outputs, strict=True)
    kinds = [(a, s + first, convention.last_age(o) - first + 1) for a, s, o in columns]
    search = StartSearch(
        problem.memory,
        kinds,
        most - total_latency(problem, [0] * len(kinds)),
        order=sorted(range(len(kinds)), key=lambda i: (-outputs[i], kinds[i])),
        fixed={},
    )
    return search.schedules[-1] if search.schedules else None


#: Arrival and output of a request.
Request: TypeAlias = tuple[int, int]
#: Number of orders that the quick schedule tries.
_DECODES = 400


@dataclass(frozen=True)
class CacheSpace:
    """Instances with requests of a common prompt for one worker.

    For policies that ignore the listing order of requests, an instance is a multiset of requests.
    Time is counted from the first arrival, which is 0.

    Parameters
    ----------
    requests : int
        ``n >= 1``.
    memory, least_memory : int
        Maximum and minimum ``M`` [tokens]; by default every M that fits one output token.
    prompt : int
        Common prompt ``s`` [tokens].
    last_arrival : int
        Latest arrival [rounds]; if 0, all requests arrive at the start.
    longest : int, optional
        Maximum output [tokens]; by default the maximum that fits alone.
    convention : Convention
        Definition of the occupied rounds.

    Raises
    ------
    InputError
        If a value is invalid.
    """

    requests: int
    memory: int
    least_memory: int | None = None
    prompt: int = 1
    last_arrival: int = 0
    longest: int | None = None
    convention: Convention = Convention.HALF_OPEN

    def __post_init__(self) -> None:
        """Validate the fields, and convert texts to their values."""
        check_counts(self, ("requests", "memory", "prompt"), ("last_arrival",))
        check_counts(
            self, [n for n in ("least_memory", "longest") if getattr(self, n) is not None]
        )
        object.__setattr__(self, "convention", member(Convention, self.convention, "convention"))
        if not self.memories:
            what = f"a request of prompt {self.prompt} fits no memory up to {self.memory}"
            raise InputError("memory", what, "raise it, or lower prompt and least memory")

    def __str__(self) -> str:
        """Return a description of the instances."""
        memories, late = self.memories, self.last_arrival
        longest = "what fits" if self.longest is None else str(self.longest)
        least = f"{memories[0]}..{memories[-1]}" if len(memories) > 1 else str(memories[0])
        arrivals = f", arrivals up to {late}" if late else ", all at 0"
        return (
            f"{self.requests} requests, prompt {self.prompt}, outputs up to {longest}, memory "
            f"{least}, convention {self.convention}{arrivals}"
        )

    @property
    def memories(self) -> range:
        """All values of M, ascending."""
        fits = self.prompt + 1 - (self.convention is Convention.PRINTED)
        return range(max(fits, self.least_memory or 0), self.memory + 1)

    def outputs(self, memory: int) -> range:
        """Return all outputs that fit a memory alone."""
        most = memory - self.prompt + (self.convention is Convention.PRINTED)
        return range(1, 1 + min(most, self.longest or most))

    def size(self, target: "CacheTarget") -> int:
        """Return the number of instances, including those that do not start at 0."""
        kinds = [(self.last_arrival + 1) * len(self.outputs(m)) for m in self.memories]
        n = self.requests
        return sum(comb(k + n - 1, n) if target.ignores_order else k**n for k in kinds)

    def instances(self, target: "CacheTarget") -> Iterator[LatencyProblem]:
        """Yield one instance of each class, in increasing order of memory."""
        for memory in self.memories:
            kinds = list(product(range(self.last_arrival + 1), self.outputs(memory)))
            for requests in _listed(kinds, self.requests, unordered=target.ignores_order):
                if requests[0][0] == 0:
                    yield self.problem(memory, requests)

    def problem(self, memory: int, requests: Sequence[Request]) -> LatencyProblem:
        """Return the instance with a memory and rows of arrival and output."""
        arrival, output = np.array(requests, dtype=np.int64).T
        prompt = np.full(len(requests), self.prompt, dtype=np.int64)
        return LatencyProblem(memory, arrival, prompt, output, self.convention)

    def draw(self, rng: np.random.Generator) -> LatencyProblem:
        """Return a random instance whose outputs have a few distinct lengths."""
        memory = int(rng.choice(self.memories))
        kinds = rng.choice(self.outputs(memory), min(4, self.requests))
        arrivals = rng.integers(0, self.last_arrival + 1, self.requests)
        return self._canonical(
            memory, arrivals.tolist(), rng.choice(kinds, self.requests).tolist()
        )

    def neighbour(self, problem: LatencyProblem, rng: np.random.Generator) -> LatencyProblem:
        """Return an instance with a changed memory, request, or output of equal requests."""
        memory, arrivals = problem.memory, problem.arrival.tolist()
        outputs = problem.output.tolist()
        move, i, j = (int(rng.integers(most)) for most in (5, self.requests, self.requests))
        step = int(rng.choice([-2, -1, 1, 2]))
        if move == 0:
            memory = min(max(memory + step, self.memories[0]), self.memories[-1])
        elif move == 1:
            arrivals[i], outputs[i] = arrivals[j], outputs[j]
        elif move == 2:
            arrivals[i] = min(max(arrivals[i] + step, 0), self.last_arrival)
        else:
            old, together = outputs[i], move == 4
            for k in range(self.requests):
                if k == i or (together and outputs[k] == old):
                    outputs[k] = old + step
        return self._canonical(memory, arrivals, outputs)

    def _canonical(
        self, memory: int, arrivals: Sequence[int], outputs: Sequence[int]
    ) -> LatencyProblem:
        first, fitting = min(arrivals), self.outputs(memory)
        rows = (
            (a - first, min(max(o, 1), fitting[-1]))
            for a, o in zip(arrivals, outputs, strict=True)
        )
        return self.problem(memory, sorted(rows))


def _listed(
    kinds: Sequence[Request], count: int, *, unordered: bool
) -> Iterator[tuple[Request, ...]]:
    """Yield lists of requests sorted by arrival; ties in every order unless ``unordered``."""
    if unordered:
        yield from combinations_with_replacement(kinds, count)
        return
    for requests in product(kinds, repeat=count):
        if all(a[0] <= b[0] for a, b in pairwise(requests)):
            yield requests


class CacheTarget:
    """A policy of `bfio.kvcache` in unit rounds, compared with the minimum total latency.

    Parameters
    ----------
    policy : str
        Name with options; the policy must finish and be deterministic.
    """

    def __init__(self, policy: str) -> None:
        made = build(policy)
        if not clearing_of(made).is_full:
            raise refused_as_random(policy)
        self.name = policy
        #: Whether ties between requests of a common prompt depend only on arrival and output.
        self.ignores_order = isinstance(made, LookAhead) and made.order is Order.SHORTEST
        #: Whether the policy requires all requests to arrive at the start.
        self.all_at_once = isinstance(made, LookAhead) and made.all_at_once

    def program(self, problem: LatencyProblem) -> LatencyProgram:
        """Return the hindsight latency program."""
        return LatencyProgram(problem)

    def schedule(self, problem: LatencyProblem) -> tuple[int, ...]:
        """Return the starts in the run of the policy."""
        run = serve(problem, self.name)
        if not run.is_finished:
            what = f"the policy did not finish ({run.reason})"
            raise InputError(self.name, what, "use another policy")
        return tuple(run.start.tolist())

    def optimum(self, problem: LatencyProblem, most: int) -> tuple[int, ...] | None:
        """Return optimal starts; None if no schedule has a total latency of at most ``most``."""
        return least_within(problem, most)

    def better(self, problem: LatencyProblem, decodes: int = _DECODES) -> tuple[int, ...]:
        """Return the starts found by annealing over orders."""
        # Imported here: it loads compiled kernels, which a short enumeration does not need.
        from bfio.hindsight.latency.configurations import normal_form
        from bfio.hindsight.latency.schedule import good_starts

        form = normal_form(problem)
        return form.starts(good_starts(form, decodes, inf))


def steady(target: CacheTarget, space: CacheSpace) -> Found:
    """Return the instance of equal requests with the largest memory, and the steady schedule.

    Requests that start together end together and then release all their memory, so on average half
    of it is unused. Starting ``⌊M / area⌋`` requests in every round, where the area of a request
    is the sum of its tokens over its rounds, uses the memory fully in the long run.

    Parameters
    ----------
    target : CacheTarget
        The policy.
    space : CacheSpace
        Requests, memory, prompt and convention; ``longest`` is the output of all requests.

    Raises
    ------
    InputError
        If not even one request could start in every round, or there are too many requests.
    """
    if space.longest is None or space.requests > MAX_REQUESTS:
        what = f"is not given, or there are more than {MAX_REQUESTS:,} requests"
        raise InputError("longest", what, "give longest, and use fewer requests")
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
    """Return the sum of the first request's tokens over its rounds."""
    convention = problem.convention
    last = convention.last_age(int(problem.output[0]))
    return sum(int(problem.prompt[0]) + age for age in range(convention.first_age, last + 1))
