"""How telemetry is given: the delay of reports, and the share that is lost."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bfio.common.number_text import exact
from bfio.common.options import NUMBER, TEXT, WHOLE, checked, option, read_pairs
from formulations.errors import InputError
from formulations.keywords import known_fields
from formulations.scalars import integer, real

#: Oldest reports [steps].
MAX_DELAY = 10**4


@known_fields
@dataclass(frozen=True)
class Telemetry:
    """How workers report.

    Parameters
    ----------
    delay : int
        Steps after which a report arrives.
    loss : float
        Share of reports that never do, below 1.

    Raises
    ------
    InputError
        If a value is out of its domain.
    """

    delay: int = 0
    loss: float = 0.0

    def __post_init__(self) -> None:
        """Validate."""
        delay = integer(self.delay, "telemetry delay", maximum=MAX_DELAY)
        object.__setattr__(self, "delay", delay)
        loss = float(real(self.loss, "telemetry loss"))
        if not 0 <= loss < 1:
            raise InputError("telemetry loss", f"{loss}", "give a share in [0, 1)")
        object.__setattr__(self, "loss", loss)

    @property
    def text(self) -> str:
        """What it is given as."""
        pairs = (("delay", self.delay), ("loss", self.loss))
        return ",".join(f"{name}={exact(value)}" for name, value in pairs if value)


def telemetry_of(given: str | Telemetry | None, where: str = "telemetry") -> Telemetry | None:
    """Return the telemetry that an option of a run stands for; None if nothing is late or lost.

    Parameters
    ----------
    given : str, Telemetry or None
        ``delay=STEPS,loss=SHARE``, one of the two or both; ``none`` for exact loads.
    where : str
        What an error names.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    if given is None or given == "none":
        return None
    if not isinstance(given, Telemetry):
        kinds = {"delay": WHOLE, "loss": NUMBER}
        given = Telemetry(**read_pairs(kinds, str(given), where))
    return given if given.delay or given.loss else None


#: Its option of a run.
TELEMETRY = option(
    None,
    checked(
        replace(TEXT, draws=lambda given: given is not None and given.loss > 0),
        telemetry_of,
    ),
    "T",
    "loads that policies see are old or lost, e.g. delay=4,loss=0.1 [steps, share] (default: "
    "none)",
)
