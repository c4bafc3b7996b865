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

from dataclasses import dataclass
from enum import StrEnum

from bfio.common.memory_fit import refuse_oversized
from bfio.wait.instance import StageInstance
from bfio.wait.machine.first_come import BatchLimits, Eligible, choose, num_kept
from bfio.wait.policy import Decision, StageState
from formulations.arrays import integer
from formulations.errors import InputError


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

    def limits(self, memory: int) -> BatchLimits:
        """Return its limits on an engine."""
        is_new_first = self.favour is Favour.NEW
        return BatchLimits(is_new_first, self.limit, self.token_limit, self.mixed, memory)

    def __call__(self, state: StageState) -> Decision:
        """Return the next batch and whom to evict before it."""
        there = Eligible(state.held, state.waiting, state.instance.prompt, state.stage)
        limits = self.limits(state.instance.memory)
        tokens = sum(int(there.prompt[i] + there.stage[i]) for i in state.held)
        kept, tokens = num_kept(limits, there, tokens)
        evicted = state.held[kept:]
        if evicted:
            # Who has just lost everything waits again, before all later arrivals.
            stage = state.stage.copy()
            stage[evicted] = 0
            there = Eligible(state.held[:kept], [*evicted, *state.waiting], there.prompt, stage)
        batch = [0] * (len(there.held) + len(there.waiting))
        count = choose(limits, there, tokens, len(evicted) > 0, batch)
        return Decision(batch[:count], evicted[::-1])
