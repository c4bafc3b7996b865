"""Options of a run: duration and measurements, as keywords and command-line arguments."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from bfio.common.options import POSITIVE, RATIONAL, CheckedOptions, checked, option, whole
from formulations.errors import InputError
from formulations.scalars import exact_number

#: Maximum duration [slots]; sums over slots stay within 64 bits.
MAX_SLOTS = 10**15
#: Deadline that every time meets [slots].
_NO_DEADLINE = 2**62


@dataclass(frozen=True)
class BatchOptions(CheckedOptions):
    """Duration and measurements of a run; times in seconds if slots have a length, else slots.

    Parameters
    ----------
    horizon : Fraction, optional
        End of the run. Without it, a run of a trace ends when all its requests have departed.
    warmup : Fraction
        Start of the measured part.
    blocks : int
        Number of states kept of the course of the run.
    ttft_deadline, tbt_deadline, e2e_deadline : Fraction, optional
        Deadlines of the measured times.

    Raises
    ------
    InputError
        If a value is invalid.
    """

    horizon: Fraction | None = option(
        None, POSITIVE, "T", "end of the run [s, or slots]; required unless a trace is given"
    )
    warmup: Fraction = option(
        Fraction(0),
        checked(RATIONAL, exact_number),
        "T",
        "start of the measured part [s, or slots] (default 0)",
    )
    blocks: int = option(
        1000,
        whole(1, 10**6),
        "N",
        "number of states stored over the run, for plots (default 1000)",
    )
    ttft_deadline: Fraction | None = option(
        None,
        POSITIVE,
        "T",
        "deadline from arrival at an agent to the end of the prefill [s, or slots]",
    )
    tbt_deadline: Fraction | None = option(
        None, POSITIVE, "T", "deadline between two tokens [s, or slots]"
    )
    e2e_deadline: Fraction | None = option(
        None, POSITIVE, "T", "deadline from arrival to departure [s, or slots]"
    )

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        super().__post_init__()
        if self.horizon is not None and self.warmup >= self.horizon:
            raise InputError(
                "warmup",
                "is not below horizon, so nothing is measured",
                "make it less than horizon",
            )

    def slots(self, name: str, slot: Fraction | None) -> int | None:
        """Return a time in whole slots, rounded down; None if the option is not given.

        Raises
        ------
        InputError
            If the time is shorter than a slot, or too long.
        """
        given = getattr(self, name)
        if given is None:
            return None
        slots = int(given / (slot or 1))
        if slots > MAX_SLOTS or (slots == 0 and given):
            raise InputError(
                name, f"{float(given):.6g} is {slots} slots, out of range", "use another time"
            )
        return slots

    def deadlines(self, slot: Fraction | None) -> tuple[int, int, int]:
        """Return the deadlines of TTFT, TBT and E2E [slots]."""
        given = (self.slots(f"{name}_deadline", slot) for name in ("ttft", "tbt", "e2e"))
        ttft, tbt, e2e = (_NO_DEADLINE if slots is None else slots for slots in given)
        return ttft, tbt, e2e
