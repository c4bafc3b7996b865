"""How long a batch lasts: one round, or a linear function of what it holds, in whole units."""

from dataclasses import dataclass, fields
from typing import ClassVar

from bfio.common.compilable import compilable
from formulations.arrays import integer

#: Largest coefficient [clock units]: an hour in nanoseconds; sums over a run stay exact.
_MAX_COEFFICIENT = 3_600 * 10**9


@dataclass(frozen=True)
class BatchTime:
    """Duration of a batch, ``base + request·b + context·Σ j + prompt·Σ s``, in clock units.

    ``b`` counts the requests in the batch, ``Σ j`` the output tokens they have behind them, and
    ``Σ s`` the prompt tokens of those that start in it. The clock counts integers, so that no
    result depends on rounding: rounds in theory, nanoseconds in `PUBLISHED`.

    Parameters
    ----------
    base : int
        Every batch, >= 1.
    request, context, prompt : int
        Per request, per output token behind it, per prompt token that starts; >= 0.
    units_per_second : int or None
        Clock units in a second; None if the clock counts rounds.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    base: int = 1
    request: int = 0
    context: int = 0
    prompt: int = 0
    units_per_second: int | None = None

    #: Coefficients, in the order of the formula.
    COEFFICIENTS: ClassVar[tuple[str, ...]] = ("base", "request", "context", "prompt")

    def __post_init__(self) -> None:
        """Validate."""
        for entry in fields(self):
            if (value := getattr(self, entry.name)) is not None:
                lowest = 1 if entry.name in ("base", "units_per_second") else 0
                integer(value, entry.name, minimum=lowest, maximum=_MAX_COEFFICIENT)

    @property
    def unit(self) -> str:
        """What results are stated in: ``"round"`` or ``"s"``."""
        return "round" if self.units_per_second is None else "s"

    def shown(self, clock: float) -> float:
        """Return a clock value in rounds or seconds."""
        return clock / (self.units_per_second or 1)

    def duration(self, requests: int, context: int, prompt: int) -> int:
        """Return how long a batch with these totals lasts [clock units]."""
        return batch_duration(
            self.base, self.request, self.context, self.prompt, requests, context, prompt
        )


@compilable
def batch_duration(
    base: int, per_request: int, per_context: int, per_prompt: int,
    requests: int, context: int, prompt: int,
) -> int:  # fmt: skip
    """Return how long a batch lasts, see `BatchTime` [clock units]."""
    return base + per_request * requests + per_context * context + per_prompt * prompt


#: Theory: every batch takes one round.
UNIT_ROUNDS = BatchTime()
#: Published surrogate of Llama2-70B on two A100, in nanoseconds. As published in milliseconds:
#: (0.0027·mean context + 0.52)·b + 44.6 + 0.378·prompt tokens; mean context · b is Σ j.
PUBLISHED = BatchTime(44_600_000, 520_000, 2_700, 378_000, units_per_second=10**9)
