"""Policies without look-ahead that keep a share α of the memory free, as vLLM does."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import ClassVar

from bfio.common.options import RATIONAL, TEXT, WHOLE, option
from bfio.kvcache.policy import BETA, PAUSE, Clearing
from bfio.kvcache.state import CacheState
from formulations.arrays import integer
from formulations.errors import InputError
from formulations.problem_data import member
from formulations.rationals import exact_rational


class Admission(StrEnum):
    """When the protected share is looked at."""

    #: Before each prompt, with all that the coming batch needs so far.
    PROMPT = "prompt"
    #: Once per batch, with what the running requests need; then prompts start up to M.
    BATCH = "batch"


@dataclass(frozen=True)
class Protection:
    """Start requests in order of arrival while the coming batch needs at most ``(1-α)·M``.

    The running requests grow and may outgrow M; then they are all cleared. An empty worker starts
    the oldest request whatever its size, which fits alone; nothing would ever start it otherwise.

    The code published with the later version looks at the share once per batch and then lets in
    all who wait, up to a number of requests that its files do not give: `Admission.BATCH` with a
    ``cap``. It may exceed M at once, which here no batch does: prompts stop where M is full.

    Parameters
    ----------
    alpha : Fraction
        Share of the memory kept free, in [0, 1).
    admission : Admission
        When the share is looked at.
    cap : int
        ``B``: most requests in a batch; 0 for any number.

    Raises
    ------
    InputError
        If an option breaks its rule.
    """

    alpha: Fraction = option(
        Fraction(3, 10),
        RATIONAL,
        "A",
        "α: share of the memory that no prompt may enter, in [0, 1)",
    )
    admission: Admission = option(
        Admission.PROMPT,
        TEXT,
        "A",
        "when the share is looked at: before each prompt, or each batch",
    )
    cap: int = option(0, WHOLE, "B", "most requests in a batch; 0 for any number")

    #: See `bfio.kvcache.policy`.
    memoryless: ClassVar[bool] = True
    first_come: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Validate, and turn texts into what they name."""
        object.__setattr__(self, "alpha", exact_rational(self.alpha, "alpha"))
        object.__setattr__(self, "admission", member(Admission, self.admission, "admission"))
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


@dataclass(frozen=True)
class BetaClearing(Protection):
    """`Protection` that clears each running request with probability β (α-protection β-clearing).

    Parameters
    ----------
    alpha, admission, cap
        See `Protection`.
    beta, pause
        What follows an overflow, see `Clearing`.
    """

    beta: Fraction = option(Fraction(1), RATIONAL, "B", BETA)
    pause: int = option(0, WHOLE, "P", PAUSE)

    def __post_init__(self) -> None:
        """Validate, and turn texts into what they name."""
        super().__post_init__()
        object.__setattr__(self, "beta", self.clearing.probability)

    @property
    def clearing(self) -> Clearing:
        """See `bfio.kvcache.policy`."""
        return Clearing(self.beta, self.pause)
