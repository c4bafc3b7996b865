"""Options for the end of a run, as keywords of `bfio.wait.simulation.serve` and of studies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bfio.common.options import FLAG, RATIONAL, WHOLE, option
from formulations.scalars import exact_number, integer

if TYPE_CHECKING:
    from fractions import Fraction

#: Maximum value of the option.
_MAX_BATCHES = 2**62


@dataclass(frozen=True)
class ServeOptions:
    """End of a run, validated.

    Parameters
    ----------
    horizon_s : Fraction or int, optional
        End of the observation [s]: later completions do not count. By default the run ends when no
        work is left.
    drain : bool, optional
        Whether the run continues after the observation until all requests are served; after the
        last arrival thresholds are ignored. By default true if ``horizon_s`` is not given.
    batches : int
        Maximum number of batches; then the run stops with the verdict ``stopped``.

    Raises
    ------
    InputError
        If a value is invalid.
    """

    horizon_s: Fraction | int | None = option(
        None,
        RATIONAL,
        "T",
        "end of the observation [s]; needed without a trace, with one the run goes on until all "
        "is served",
    )
    drain: bool | None = option(
        None,
        FLAG,
        "",
        "whether the run goes on past horizon_s until all is served, thresholds ignored after the "
        "last arrival (as long as no end is given)",
    )
    batches: int = option(
        10**8, WHOLE, "K", "give a run up after so many (10,000,000 in rows of studies)"
    )

    def __post_init__(self) -> None:
        """Validate, and convert a text exactly."""
        integer(self.batches, "batches", maximum=_MAX_BATCHES)
        if isinstance(self.horizon_s, str):
            duration = exact_number(self.horizon_s, "horizon_s", positive=True)
            object.__setattr__(self, "horizon_s", duration)

    @property
    def end_s(self) -> Fraction | int | None:
        """Time at which the run ends with work left [s]; None if it continues."""
        return None if self.drain else self.horizon_s

    @property
    def drains(self) -> bool:
        """Whether policies serve all remaining requests after the last arrival."""
        return self.horizon_s is None if self.drain is None else bool(self.drain)
