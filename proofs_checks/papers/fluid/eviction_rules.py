"""First come, first served as section 4.3 has it, with four rules for whom an overflow removes.

"Remove ongoing prompts to accommodate new arrivals", says the paper, and not which.
"""

from dataclasses import dataclass

from bfio.wait.fcfs import FirstComeFirstServed
from bfio.wait.policy import Decision, StagePolicy, StageState


@dataclass(frozen=True)
class Removal:
    """FCFS where those removed wait again, from stage 0, in order of arrival.

    Parameters
    ----------
    oldest, everyone : bool
        Whether the first to have arrived are removed, or all; the last to have arrived by default.
    new_first : bool
        Whether arrivals start beside what is held now, before anyone is removed; by default they
        start beside what those who remain need next.
    """

    oldest: bool = False
    everyone: bool = False
    new_first: bool = False

    def __call__(self, state: StageState) -> Decision:
        """Return the next batch and whom to remove before it."""
        started = self._starts(state, state.waiting, self._held(state)) if self.new_first else []
        kept, removed = self._removals(state, sum(self._next(state, i) for i in started))
        if self.new_first:
            return Decision([*kept, *started], removed)
        waiting = sorted([*state.waiting, *removed])
        needed = sum(self._next(state, i) for i in kept)
        return Decision([*kept, *self._starts(state, waiting, needed)], removed)

    def _removals(self, state: StageState, needed: int) -> tuple[list[int], list[int]]:
        """Return who stays and who goes, so that the former fit beside some tokens."""
        kept, removed = list(state.held), []
        needed += sum(self._next(state, i) for i in kept)
        if self.everyone and needed > state.instance.memory:
            return [], kept
        while needed > state.instance.memory:
            removed.append(kept.pop(0 if self.oldest else -1))
            needed -= self._next(state, removed[-1])
        return kept, removed

    def _starts(self, state: StageState, waiting: list[int], needed: int) -> list[int]:
        """Return who starts: in order of arrival, up to the first for whom there is no room."""
        started: list[int] = []
        for i in waiting:
            needed += int(state.instance.prompt[i])
            if needed > state.instance.memory:
                break
            started.append(i)
        return started

    def _held(self, state: StageState) -> int:
        # A stage adds one token; nobody who is held has passed none.
        return sum(self._next(state, i) - 1 for i in state.held)

    def _next(self, state: StageState, i: int) -> int:
        return int(state.instance.prompt[i]) + (int(state.stage[i]) if i in state.held else 0)


#: Name and policy; the first is what `Removal` is by default.
EVICTION_RULES: dict[str, StagePolicy] = {
    "the youngest go": FirstComeFirstServed(),
    "the oldest go": Removal(oldest=True),
    "arrivals start, then the youngest ongoing go": Removal(new_first=True),
    "all go": Removal(everyone=True),
}
