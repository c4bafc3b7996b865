"""Batching policies: callables that map the state of an engine to the tokens of a batch.

A minimal policy is a function that returns one number per request of the state::

    def oldest_first(state):
        tokens, left = [], state.budget
        for prompt in state.prefill:
            tokens.append(min(prompt or 1, left))
            left -= tokens[-1]
        return tokens

For a request in its prefill phase the number is the length of its next chunk. In the decode phase
it is 1 or 0, as in (2.5). If all numbers are 0, the engine idles for a slot. Optional attributes:

``knows_lengths``
    True if the policy may read ``state.decode``; otherwise reading it raises an error.
``for_engine``
    Called before a run for each engine; returns the policy object of this engine, so that a
    policy with memory starts each run with a fresh state.

The built-in policies (section 3 of the paper) differ in the order of requests and in whether a
batch mixes phases.

Each policy fills a batch in passes. A *decode pass* loads one token of each request in the decode
phase. A *prefill pass* loads prompts of requests in the prefill phase; the last of them is cut if
the engine allows that. Each pass has an order of requests. A batch respects its budget and three
limits: only the oldest ``K_p`` requests of the prefill phase and the oldest ``K_d`` of the decode
phase are considered, and a batch has at most ``M`` requests. Priority classes are passed one after
the other. Where phases mix, a class is only considered if the classes before it do not fill the
batch.

Where the paper is ambiguous, the policies follow the specification: Orca packs prompts into *this*
batch before decode tokens; FasterTransformer has a strict variant (token by token) and one with
groups.
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
    """State of one engine when a batch is formed; requests are in order of arrival at the engine.

    Parameters
    ----------
    slot : int
        Present slot.
    budget : int
        ``b``: maximum tokens of the batch.
    chunked : bool
        Whether prompts may be cut.
    prefill : list of int
        ``p_i``: prefill tokens left of each request; 0 in the decode phase.
    stage : list of str
        Name of each request's stage.
    rank : list of int
        Priority of its stage on this engine; 0 comes first.
    entered : list of int
        Rank of each request among entries into the decode phase; -1 in the prefill phase.
    lengths : list of int or None
        ``d_i``: decode tokens left; None if the policy may not read them.
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
        """``d_i``: remaining decode tokens of each request.

        Raises
        ------
        InputError
            If the policy may not read them.
        """
        if self.lengths is None:
            raise InputError(
                "state.decode",
                "decode lengths are unknown to this policy",
                "set knows_lengths = True if the policy may read them",
            )
        return self.lengths

    @property
    def eligible(self) -> int:
        """``Σ (p_i + 1(p_i = 0))``: the tokens that could be loaded now, (2.6)."""
        return sum(left or 1 for left in self.prefill)


BatchPolicy: TypeAlias = Callable[[BatchState], Sequence[int]]


def policy_of_engine(policy: BatchPolicy) -> BatchPolicy:
    """Return the policy object of one engine in one run."""
    fresh = getattr(policy, "for_engine", None)
    if fresh is None:
        return policy
    with users_code("policy", "for_engine ", remedy="correct the policy"):
        made: BatchPolicy = fresh()
    return made


def ask(policy: BatchPolicy, state: BatchState, name: str) -> list[int]:
    """Return a policy's answer to a state, after a check of the rules (2.5).

    Raises
    ------
    InputError
        If the answer breaks a rule; the message names the first one.
    """
    where = f"policy {name}, slot {state.slot}"
    with users_code(where, remedy="correct the policy"):
        answer = policy(state)
    tokens = _whole_numbers(answer, len(state), where)
    for i, (given, left) in enumerate(zip(tokens, state.prefill, strict=True)):
        _check_request(given, left, f"{where}, request {i}", may_cut=state.chunked)
    if sum(tokens) > state.budget:
        what = f"{sum(tokens)} tokens exceed the budget of {state.budget} (2.5d)"
        raise InputError(where, what, "return fewer tokens")
    return tokens


def _check_request(given: int, left: int, where: str, *, may_cut: bool) -> None:
    if left == 0 and given > 1:
        raise InputError(where, f"{given} decode tokens in one batch (2.5c)", "return 0 or 1")
    if left > 0 and given > left:
        what = f"{given} prefill tokens, but only {left} are left (2.5b)"
        raise InputError(where, what, "return at most the remaining tokens")
    if not may_cut and 0 < given < left:
        raise InputError(
            where,
            f"a chunk of {given} of {left} prompt tokens; the engine does not cut prompts",
            "return all or 0",
        )


def _whole_numbers(answer: object, count: int, where: str) -> list[int]:
    remedy = "return one number of tokens per request"
    if not isinstance(answer, Iterable) or isinstance(answer, str | bytes):
        raise InputError(where, f"returned {answer!r:.40}", remedy)
    with users_code(where, "answer ", remedy="correct the policy"):
        # One extra entry shows that the answer is too long, even if the iterator never ends.
        entries = list(islice(answer, count + 1))
    for entry in entries:
        if isinstance(entry, bool) or not isinstance(entry, int | np.integer) or entry < 0:
            raise InputError(where, f"{entry!r:.40} is not a whole number >= 0", remedy)
    if len(entries) != count:
        what = f"more than {count}" if len(entries) > count else f"{len(entries)}"
        raise InputError(where, f"{what} numbers for {count} requests", remedy)
    return [int(entry) for entry in entries]


class Mixing(StrEnum):
    """Whether a batch may contain prefill and decode tokens."""

    #: Both phases: work-conserving if the limits allow it.
    MIXED = "mixed"
    #: One phase; decode whenever a request is in that phase: FasterTransformer, strict.
    DECODE_FIRST = "decode-first"
    #: One phase; prefill whenever a request is in that phase: vLLM without chunked prefill.
    PREFILL_FIRST = "prefill-first"
    #: One phase; a group is prefilled, then decoded until all its requests end: FasterTransformer.
    GROUPS = "groups"


class Order(StrEnum):
    """Order in which the requests of a phase are served."""

    #: Order of arrival at the engine.
    ARRIVAL = "arrival"
    #: Order of entry into the phase.
    ENTRY = "entry"
    #: Least tokens left in the phase first; ties go to the oldest request.
    SHORTEST = "shortest"
    #: Most tokens left first, which minimizes the number of requests with chunks.
    LONGEST = "longest"


@dataclass(frozen=True)
class TokenBudgetPolicy(Validated):
    """A built-in policy with its limits and orders; see the module docstring.

    Parameters
    ----------
    mixing : Mixing
        Which phases a batch may contain.
    decode_first : bool
        Whether decode passes come before prefill passes in mixed batches.
    kp, kd : int
        ``K_p`` and ``K_d``; 0 for no limit.
    limit : int
        ``M``, maximum requests in a batch; 0 for no limit. It does not limit the prefill batches
        of policies that do not mix phases.
    group : int
        Maximum size of a group with `Mixing.GROUPS`, which allows no other limit.
    prefill_order, decode_order : Order
        Orders within the phases; with shortest or longest first, ``K_p`` and ``K_d`` are not
        allowed.

    Raises
    ------
    InputError
        If a value is invalid.
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
        """Check all fields; an invalid value raises InputError."""
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
            raise InputError("group", "groups exclude kp, kd and limit", "omit kp, kd and limit")
        if self.decode_order is Order.LONGEST:
            raise InputError(
                "decode_order",
                "`longest` is not supported for decode tokens",
                "use arrival, entry or shortest",
            )
        for name, order in (("kp", self.prefill_order), ("kd", self.decode_order)):
            if getattr(self, name) and order in (Order.SHORTEST, Order.LONGEST):
                what = f"order {order} excludes a limit to the oldest requests"
                raise InputError(name, what, "order by arrival, or omit kp and kd")

    @property
    def knows_lengths(self) -> bool:
        """Whether the policy reads the remaining decode tokens of requests."""
        return self.decode_order is Order.SHORTEST

    @property
    def mixes(self) -> bool:
        """Whether a batch may contain both prefill and decode tokens."""
        return self.mixing is Mixing.MIXED

    def for_engine(self) -> _Filling:
        """Return the policy object of one engine in one run."""
        return _Filling(self)

    def __call__(self, state: BatchState) -> list[int]:
        """Return the next batch of an engine without a current group of requests."""
        return _Filling(self)(state)


class _Filling:
    """A built-in policy on one engine, with its current group of requests."""

    def __init__(self, policy: TokenBudgetPolicy) -> None:
        self.policy = policy
        #: Members of the group whose prompts are not fully loaded.
        self.in_group = 0

    @property
    def knows_lengths(self) -> bool:
        return self.policy.knows_lengths

    def __call__(self, state: BatchState) -> list[int]:
        """Return the tokens of the next batch, one number per request."""
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
        """Prefill the group, then decode it; start the next group when all members are done."""
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
    """A batch being filled."""

    def __init__(self, policy: TokenBudgetPolicy, state: BatchState) -> None:
        self.policy, self.state = policy, state
        self.tokens = [0] * len(state)
        self.left = state.budget
        self.places = policy.limit or len(state)

    def decode(self, requests: list[int]) -> None:
        """Add a decode token of each request, class by class."""
        for own in self._classes(requests):
            # Orders that allow a limit are oldest first.
            for i in self._sorted_decodes(own)[: self.policy.kd or None]:
                if self.left > 0 and self.places > 0:
                    self._load(i, 1)

    def prefill(self, requests: list[int]) -> None:
        """Add prompts, class by class, until one exceeds the budget."""
        binding = self.policy.mixes
        for own in self._classes(requests):
            # As above; 0 is no limit.
            for i in self._sorted_prefills(own)[: self.policy.kp or None]:
                chunk = min(self.state.prefill[i], self.left)
                whole = chunk == self.state.prefill[i]
                if chunk == 0 or (binding and self.places == 0):
                    return
                if not whole and not self.state.chunked:
                    return
                self._load(i, chunk)

    def ordered_prefills(self, requests: list[int]) -> list[int]:
        """Return requests in the order of a prefill pass."""
        return [i for own in self._classes(requests) for i in self._sorted_prefills(own)]

    def _load(self, request: int, tokens: int) -> None:
        self.tokens[request] = tokens
        self.left -= tokens
        self.places -= 1

    def _classes(self, requests: list[int]) -> list[list[int]]:
        rank = self.state.rank.__getitem__
        return [list(own) for _, own in groupby(sorted(requests, key=rank), key=rank)]

    def _sorted_decodes(self, requests: list[int]) -> list[int]:
        order = self.policy.decode_order
        if order is Order.SHORTEST:
            return sorted(requests, key=lambda i: (self.state.decode[i], i))
        if order is Order.ENTRY:
            return sorted(requests, key=self.state.entered.__getitem__)
        return sorted(requests)

    def _sorted_prefills(self, requests: list[int]) -> list[int]:
        order, left = self.policy.prefill_order, self.state.prefill
        if order is Order.SHORTEST:
            return sorted(requests, key=lambda i: (left[i], i))
        if order is Order.LONGEST:
            return sorted(requests, key=lambda i: (-left[i], i))
        return sorted(requests)
