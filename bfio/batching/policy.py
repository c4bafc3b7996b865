"""What a batching policy is: a callable from the state of an engine to the tokens of a batch.

The least a user writes is a function that returns one number per request of the state::

    def oldest_first(state):
        tokens, left = [], state.budget
        for prompt in state.prefill:
            tokens.append(min(prompt or 1, left))
            left -= tokens[-1]
        return tokens

For a request in its prefill phase the number is the length of its next chunk, for one in its
decode phase 1 or 0, as in (2.5). All zeros let the engine idle for a slot. Attributes, optional:

``knows_lengths``
    True if the policy may read ``state.decode``; without it that is refused.
``for_engine``
    Called before a run for each engine; returns the policy that this engine asks, so that one that
    remembers something begins afresh.

The built-in policies, section 3 of the paper: who comes first, and whether phases mix.

Each fills a batch pass by pass. A *decode pass* loads one token of each request of the decode
phase, in an order, a *prefill pass* the prompts of the prefill phase, in an order, the last of
them cut where prompts may be cut. What is loaded stays within the budget and three limits: the
oldest ``K_p`` requests of the prefill phase, the oldest ``K_d`` of the decode phase, and ``M``
requests in a batch. Priority classes pass one after the other: where phases mix, a class is looked
at only if those before it do not fill the batch.

Readings of the paper that had to be chosen are those of the specification: Orca packs prompts into
*this* batch before decode tokens; FasterTransformer comes strict (token by token) and in groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby, islice
from typing import TypeAlias

import numpy as np

from formulations.arrays import integer
from formulations.errors import InputError
from formulations.named_objects import users_code
from formulations.problem_data import Validated, member


@dataclass(frozen=True)
class BatchState:
    """One engine when it decides, requests in order of arrival at it.

    Parameters
    ----------
    slot : int
        Now.
    budget : int
        ``b``: most tokens of the batch.
    chunked : bool
        Whether prompts may be cut.
    prefill : list of int
        ``p_i``: prefill tokens left; 0 in the decode phase.
    stage : list of str
        Name of each request's stage.
    rank : list of int
        Priority of its stage on this engine; 0 comes first.
    entered : list of int
        In which order requests of the decode phase entered it; -1 for the others.
    lengths : list of int or None
        ``d_i``: decode tokens left; None if the policy does not know them.
    """

    slot: int
    budget: int
    chunked: bool
    prefill: list[int]
    stage: list[str]
    rank: list[int]
    entered: list[int]
    lengths: list[int] | None

    def __len__(self) -> int:
        return len(self.prefill)

    @property
    def decode(self) -> list[int]:
        """``d_i``: decode tokens left.

        Raises
        ------
        InputError
            If the policy does not know them.
        """
        if self.lengths is None:
            raise InputError(
                "state.decode",
                "requests' lengths are unknown",
                "set knows_lengths = True on a policy that may know them",
            )
        return self.lengths

    @property
    def eligible(self) -> int:
        """``Σ (p_i + 1(p_i = 0))``: the tokens that could be loaded now, (2.6)."""
        return sum(left or 1 for left in self.prefill)


BatchPolicy: TypeAlias = Callable[[BatchState], Sequence[int]]


def policy_of_engine(policy: BatchPolicy) -> BatchPolicy:
    """Return what one engine asks in one run."""
    fresh = getattr(policy, "for_engine", None)
    if fresh is None:
        return policy
    with users_code("policy", "its for_engine ", remedy="mend the policy"):
        made: BatchPolicy = fresh()
    return made


def ask(policy: BatchPolicy, state: BatchState, name: str) -> list[int]:
    """Return what a policy answers, checked against (2.5).

    Raises
    ------
    InputError
        Naming the first rule that the answer breaks.
    """
    where = f"policy {name}, slot {state.slot}"
    with users_code(where, remedy="mend the policy"):
        answer = policy(state)
    tokens = _whole_numbers(answer, len(state), where)
    for i, (given, left) in enumerate(zip(tokens, state.prefill, strict=True)):
        _check_request(given, left, f"{where}, request {i}", may_cut=state.chunked)
    if sum(tokens) > state.budget:
        what = f"{sum(tokens)} tokens exceed the budget of {state.budget} (2.5d)"
        raise InputError(where, what, "load fewer")
    return tokens


def _check_request(given: int, left: int, where: str, *, may_cut: bool) -> None:
    if left == 0 and given > 1:
        raise InputError(where, f"{given} decode tokens at once (2.5c)", "load one at most")
    if left > 0 and given > left:
        what = f"{given} prefill tokens where {left} are left (2.5b)"
        raise InputError(where, what, "load no more than there are")
    if not may_cut and 0 < given < left:
        raise InputError(where, f"a chunk of {given} of {left}", "load whole prompts here")


def _whole_numbers(answer: object, count: int, where: str) -> list[int]:
    remedy = "return one number of tokens per request"
    if not isinstance(answer, Iterable) or isinstance(answer, str | bytes):
        raise InputError(where, f"returned {answer!r:.40}", remedy)
    with users_code(where, "its answer ", remedy="mend the policy"):
        # One too many is enough to see: an iterator may never end.
        entries = list(islice(answer, count + 1))
    for entry in entries:
        if isinstance(entry, bool) or not isinstance(entry, int | np.integer) or entry < 0:
            raise InputError(where, f"{entry!r:.40} is no number of tokens", remedy)
    if len(entries) != count:
        what = f"more than {count}" if len(entries) > count else f"{len(entries)}"
        raise InputError(where, f"{what} numbers for {count} requests", remedy)
    return [int(entry) for entry in entries]


class Mixing(StrEnum):
    """Which phases a batch may have."""

    #: Both: work-conserving if the limits allow.
    MIXED = "mixed"
    #: One; decode whenever a request is in that phase: FasterTransformer, strict.
    DECODE_FIRST = "decode-first"
    #: One; prefill whenever a request is in that phase: vLLM without chunked prefill.
    PREFILL_FIRST = "prefill-first"
    #: One; a group of requests is prefilled, then decoded until all are done: FasterTransformer.
    GROUPS = "groups"


class Order(StrEnum):
    """In which order requests of a phase are looked at."""

    #: Order of arrival at the engine.
    ARRIVAL = "arrival"
    #: Order in which they entered the phase.
    ENTRY = "entry"
    #: Least tokens left in the phase first; of equal ones the oldest.
    SHORTEST = "shortest"
    #: Most tokens left first, so that chunks come from a minimal number of requests.
    LONGEST = "longest"


@dataclass(frozen=True)
class TokenBudgetPolicy(Validated):
    """A built-in policy; see the module.

    Parameters
    ----------
    mixing : Mixing
        Which phases a batch may have.
    decode_first : bool
        Whether decode passes come before prefill passes where phases mix.
    kp, kd : int
        ``K_p`` and ``K_d``; 0 for any number.
    limit : int
        ``M``, most requests in a batch; 0 for any number. Prefill batches of policies that do not
        mix are not bound by it.
    group : int
        Requests admitted together with `Mixing.GROUPS`, which has no other limit.
    prefill_order, decode_order : Order
        Orders within the phases; shortest and longest have no use for ``K_p`` and ``K_d``.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    mixing: Mixing = Mixing.MIXED
    decode_first: bool = True
    kp: int = 0
    kd: int = 0
    limit: int = 0
    group: int = 0
    prefill_order: Order = Order.ARRIVAL
    decode_order: Order = Order.ARRIVAL

    def __post_init__(self) -> None:
        """Validate."""
        least = 1 if self.mixing is Mixing.GROUPS else 0
        self._set(
            mixing=member(Mixing, self.mixing, "mixing"),
            prefill_order=member(Order, self.prefill_order, "prefill_order"),
            decode_order=member(Order, self.decode_order, "decode_order"),
            group=integer(self.group, "group", minimum=least),
        )
        for name in ("kp", "kd", "limit"):
            integer(getattr(self, name), name)
        if self.mixing is Mixing.GROUPS and (self.kp or self.kd or self.limit):
            raise InputError("group", "other limits besides", "leave kp, kd and limit out")
        if self.decode_order is Order.LONGEST:
            raise InputError("decode_order", "longest first", "use arrival, entry or shortest")
        for name, order in (("kp", self.prefill_order), ("kd", self.decode_order)):
            if getattr(self, name) and order in (Order.SHORTEST, Order.LONGEST):
                what = f"a limit to the oldest requests with {order} first"
                raise InputError(name, what, "order by arrival, or leave the limit out")

    @property
    def knows_lengths(self) -> bool:
        """Whether it looks at the decode tokens that requests have left."""
        return self.decode_order is Order.SHORTEST

    @property
    def mixes(self) -> bool:
        """Whether a batch may have both phases."""
        return self.mixing is Mixing.MIXED

    def for_engine(self) -> _Filling:
        """Return what one engine asks in one run."""
        return _Filling(self)

    def __call__(self, state: BatchState) -> list[int]:
        """Return the tokens of the next batch of an engine that has no group of requests yet."""
        return _Filling(self)(state)


class _Filling:
    """A policy at one engine: it remembers who is in its group."""

    def __init__(self, policy: TokenBudgetPolicy) -> None:
        self.policy = policy
        #: Members of the group that are not prefilled yet.
        self.in_group = 0

    @property
    def knows_lengths(self) -> bool:
        return self.policy.knows_lengths

    def __call__(self, state: BatchState) -> list[int]:
        """Return the tokens of the next batch."""
        batch = _Batch(self.policy, state)
        prefilling = [i for i, left in enumerate(state.prefill) if left > 0]
        decoding = [i for i, left in enumerate(state.prefill) if left == 0]
        mixing = self.policy.mixing
        if mixing is Mixing.MIXED:
            self._mix(batch, prefilling, decoding)
        elif mixing is Mixing.GROUPS:
            self._serve_group(batch, prefilling, decoding)
        elif not prefilling or (decoding and mixing is Mixing.DECODE_FIRST):
            batch.decode(decoding)
        else:
            batch.prefill(prefilling)
        return batch.tokens

    def _mix(self, batch: _Batch, prefilling: list[int], decoding: list[int]) -> None:
        rank = batch.state.rank
        for own in sorted(set(rank)):
            phases = [
                (batch.decode, [i for i in decoding if rank[i] == own]),
                (batch.prefill, [i for i in prefilling if rank[i] == own]),
            ]
            for load, requests in phases if self.policy.decode_first else phases[::-1]:
                load(requests)

    def _serve_group(self, batch: _Batch, prefilling: list[int], decoding: list[int]) -> None:
        """Prefill the group, then decode it; nobody else is admitted until all of it are done."""
        ordered = batch.ordered_prefills(prefilling)
        if not decoding and self.in_group == 0:
            self.in_group = min(self.policy.group, len(ordered))
        if self.in_group > 0:
            members = ordered[: self.in_group]
            batch.prefill(members)
            self.in_group -= sum(batch.tokens[i] == batch.state.prefill[i] for i in members)
        else:
            batch.decode(decoding)


class _Batch:
    """A batch that is being filled."""

    def __init__(self, policy: TokenBudgetPolicy, state: BatchState) -> None:
        self.policy, self.state = policy, state
        self.tokens = [0] * len(state)
        self.left = state.budget
        self.places = policy.limit or len(state)

    def decode(self, requests: list[int]) -> None:
        """Load a token of each, class by class."""
        for own in self._classes(requests):
            for i in _oldest(self._sorted_decodes(own), self.policy.kd):
                if self.left > 0 and self.places > 0:
                    self._load(i, 1)

    def prefill(self, requests: list[int]) -> None:
        """Load prompts, class by class, up to one for which there is no room."""
        binding = self.policy.mixes
        for own in self._classes(requests):
            for i in _oldest(self._sorted_prefills(own), self.policy.kp):
                chunk = min(self.state.prefill[i], self.left)
                whole = chunk == self.state.prefill[i]
                if chunk == 0 or (binding and self.places == 0):
                    return
                if not whole and not self.state.chunked:
                    return
                self._load(i, chunk)

    def ordered_prefills(self, requests: list[int]) -> list[int]:
        """Return requests as a prefill pass looks at them."""
        return [i for own in self._classes(requests) for i in self._sorted_prefills(own)]

    def _load(self, request: int, tokens: int) -> None:
        self.tokens[request] = tokens
        self.left -= tokens
        self.places -= 1

    def _classes(self, requests: list[int]) -> list[list[int]]:
        def rank(i: int) -> int:
            return self.state.rank[i]

        return [list(own) for _, own in groupby(sorted(requests, key=rank), key=rank)]

    def _sorted_decodes(self, requests: list[int]) -> list[int]:
        order = self.policy.decode_order
        if order is Order.SHORTEST:
            return sorted(requests, key=lambda i: (self.state.decode[i], i))
        if order is Order.ENTRY:
            return sorted(requests, key=lambda i: self.state.entered[i])
        return sorted(requests)

    def _sorted_prefills(self, requests: list[int]) -> list[int]:
        order, left = self.policy.prefill_order, self.state.prefill
        if order is Order.SHORTEST:
            return sorted(requests, key=lambda i: (left[i], i))
        if order is Order.LONGEST:
            return sorted(requests, key=lambda i: (-left[i], i))
        return sorted(requests)


def _oldest(ordered: list[int], limit: int) -> list[int]:
    """Return those that a limit leaves: orders that have one put the oldest first."""
    return ordered[:limit] if limit else ordered
