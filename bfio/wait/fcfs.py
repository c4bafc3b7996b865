"""First come, first served with the batch's limits: the baselines of the paper's experiments.

Requests start in order of arrival, as long as everyone present could pass another stage within the
memory. When those present outgrow it, the last to have arrived lose what they hold and wait
again, from stage 0. The published serving systems differ in whom the limit on prompts per batch
favours:

- *new first*, as in vLLM: requests that wait for their prefill; the others pause if need be, and
  keep what they hold. After an eviction nothing starts with the next batch: otherwise starts and
  evictions could take turns for ever. ``mixed=False``: a batch with prefills has nothing else.
- *ongoing first*, as in Sarathi: those that have started.

Without limits it is the naive FCFS of proposition 4. The tokens of a batch may be limited too,
though a batch has one prompt at least.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from bfio.common.memory_fit import refuse_oversized
from bfio.wait.instance import StageInstance
from bfio.wait.policy import Decision, StageState
from formulations.arrays import integer
from formulations.errors import InputError

#: A request and the tokens that it counts at its next stage.
Candidate: TypeAlias = tuple[int, int]


class Favour(StrEnum):
    """Whom the limits of a batch favour."""

    NEW = "new"
    ONGOING = "ongoing"


@dataclass(frozen=True)
class FirstComeFirstServed:
    """FCFS with limits; see the module.

    Parameters
    ----------
    favour : Favour
        Who comes first within the limits.
    limit : int
        Most prompts in a batch; 0 for any number.
    token_limit : int
        Most tokens in a batch; 0 for any number.
    mixed : bool
        Whether prefills and other stages may share a batch.
    """

    favour: Favour = Favour.ONGOING
    limit: int = 0
    token_limit: int = 0
    mixed: bool = True

    def __post_init__(self) -> None:
        """Validate."""
        integer(self.limit, "limit")
        integer(self.token_limit, "token_limit")
        if not self.mixed and self.favour is Favour.ONGOING:
            raise InputError(
                "mixed", "with ongoing first, prefills alone would never come", "favour new ones"
            )

    def check(self, instance: StageInstance) -> None:
        """Refuse requests that do not fit into the memory alone.

        Raises
        ------
        InputError
            If there are such.
        """
        refuse_oversized(
            instance.peaks > instance.memory, instance.memory, "raise memory or leave them out"
        )

    def __call__(self, state: StageState) -> Decision:
        """Return the next batch and whom to evict before it."""
        evicted, kept = self._evictions(state)
        # Who has just lost everything waits again, before all later arrivals.
        waiting = [*reversed(evicted), *state.waiting]
        ongoing = [(i, _tokens(state, i)) for i in kept]
        if self.favour is Favour.ONGOING:
            new = self._starts(state, waiting, ongoing)
            return Decision(self._within_limits((*ongoing, *new)), evicted)
        new = [] if evicted else self._starts(state, waiting, ongoing)
        others = ongoing if self.mixed or not new else []
        return Decision(self._within_limits((*new, *others)), evicted)

    def _evictions(self, state: StageState) -> tuple[list[int], list[int]]:
        """Return who must go, latest arrival first, so that everyone else could go on."""
        kept, evicted = list(state.held), []
        total = sum(_tokens(state, i) for i in kept)
        while total > state.instance.memory:
            total -= _tokens(state, kept[-1])
            evicted.append(kept.pop())
        return evicted, kept

    def _starts(
        self, state: StageState, waiting: Sequence[int], ongoing: Sequence[Candidate]
    ) -> list[Candidate]:
        """Return who starts: in order of arrival, up to the first for whom there is no room."""
        room = state.instance.memory - sum(tokens for _, tokens in ongoing)
        slots = len(waiting)
        if self.limit:
            taken = len(ongoing) if self.favour is Favour.ONGOING else 0
            slots = max(0, self.limit - taken)
        starts: list[Candidate] = []
        for i in waiting[:slots]:
            tokens = int(state.instance.prompt[i])
            room -= tokens
            if room < 0:
                break
            starts.append((i, tokens))
        return starts

    def _within_limits(self, candidates: Sequence[Candidate]) -> list[int]:
        batch: list[int] = []
        total = 0
        for i, tokens in candidates:
            total += tokens
            too_many = self.limit and len(batch) >= self.limit
            if batch and (too_many or (self.token_limit and total > self.token_limit)):
                break
            batch.append(i)
        return batch


def _tokens(state: StageState, i: int) -> int:
    """Return the tokens that a request counts at its next stage."""
    return int(state.instance.prompt[i] + state.stage[i])
