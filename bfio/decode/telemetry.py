"""Telemetry: how old the loads are that a policy sees, and how many reports of them are lost.

At each step every worker reports what it holds: its load, its requests, what is bound to it, its
memory in use and its projected loads. A report of step k arrives at step k + ``delay``, or never,
with probability ``loss``; until another one arrives the last one stands. Slots are no part of it:
a router knows what it has sent and what has ended.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bfio.common.number_text import exact
from bfio.common.options import NUMBER, WHOLE, read_pairs
from formulations.errors import InputError
from formulations.keywords import known_fields
from formulations.scalars import integer, real

#: Oldest reports [steps].
MAX_DELAY = 10**4
#: Steps for which losses are drawn; then they repeat.
_DRAWN_STEPS = 4096
#: Number of the random stream; policies, predictors and schedules have others.
_STREAM = 6


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


def telemetry_of(given: str | Telemetry | None) -> Telemetry | None:
    """Return the telemetry that an option of a run stands for; None if nothing is late or lost.

    Parameters
    ----------
    given : str, Telemetry or None
        ``delay=STEPS,loss=SHARE``, one of the two or both; ``none`` for exact loads.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    if given is None or given == "none":
        return None
    if not isinstance(given, Telemetry):
        kinds = {"delay": WHOLE, "loss": NUMBER}
        given = Telemetry(**read_pairs(kinds, str(given), "telemetry"))
    return given if given.delay or given.loss else None


def losses(given: Telemetry, num_workers: int, seed: int) -> NDArray[np.int8]:
    """Return which reports are lost, shape (T, G): row k mod T tells of step k, 1 if it is."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM,)))
    steps = _DRAWN_STEPS if given.loss else 1
    return (rng.random((steps, num_workers)) < given.loss).astype(np.int8)
