"""Policies of the KV cache, and the built-in ones.

A policy is a callable that maps the state before a batch to the requests to start. A minimal
policy is a function::

    def one_at_a_time(state):
        return [0] if len(state.waiting) and not len(state.running) else []

Optional attributes:

``clearing``
    A `Clearing`: the rule applied when the running requests exceed the memory (by default all are
    cleared).
``delta``
    Tokens added to predicted outputs, so that a prediction that is too short by at most that much
    is safe (0 by default). This is ``ô + δ``: the published remark subtracts δ, which is not safe.
``memoryless``
    True if the decision depends only on waiting and running requests. A run that returns to an
    earlier state without a completion is then known to loop.
``first_come``
    True if the policy also starts requests strictly in order of arrival: requests behind a waiting
    one do not affect its decision.
``check``
    Called with the instance before a run; raises `InputError` if the policy cannot serve it.
``statistics``
    Called after a run; returns a mapping that is stored with the run.

Policies of the KV-cache paper with look-ahead: MC-SF (Algorithm 2), MC-Benchmark, Algorithm 1.

All of them try the waiting requests in some order and start each one that keeps Equation (1) true
at all future times. With exact lengths the memory is never exceeded. With predictions an overflow
requires a request that exceeds its prediction, which is then extended. So there are at most Σ o_i
overflows, and every run ends.

Policies without look-ahead keep a share α of the memory free, as vLLM does.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np

from bfio.common.options import (
    EXACT,
    RATIONAL,
    CheckedOptions,
    Named,
    by_name,
    checked,
    option,
    read_named,
    whole,
    word_of,
)
from bfio.common.plugins import load_callable
from bfio.kvcache.instance import CacheInstance
from formulations.arrays import IntArray, integer
from formulations.errors import InputError
from formulations.scalars import MAX_TOKENS, exact_rational


@dataclass(frozen=True)
class Waiting:
    """Waiting requests in order of arrival; one object as long as the queue is unchanged.

    Parameters
    ----------
    request : IntArray
        Shape (N,): index of each request in the instance.
    arrival : IntArray
        Shape (N,): arrival [clock units].
    first_need : IntArray
        Shape (N,): tokens needed in the first batch; each later batch needs one more.
    num_batches : IntArray
        Shape (N,): number of batches, as believed; exact unless lengths are predicted.
    """

    request: IntArray
    arrival: IntArray
    first_need: IntArray
    num_batches: IntArray

    def __len__(self) -> int:
        return len(self.request)

    @cached_property
    def shortest_first(self) -> list[int]:
        """Positions in order of believed length; ties in order of arrival."""
        order: list[int] = np.argsort(self.num_batches, kind="stable").tolist()
        return order

    @cached_property
    def needs(self) -> list[tuple[int, int]]:
        """Tokens in the first batch and number of batches of each request, as Python integers."""
        return list(zip(self.first_need.tolist(), self.num_batches.tolist(), strict=True))


@dataclass(frozen=True)
class CacheState:
    """State of the worker before a batch, after completions, clearings and arrivals.

    The policy answers with positions in ``waiting`` of the requests to start. Together with the
    running ones they must fit into the next batch.

    Parameters
    ----------
    clock : int
        Present time [clock units].
    memory : int
        ``M`` [tokens].
    waiting : Waiting
        Waiting requests.
    running : IntArray
        Shape (A,): indices of the running requests, in arrival order.
    need : IntArray
        Shape (A,): tokens that each needs in the next batch; each later batch needs one more.
    batches_left : IntArray
        Shape (A,): remaining batches of each request, as believed, including the next one.
    rng : numpy.random.Generator
        Random generator of the run; policies must not use another one.
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
        """Tokens that the running requests need in the next batch."""
        return int(self.need.sum())


#: Help texts of the options of policies with clearing.
BETA = "β: probability that an overflow clears a running request, in [1/10000, 1]"
PAUSE = "pause after each clearing that did not free enough memory [clock units]"

_MAX_PAUSE = 10**12
#: With a smaller β an overflow could take millions of draws.
_LEAST_BETA = Fraction(1, 10_000)


@runtime_checkable
class CachePolicy(Protocol):
    """Protocol of policies: a `CacheState` is mapped to the waiting requests to start."""

    def __call__(self, state: CacheState, /) -> Sequence[int]:
        """Return the positions in ``state.waiting`` of the requests to start."""


@dataclass(frozen=True)
class Clearing:
    """Rule for a batch that would exceed the memory.

    Each running request, in order of arrival, is cleared with the given probability: its tokens
    are dropped, and it waits again with its original arrival. Draws are repeated until the others
    fit.

    Parameters
    ----------
    probability : Fraction
        ``β``, in [1/10000, 1]; 1 clears all requests.
    pause : int
        Time added after each draw that did not free enough memory [clock units].
    """

    probability: Fraction = Fraction(1)
    pause: int = 0

    def __post_init__(self) -> None:
        """Check all fields, and convert a text to an exact number."""
        beta = exact_rational(self.probability, "beta")
        object.__setattr__(self, "probability", beta)
        if not _LEAST_BETA <= beta <= 1:
            raise InputError("beta", f"{beta} is out of range", f"use {_LEAST_BETA} <= beta <= 1")
        integer(self.pause, "pause", maximum=_MAX_PAUSE)

    @property
    def is_full(self) -> bool:
        """Whether an overflow clears all running requests."""
        return self.probability == 1


#: The option β of policies with clearing.
_BETA = checked(RATIONAL, lambda beta, name: Clearing(beta).probability)


def clearing_of(policy: CachePolicy) -> Clearing:
    """Return the clearing rule of a policy.

    Raises
    ------
    InputError
        If the attribute is not a `Clearing`.
    """
    found = getattr(policy, "clearing", Clearing())
    if not isinstance(found, Clearing):
        raise InputError(
            "clearing", f"{found!r:.40} is not a clearing rule", "set it to a Clearing"
        )
    return found


def delta_of(policy: CachePolicy) -> int:
    """Return the tokens that a policy adds to predicted outputs."""
    return integer(getattr(policy, "delta", 0), "delta")


# Tokens needed in the next batch, and remaining batches including it.
Load: TypeAlias = tuple[int, int]


def running_loads(state: CacheState) -> list[Load]:
    """Return the loads of the running requests."""
    return list(zip(state.need.tolist(), state.batches_left.tolist(), strict=True))


def memory_after(loads: Iterable[Load], delay: int) -> int:
    """Return the tokens in the cache ``delay`` batches after the next one."""
    return sum(need + delay for need, batches in loads if batches > delay)


def fits(loads: Sequence[Load], memory: int) -> bool:
    """Return whether the requests fit the memory at all future times if no other request starts.

    Between completions the memory grows, so its maximum is in the last batch of some request. Only
    those batches are tested (the checkpoints of the paper, including the candidate's own).
    """
    checkpoints = {batches - 1 for _, batches in loads}
    return all(memory_after(loads, delay) <= memory for delay in checkpoints)


class Order(StrEnum):
    """Order in which waiting requests are considered for a start."""

    SHORTEST = "shortest"
    ARRIVAL = "arrival"


class Scan(StrEnum):
    """Whether to consider further requests after one that does not fit.

    With equal prompts both values are equivalent in shortest-first order, because later requests
    need at least as much memory.
    """

    BREAK = "break"
    CONTINUE = "continue"


@dataclass(frozen=True)
class LookAhead(CheckedOptions):
    """Start requests in an order while Equation (1) holds at every completion.

    Parameters
    ----------
    order : Order
        Shortest output first (MC-SF) or arrival (MC-Benchmark); ties by arrival.
    all_at_once : bool
        Whether all requests must arrive at time 0 (Algorithm 1 of the KV-cache paper).
    scan : Scan
        Stop at the first request that does not fit, or try the later ones too.
    delta : int
        ``δ``: tokens added to predicted outputs.
    beta, pause
        Rule after a prediction that was too short, see `Clearing`.

    Raises
    ------
    InputError
        If an option is invalid.
    """

    order: Order = Order.SHORTEST
    all_at_once: bool = False
    scan: Scan = option(
        Scan.BREAK,
        word_of(Scan),
        "S",
        "break: stop at the first request that does not fit; continue: try later ones",
    )
    delta: int = option(0, whole(0, MAX_TOKENS), "D", "δ: tokens added to predicted outputs")
    beta: Fraction = option(Fraction(1), _BETA, "B", BETA)
    pause: int = option(0, whole(0, _MAX_PAUSE), "P", PAUSE)

    #: See `bfio.kvcache.policy`.
    memoryless: ClassVar[bool] = True

    @property
    def clearing(self) -> Clearing:
        """Clearing rule after a prediction that was too short."""
        return Clearing(self.beta, self.pause)

    @property
    def first_come(self) -> bool:
        """Whether requests start strictly in order of arrival."""
        return self.order is Order.ARRIVAL and self.scan is Scan.BREAK

    def check(self, instance: CacheInstance) -> None:
        """Raise an error for arrivals after time 0, if the algorithm knows all requests at 0."""
        late = np.flatnonzero(instance.arrival)
        if self.all_at_once and len(late):
            what = f"{instance.arrival[late[0]]}, but semi-online requires all arrivals at 0"
            remedy = "set every arrival to 0, or use mc-sf"
            raise InputError(f"requests[{late[0]}].arrival", what, remedy)

    def __call__(self, state: CacheState) -> list[int]:
        """Return the positions of the waiting requests to start."""
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
    """When the protected share of the memory is tested."""

    #: Before each prompt, with all tokens planned for the next batch so far.
    PROMPT = "prompt"
    #: Once per batch, with the running requests only; then prompts start up to M.
    BATCH = "batch"


@dataclass(frozen=True)
class Protection(CheckedOptions):
    """Start requests in order of arrival while the next batch needs at most ``(1-α)·M``.

    The running requests grow and may exceed M; then all of them are cleared. An empty worker
    starts the oldest request even above the limit, because it fits alone and would never start
    otherwise.

    The code published with the later version tests the share once per batch and then admits all
    waiting requests, up to a number that its files do not give: `Admission.BATCH` with a ``cap``.
    There a batch may exceed M. Here admission stops at M.

    Parameters
    ----------
    alpha : Fraction
        Share of the memory kept free, in [0, 1).
    admission : Admission
        When the share is tested.
    cap : int
        ``B``: maximum requests in a batch; 0 for no limit.

    Raises
    ------
    InputError
        If an option is invalid.
    """

    alpha: Fraction = option(
        Fraction(3, 10),
        EXACT,
        "A",
        "α: share of the memory kept free at admission, in [0, 1)",
    )
    admission: Admission = option(
        Admission.PROMPT,
        word_of(Admission),
        "A",
        "when the share is tested: before each prompt, or once per batch",
    )
    cap: int = option(0, whole(), "B", "maximum requests in a batch; 0: no limit")

    #: See `bfio.kvcache.policy`.
    memoryless: ClassVar[bool] = True
    first_come: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check all fields, and convert texts to their values."""
        super().__post_init__()
        if not 0 <= self.alpha < 1:
            raise InputError("alpha", f"{self.alpha} is out of range", "use 0 <= alpha < 1")

    def limit(self, memory: int) -> int:
        """Return ``⌊(1-α)·M⌋`` [tokens]."""
        return int((1 - self.alpha) * memory)

    def __call__(self, state: CacheState) -> list[int]:
        """Return the positions of the requests to start, a prefix of the queue."""
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
        Rule after an overflow, see `Clearing`.
    """

    beta: Fraction = option(Fraction(1), _BETA, "B", BETA)
    pause: int = option(0, whole(0, _MAX_PAUSE), "P", PAUSE)

    @property
    def clearing(self) -> Clearing:
        """Clearing rule after an overflow."""
        return Clearing(self.beta, self.pause)


#: Built-in algorithms, each defined by its options alone.
BUILT_IN: dict[str, Named[LookAhead | Protection]] = by_name(
    Named(
        "semi-online",
        "shortest output first while the future memory suffices, all requests known at 0",
        "KV-cache paper, Algorithm 1",
        LookAhead(Order.SHORTEST, all_at_once=True),
    ),
    Named(
        "mc-sf",
        "shortest output first while the future memory suffices",
        "KV-cache paper, Algorithm 2, later called MC-SF",
        LookAhead(Order.SHORTEST),
    ),
    Named(
        "mc-benchmark",
        "order of arrival while the future memory suffices",
        "KV-cache paper, MC-Benchmark of the later version",
        LookAhead(Order.ARRIVAL),
    ),
    Named(
        "alpha-greedy",
        "order of arrival up to (1-alpha)M tokens; an overflow clears all requests",
        "KV-cache paper, section 7, alpha-protection greedy",
        Protection(Fraction(3, 10)),
    ),
    Named(
        "beta-clearing",
        "order of arrival up to (1-alpha)M tokens; an overflow clears each with probability beta",
        "KV-cache paper, section 7, alpha-protection beta-clearing",
        BetaClearing(Fraction(1, 5), beta=Fraction(1, 5)),
    ),
)


def build(text: str) -> CachePolicy:
    """Return the policy given as ``name:option=value:...`` or ``module:function``.

    Raises
    ------
    InputError
        If the name or an option is unknown, a value is invalid, or a module cannot be loaded.
    """
    policy: CachePolicy | None = read_named(text, BUILT_IN, "algorithm")
    return load_callable(text, "algorithm") if policy is None else policy
