"""The built-in policies, section 3 of the paper: who comes first, and whether phases mix.

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

from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from bfio.batching.policy import BatchState
from formulations.arrays import integer
from formulations.errors import InputError
from formulations.problem_data import Validated, member


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
