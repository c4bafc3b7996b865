"""One worker with a KV cache: its small instances, and the policies of `bfio.kvcache` on them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, pairwise, product
from math import comb, inf
from typing import TypeAlias

import numpy as np

from bfio.kvcache.look_ahead import LookAhead, Order
from bfio.kvcache.registry import build
from bfio.kvcache.simulation import serve
from bfio.worst_cases.limits import check_counts
from bfio.worst_cases.within import least_within
from formulations.errors import InputError
from formulations.hindsight_latency import (
    Convention,
    LatencyProblem,
    LatencyProgram,
)
from formulations.problem_data import member

#: Arrival and output of a request.
Request: TypeAlias = tuple[int, int]
#: Orders that the quick schedule tries.
_DECODES = 400


@dataclass(frozen=True)
class CacheSpace:
    """Requests of a common prompt for one worker.

    The order in which requests are listed is no part of an instance for a policy that does not
    look at it, and neither is the round from which time is counted: the first arrival is 0.

    Parameters
    ----------
    requests : int
        ``n >= 1``.
    memory, least_memory : int
        Largest and least ``M`` [tokens]; by default every M in which one token of output fits.
    prompt : int
        Common prompt ``s`` [tokens].
    last_arrival : int
        Latest arrival [rounds]; at 0 everything is there at the start.
    longest : int, optional
        Largest output [tokens]; by default what fits alone.
    convention : Convention
        Which rounds a request occupies.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    requests: int
    memory: int
    least_memory: int | None = None
    prompt: int = 1
    last_arrival: int = 0
    longest: int | None = None
    convention: Convention = Convention.HALF_OPEN

    def __post_init__(self) -> None:
        """Validate, and turn texts into what they name."""
        check_counts(self, ("requests", "memory", "prompt"), ("last_arrival",))
        check_counts(
            self, [n for n in ("least_memory", "longest") if getattr(self, n) is not None]
        )
        object.__setattr__(self, "convention", member(Convention, self.convention, "convention"))
        if not self.memories:
            what = f"a request of prompt {self.prompt} fits no memory up to {self.memory}"
            raise InputError("memory", what, "raise it, or lower prompt and least memory")

    def __str__(self) -> str:
        """Say what is in it."""
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
        """Every M, ascending."""
        fits = self.prompt + 1 - (self.convention is Convention.PRINTED)
        return range(max(fits, self.least_memory or 0), self.memory + 1)

    def outputs(self, memory: int) -> range:
        """Return every output that fits a memory alone."""
        most = memory - self.prompt + (self.convention is Convention.PRINTED)
        return range(1, 1 + min(most, self.longest or most))

    def size(self, target: "CacheTarget") -> int:
        """Return how many instances there are, up to those that do not start at 0."""
        kinds = [(self.last_arrival + 1) * len(self.outputs(m)) for m in self.memories]
        n = self.requests
        return sum(comb(k + n - 1, n) if target.ignores_order else k**n for k in kinds)

    def instances(self, target: "CacheTarget") -> Iterator[LatencyProblem]:
        """Yield one instance of each class, small memories first."""
        for memory in self.memories:
            kinds = list(product(range(self.last_arrival + 1), self.outputs(memory)))
            for requests in _listed(kinds, self.requests, unordered=target.ignores_order):
                if requests[0][0] == 0:
                    yield self.problem(memory, requests)

    def problem(self, memory: int, requests: Sequence[Request]) -> LatencyProblem:
        """Return the instance of a memory and rows of arrival and output."""
        arrival, output = (
            np.array(column, dtype=np.int64) for column in zip(*requests, strict=True)
        )
        prompt = np.full(len(requests), self.prompt, dtype=np.int64)
        return LatencyProblem(memory, arrival, prompt, output, self.convention)

    def draw(self, rng: np.random.Generator) -> LatencyProblem:
        """Return a random instance, its outputs of a few lengths."""
        memory = int(rng.choice(self.memories))
        kinds = rng.choice(self.outputs(memory), min(4, self.requests))
        arrivals = rng.integers(0, self.last_arrival + 1, self.requests)
        return self._canonical(
            memory, arrivals.tolist(), rng.choice(kinds, self.requests).tolist()
        )

    def neighbour(self, problem: LatencyProblem, rng: np.random.Generator) -> LatencyProblem:
        """Change the memory, one request, or all requests of one length."""
        memory, (arrivals, outputs) = problem.memory, _columns(problem)
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


def _columns(problem: LatencyProblem) -> tuple[list[int], list[int]]:
    return problem.arrival.tolist(), problem.output.tolist()


def _listed(
    kinds: Sequence[Request], count: int, *, unordered: bool
) -> Iterator[tuple[Request, ...]]:
    """Yield lists of requests by arrival; those of one arrival in every order, or in one."""
    if unordered:
        yield from combinations_with_replacement(kinds, count)
        return
    for requests in product(kinds, repeat=count):
        if all(a[0] <= b[0] for a, b in pairwise(requests)):
            yield requests


class CacheTarget:
    """A policy of `bfio.kvcache` in unit rounds, against the least total latency.

    Parameters
    ----------
    policy : str
        Name, with options; it must finish and draw nothing.
    """

    def __init__(self, policy: str) -> None:
        made = build(policy)
        self.name = policy
        #: Whether ties between requests of one prompt go by arrival and output alone.
        self.ignores_order = isinstance(made, LookAhead) and made.order is Order.SHORTEST
        #: Whether it takes requests only if all are there at the start.
        self.all_at_once = isinstance(made, LookAhead) and made.all_at_once

    def program(self, problem: LatencyProblem) -> LatencyProgram:
        """Return the hindsight latency program."""
        return LatencyProgram(problem)

    def schedule(self, problem: LatencyProblem) -> tuple[int, ...]:
        """Return the starts of the policy's run."""
        run = serve(problem, self.name)
        if not run.is_finished:
            raise InputError(self.name, f"it did not finish ({run.reason})", "use another policy")
        return tuple(run.start.tolist())

    def optimum(self, problem: LatencyProblem, most: int) -> tuple[int, ...] | None:
        """Return optimal starts; None if no schedule has a total latency of at most ``most``."""
        return least_within(problem, most)

    def better(self, problem: LatencyProblem, decodes: int = _DECODES) -> tuple[int, ...]:
        """Return the starts that an annealing over orders finds."""
        # Loads compiled kernels, which a short enumeration does without.
        from bfio.hindsight.latency.normal_form import normal_form
        from bfio.hindsight.latency.schedule import good_starts

        form = normal_form(problem)
        return form.starts(good_starts(form, decodes, inf))
