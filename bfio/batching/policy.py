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
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

import numpy as np

from formulations.errors import InputError
from formulations.named_objects import users_code


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
