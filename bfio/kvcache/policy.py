"""Policies: what they see and answer, and the built-in ones.

What a policy is: a callable from the state before a batch to the requests to start.

The least a user writes is a function::

    def one_at_a_time(state):
        return [0] if len(state.waiting) and not len(state.running) else []

It may carry attributes, all optional:

``clearing``
    A `Clearing`: what happens when the running requests outgrow the memory (all are cleared by
    default).
``delta``
    Tokens added to predicted outputs, so that a prediction at most that much too short is safe
    (0 by default). This is ``ô + δ``: the published remark subtracts, which would not be safe.
``memoryless``
    True if the decision follows from waiting and running requests alone. A run that comes back
    to a state without a completion is then known to loop.
``first_come``
    True if, besides, it starts requests strictly in order of arrival: while one waits, those
    behind it change nothing.
``check``
    Called with the instance before a run; raises `InputError` if the policy cannot serve it.
``statistics``
    Called after a run; returns a mapping that is kept with it.

Policies of the KV-cache paper that look ahead: MC-SF (Algorithm 2), MC-Benchmark, Algorithm 1.

All go through the waiting requests in some order and start each one that keeps Equation (1) true
for all time. With exact lengths the memory is never exceeded. With predicted ones it can be, but
only by a request that has outlived its prediction, which then grows: there are at most Σ o_i
overflows, and every run ends.

Policies without look-ahead that keep a share α of the memory free, as vLLM does.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np

from bfio.common.named_options import Named, by_name, read_named
from bfio.common.options import RATIONAL, TEXT, WHOLE, option
from bfio.common.users_code import load_callable
from bfio.kvcache.instance import CacheInstance
from formulations.arrays import IntArray, integer
from formulations.errors import InputError
from formulations.problem_data import member
from formulations.rationals import exact_rational


@dataclass(frozen=True)
class Waiting:
    """Requests that could start now, in arrival order; the same object until they change.

    Parameters
    ----------
    request : IntArray
        Shape (N,): index of each in the instance.
    arrival : IntArray
        Shape (N,): when it arrived [clock units].
    first_need : IntArray
        Shape (N,): tokens it needs in its first batch; each later batch needs one more.
    num_batches : IntArray
        Shape (N,): batches it is believed to occupy (exact unless lengths are predicted).
    """

    request: IntArray
    arrival: IntArray
    first_need: IntArray
    num_batches: IntArray

    def __len__(self) -> int:
        return len(self.request)

    @cached_property
    def shortest_first(self) -> list[int]:
        """Positions by believed length, ties in arrival order."""
        order: list[int] = np.argsort(self.num_batches, kind="stable").tolist()
        return order

    @cached_property
    def needs(self) -> list[tuple[int, int]]:
        """Tokens in the first batch and number of batches of each, as plain integers."""
        return list(zip(self.first_need.tolist(), self.num_batches.tolist(), strict=True))


@dataclass(frozen=True)
class CacheState:
    """The worker before one batch, after completions, clearing and arrivals.

    A policy answers with the positions in ``waiting`` of the requests to start. Together with the
    running ones they must fit into the coming batch.

    Parameters
    ----------
    clock : int
        Now [clock units].
    memory : int
        ``M`` [tokens].
    waiting : Waiting
        Requests that could start.
    running : IntArray
        Shape (A,): indices of the running requests, in arrival order.
    need : IntArray
        Shape (A,): tokens that each needs in the coming batch; one more in each later batch.
    batches_left : IntArray
        Shape (A,): batches that each is believed to occupy still, the coming one included.
    rng : numpy.random.Generator
        The run's own generator; a policy draws from no other.
    """

    clock: int
    memory: int
    waiting: Waiting
    running: IntArray
    need: IntArray
    batches_left: IntArray
    rng: np.random.Generator

    @property
    def used(self) -> int:
        """Tokens that the running requests need in the coming batch."""
        return int(self.need.sum())


#: What is said of the options of policies that clear.
BETA = "β: chance that an overflow clears a running request, in [1/10000, 1]"
PAUSE = "time that passes after each draw that did not free enough [clock units]"

_MAX_PAUSE = 10**12
#: Below it an overflow could take millions of draws.
_LEAST_BETA = Fraction(1, 10_000)


@runtime_checkable
class CachePolicy(Protocol):
    """Anything callable with a `CacheState` that returns positions of waiting requests."""

    def __call__(self, state: CacheState, /) -> Sequence[int]:
        """Return the positions in ``state.waiting`` of the requests to start."""
        ...


@dataclass(frozen=True)
class Clearing:
    """What happens when the coming batch would exceed the memory.

    Each running request, in arrival order, is cleared with the given probability: its tokens are
    dropped and it waits again with its original arrival. Draws repeat until the others fit.

    Parameters
    ----------
    probability : Fraction
        ``β``, in [1/10000, 1]; 1 clears all.
    pause : int
        Time that passes after each draw that did not free enough [clock units].
    """

    probability: Fraction = Fraction(1)
    pause: int = 0

    def __post_init__(self) -> None:
        """Validate, and read a text exactly."""
        beta = exact_rational(self.probability, "beta")
        object.__setattr__(self, "probability", beta)
        if not _LEAST_BETA <= beta <= 1:
            raise InputError("beta", f"{beta} is out of range", f"use {_LEAST_BETA} <= beta <= 1")
        integer(self.pause, "pause", maximum=_MAX_PAUSE)

    @property
    def is_full(self) -> bool:
        """Whether everything is cleared."""
        return self.probability == 1


def clearing_of(policy: CachePolicy) -> Clearing:
    """Return the policy's clearing rule.

    Raises
    ------
    InputError
        If it is anything else.
    """
    found = getattr(policy, "clearing", Clearing())
    if not isinstance(found, Clearing):
        raise InputError("clearing", f"{found!r:.40} is no rule", "set it to a Clearing")
    return found


def delta_of(policy: CachePolicy) -> int:
    """Return the tokens that the policy adds to predicted outputs."""
    return integer(getattr(policy, "delta", 0), "delta")


#: Tokens needed in the coming batch, and batches still occupied, the coming one included.
Load: TypeAlias = tuple[int, int]


def running_loads(state: CacheState) -> list[Load]:
    """Return the loads of the running requests."""
    return list(zip(state.need.tolist(), state.batches_left.tolist(), strict=True))


def memory_after(loads: Iterable[Load], delay: int) -> int:
    """Return the tokens in the cache ``delay`` batches after the coming one."""
    return sum(need + delay for need, batches in loads if batches > delay)


def fits(loads: Sequence[Load], memory: int) -> bool:
    """Whether the requests stay within the memory if nothing else starts.

    Between completions the memory grows, so it is greatest in the last batch of some request;
    only those batches are looked at (the paper's checkpoints, the candidate's own included).
    """
    checkpoints = {batches - 1 for _, batches in loads}
    return all(memory_after(loads, delay) <= memory for delay in checkpoints)


class Order(StrEnum):
    """In which order waiting requests are tried."""

    SHORTEST = "shortest"
    ARRIVAL = "arrival"


class Scan(StrEnum):
    """What follows a request that does not fit.

    With equal prompts both do the same in shortest-first order, because any later request needs
    at least as much.
    """

    BREAK = "break"
    CONTINUE = "continue"


@dataclass(frozen=True)
class LookAhead:
    """Start requests in order while Equation (1) holds at every completion.

    Parameters
    ----------
    order : Order
        Shortest output first (MC-SF) or arrival (MC-Benchmark); ties by arrival.
    all_at_once : bool
        Whether requests must all be there at the start (Algorithm 1 of the KV-cache paper).
    scan : Scan
        Stop at the first request that does not fit, or try the later ones too.
    delta : int
        ``δ``: tokens added to predicted outputs.
    beta, pause
        What follows when a prediction was too short, see `Clearing`.

    Raises
    ------
    InputError
        If an option breaks its rule.
    """

    order: Order = Order.SHORTEST
    all_at_once: bool = False
    scan: Scan = option(
        Scan.BREAK,
        TEXT,
        "S",
        "break: stop at a request that does not fit; continue: try later ones",
    )
    delta: int = option(0, WHOLE, "D", "δ: tokens added to predicted outputs")
    beta: Fraction = option(Fraction(1), RATIONAL, "B", BETA)
    pause: int = option(0, WHOLE, "P", PAUSE)

    #: See `bfio.kvcache.policy`.
    memoryless: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Validate, and turn texts into what they name."""
        object.__setattr__(self, "scan", member(Scan, self.scan, "scan"))
        integer(self.delta, "delta")
        object.__setattr__(self, "beta", self.clearing.probability)

    @property
    def clearing(self) -> Clearing:
        """See `bfio.kvcache.policy`."""
        return Clearing(self.beta, self.pause)

    @property
    def first_come(self) -> bool:
        """See `bfio.kvcache.policy`."""
        return self.order is Order.ARRIVAL and self.scan is Scan.BREAK

    def check(self, instance: CacheInstance) -> None:
        """Refuse later arrivals where the algorithm knows none."""
        late = np.flatnonzero(instance.arrival)
        if self.all_at_once and len(late):
            raise InputError(
                f"requests[{late[0]}].arrival",
                f"{instance.arrival[late[0]]}, but semi-online knows all requests at 0",
                "set every arrival to 0, or use mc-sf",
            )

    def __call__(self, state: CacheState) -> list[int]:
        """Return the positions of the requests to start."""
        loads = running_loads(state)
        chosen: list[int] = []
        waiting = state.waiting
        shortest = self.order is Order.SHORTEST
        for position in waiting.shortest_first if shortest else range(len(waiting)):
            candidate = waiting.needs[position]
            if fits([*loads, candidate], state.memory):
                loads.append(candidate)
                chosen.append(position)
            elif self.scan is Scan.BREAK:
                break
        return chosen


class Admission(StrEnum):
    """When the protected share is looked at."""

    #: Before each prompt, with all that the coming batch needs so far.
    PROMPT = "prompt"
    #: Once per batch, with what the running requests need; then prompts start up to M.
    BATCH = "batch"


@dataclass(frozen=True)
class Protection:
    """Start requests in order of arrival while the coming batch needs at most ``(1-α)·M``.

    The running requests grow and may outgrow M; then they are all cleared. An empty worker starts
    the oldest request whatever its size, which fits alone; nothing would ever start it otherwise.

    The code published with the later version looks at the share once per batch and then lets in
    all who wait, up to a number of requests that its files do not give: `Admission.BATCH` with a
    ``cap``. It may exceed M at once, which here no batch does: prompts stop where M is full.

    Parameters
    ----------
    alpha : Fraction
        Share of the memory kept free, in [0, 1).
    admission : Admission
        When the share is looked at.
    cap : int
        ``B``: most requests in a batch; 0 for any number.

    Raises
    ------
    InputError
        If an option breaks its rule.
    """

    alpha: Fraction = option(
        Fraction(3, 10),
        RATIONAL,
        "A",
        "α: share of the memory that no prompt may enter, in [0, 1)",
    )
    admission: Admission = option(
        Admission.PROMPT,
        TEXT,
        "A",
        "when the share is looked at: before each prompt, or each batch",
    )
    cap: int = option(0, WHOLE, "B", "most requests in a batch; 0 for any number")

    #: See `bfio.kvcache.policy`.
    memoryless: ClassVar[bool] = True
    first_come: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Validate, and turn texts into what they name."""
        object.__setattr__(self, "alpha", exact_rational(self.alpha, "alpha"))
        object.__setattr__(self, "admission", member(Admission, self.admission, "admission"))
        if not 0 <= self.alpha < 1:
            raise InputError("alpha", f"{self.alpha} is out of range", "use 0 <= alpha < 1")
        integer(self.cap, "cap", maximum=10**9)

    def limit(self, memory: int) -> int:
        """Return ``⌊(1-α)·M⌋`` [tokens]."""
        return int((1 - self.alpha) * memory)

    def __call__(self, state: CacheState) -> list[int]:
        """Return the positions of the requests to start: a prefix of the queue."""
        used, limit = state.used, self.limit(state.memory)
        chosen: list[int] = []
        if self.admission is Admission.BATCH:
            limit = state.memory if used <= limit else 0
        most = self.cap or len(state.running) + len(state.waiting)
        for position, (need, _) in enumerate(state.waiting.needs):
            if len(state.running) + len(chosen) == most or (used + need > limit and used > 0):
                break
            used += need
            chosen.append(position)
        return chosen


@dataclass(frozen=True)
class BetaClearing(Protection):
    """`Protection` that clears each running request with probability β (α-protection β-clearing).

    Parameters
    ----------
    alpha, admission, cap
        See `Protection`.
    beta, pause
        What follows an overflow, see `Clearing`.
    """

    beta: Fraction = option(Fraction(1), RATIONAL, "B", BETA)
    pause: int = option(0, WHOLE, "P", PAUSE)

    def __post_init__(self) -> None:
        """Validate, and turn texts into what they name."""
        super().__post_init__()
        object.__setattr__(self, "beta", self.clearing.probability)

    @property
    def clearing(self) -> Clearing:
        """See `bfio.kvcache.policy`."""
        return Clearing(self.beta, self.pause)


#: The built-in algorithms: each is made of its options, and of nothing else.
BUILT_IN: dict[str, Named[LookAhead | Protection]] = by_name(
    Named(
        "semi-online",
        "shortest output first with look-ahead, all requests known at 0",
        "KV-cache paper, Algorithm 1",
        LookAhead(Order.SHORTEST, all_at_once=True),
    ),
    Named(
        "mc-sf",
        "shortest output first with look-ahead",
        "KV-cache paper, Algorithm 2, later called MC-SF",
        LookAhead(Order.SHORTEST),
    ),
    Named(
        "mc-benchmark",
        "order of arrival with look-ahead",
        "KV-cache paper, MC-Benchmark of the later version",
        LookAhead(Order.ARRIVAL),
    ),
    Named(
        "alpha-greedy",
        "order of arrival up to (1-alpha)M; an overflow clears everything",
        "KV-cache paper, section 7, alpha-protection greedy",
        Protection(Fraction(3, 10)),
    ),
    Named(
        "beta-clearing",
        "order of arrival up to (1-alpha)M; an overflow clears each with probability beta",
        "KV-cache paper, section 7, alpha-protection beta-clearing",
        BetaClearing(Fraction(1, 5), beta=Fraction(1, 5)),
    ),
)


def build(text: str) -> CachePolicy:
    """Return the policy that a text names for one run, with the options written behind it.

    Raises
    ------
    InputError
        If name or option are unknown, a value is unreadable, or a module cannot be used.
    """
    policy: CachePolicy | None = read_named(text, BUILT_IN, "algorithm")
    return load_callable(text, "algorithm") if policy is None else policy
