"""Policies without look-ahead that keep a share α of the memory free, as vLLM does."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from bfio.kvcache.policy import Clearing
from bfio.kvcache.state import CacheState
from formulations.errors import InputError


@dataclass(frozen=True)
class Protection:
    """Start requests in order of arrival while the coming batch needs at most ``(1-α)·M``.

    The running requests grow and may outgrow M; then they are cleared, all of them (α-protection
    greedy) or each with probability β (α-protection β-clearing). An empty worker starts the
    oldest request whatever its size, which fits alone; nothing would ever start it otherwise.

    Parameters
    ----------
    alpha : Fraction
        Share of the memory kept free, in [0, 1).
    clearing : Clearing
        What follows an overflow.
    """

    alpha: Fraction
    clearing: Clearing = field(default=Clearing())

    #: See `bfio.kvcache.policy`.
    memoryless: ClassVar[bool] = True
    first_come: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Validate."""
        if not 0 <= self.alpha < 1:
            raise InputError("alpha", f"{self.alpha} is out of range", "use 0 <= alpha < 1")

    def limit(self, memory: int) -> int:
        """Return ``⌊(1-α)·M⌋`` [tokens]."""
        return int((1 - self.alpha) * memory)

    def __call__(self, state: CacheState) -> list[int]:
        """Return the positions of the requests to start: a prefix of the queue."""
        used, limit = state.used, self.limit(state.memory)
        chosen: list[int] = []
        for position, (need, _) in enumerate(state.waiting.needs):
            if used + need > limit and used > 0:
                break
            used += need
            chosen.append(position)
        return chosen
