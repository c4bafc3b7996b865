"""When a run ends: keywords of `bfio.wait.simulation.serve`, and arguments of studies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bfio.common.options import FLAG, RATIONAL, WHOLE, option
from formulations.rationals import exact_number
from formulations.scalars import integer

if TYPE_CHECKING:
    from fractions import Fraction

#: Most batches that can be asked for.
_MAX_BATCHES = 2**62


@dataclass(frozen=True)
class ServeOptions:
    """When a run ends, checked.

    Parameters
    ----------
    horizon_s : Fraction or int, optional
        End of the observation [s]: what completes later does not count. By default the run goes
        on until nothing is left to do.
    drain : bool, optional
        Whether the run goes on past its duration until all is served, thresholds ignored after the
        last arrival; by default if there is no limit.
    batches : int
        Most batches; then the run is given up with the verdict ``stopped``.

    Raises
    ------
    InputError
        If a value breaks its rule.
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
        """Validate, and read a text exactly."""
        integer(self.batches, "batches", maximum=_MAX_BATCHES)
        if isinstance(self.horizon_s, str):
            duration = exact_number(self.horizon_s, "horizon_s", positive=True)
            object.__setattr__(self, "horizon_s", duration)

    @property
    def end_s(self) -> Fraction | int | None:
        """When the run ends whatever is left [s]; None if it goes on."""
        return None if self.drain else self.horizon_s

    @property
    def drains(self) -> bool:
        """Whether policies are told, after the last arrival, to serve what is left."""
        return self.horizon_s is None if self.drain is None else bool(self.drain)
