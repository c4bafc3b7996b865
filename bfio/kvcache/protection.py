"""Policies without look-ahead that keep a share α of the memory free, as vLLM does."""

from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import ClassVar

from bfio.kvcache.policy import Clearing
from bfio.kvcache.state import CacheState
from formulations.arrays import integer
from formulations.errors import InputError


class Admission(StrEnum):
    """When the protected share is looked at."""

    #: Before each prompt, with all that the coming batch needs so far.
    PROMPT = "prompt"
    #: Once per batch, with what the running requests need; then prompts start up to M.
    BATCH = "batch"


@dataclass(frozen=True)
class Protection:
    """Start requests in order of arrival while the coming batch needs at most ``(1-α)·M``.

    The running requests grow and may outgrow M; then they are cleared, all of them (α-protection
    greedy) or each with probability β (α-protection β-clearing). An empty worker starts the
    oldest request whatever its size, which fits alone; nothing would ever start it otherwise.

    The code published with the later version looks at the share once per batch and then lets in
    all who wait, up to a number of requests that its files do not give: `Admission.BATCH` with a
    ``cap``. It may exceed M at once, which here no batch does: prompts stop where M is full.

    Parameters
    ----------
    alpha : Fraction
        Share of the memory kept free, in [0, 1).
    clearing : Clearing
        What follows an overflow.
    admission : Admission
        When the share is looked at.
    cap : int
        ``B``: most requests in a batch; 0 for any number.
    """

    alpha: Fraction
    clearing: Clearing = field(default=Clearing())
    admission: Admission = Admission.PROMPT
    cap: int = 0

    #: See `bfio.kvcache.policy`.
    memoryless: ClassVar[bool] = True
    first_come: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Validate."""
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
