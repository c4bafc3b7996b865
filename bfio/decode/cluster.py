"""The machine that decodes: how many workers and slots, and how long a step lasts."""

from dataclasses import dataclass

from bfio.common.compilable import compilable
from bfio.common.options import NUMBER, WHOLE, option
from formulations.errors import InputError
from formulations.keywords import known_fields
from formulations.scalars import integer, real

#: Fixed part of a step [s] at 72 slots: (0.6e-3·72 + 35e-3)/16, read from the simulator that the
#: BF-IO authors released; the paper itself prints no value.
STEP_OVERHEAD_S = (0.6e-3 * 72 + 35e-3) / 16
#: Time per token of the most loaded worker [s/token]: 1.5·2·576·61e-6/2^20, same source.
TOKEN_TIME_S = 1.5 * 2 * 576 * 61e-6 / 2**20

#: Range of the times accepted, so that no metric leaves the floating-point numbers.
MIN_TIME_S, MAX_TIME_S = 1e-15, 1e6

#: Most slots a simulated cluster may have in total; the engine keeps one row of state per slot.
MAX_TOTAL_SLOTS = 4_000_000


@known_fields
@dataclass(frozen=True)
class Cluster:
    """Barrier-synchronised decode workers (BF-IO, section 3 and eq. 6).

    Parameters
    ----------
    workers : int
        Number of workers ``G``.
    slots : int
        Requests a worker decodes at once, ``B``.
    step_overhead_s : float
        ``C``, the part of a step that no load changes [s].
    token_time_s : float
        ``t_l``, time per token of the most loaded worker [s/token].
    mean_time_s : float
        Time per token of the mean load [s/token], an overhead every worker shares; 0 in BF-IO.
    """

    workers: int = option(16, WHOLE, "G", "workers (default 16)")
    slots: int = option(72, WHOLE, "B", "requests a worker decodes at once (72)")
    step_overhead_s: float = option(
        STEP_OVERHEAD_S, NUMBER, "C", "fixed part of a step [s] (4.8875e-3)", name="step_overhead"
    )
    token_time_s: float = option(
        TOKEN_TIME_S,
        NUMBER,
        "T",
        "time per token of the peak [s] (1.00524902e-7)",
        name="token_time",
    )
    mean_time_s: float = option(
        0.0, NUMBER, "T", "time per token of the mean (0)", name="mean_time"
    )

    def __post_init__(self) -> None:
        """Validate."""
        integer(self.workers, "workers", minimum=1, maximum=MAX_TOTAL_SLOTS)
        integer(self.slots, "slots", minimum=1, maximum=MAX_TOTAL_SLOTS)
        if self.workers * self.slots > MAX_TOTAL_SLOTS:
            raise InputError(
                "slots",
                f"{self.workers} workers x {self.slots} slots is more than {MAX_TOTAL_SLOTS}",
                "simulate fewer slots",
            )
        for name in ("step_overhead_s", "token_time_s", "mean_time_s"):
            value = real(getattr(self, name), name)
            if value != 0.0 and not MIN_TIME_S <= value <= MAX_TIME_S:
                raise InputError(
                    name, f"{value} s", f"give 0 or a time in [{MIN_TIME_S}, {MAX_TIME_S}] s"
                )
        if self.step_overhead_s + self.token_time_s + self.mean_time_s == 0.0:
            raise InputError("step_overhead_s", "every step would take 0 s", "give a time > 0")

    @property
    def total_slots(self) -> int:
        """``G·B``."""
        return self.workers * self.slots

    def step_time(self, max_load: float, mean_load: float) -> float:
        """Duration of a step, ``C + t_l·max load + t_m·mean load`` [s] (eq. 6 with t_m = 0)."""
        return step_time(
            self.step_overhead_s, self.token_time_s, self.mean_time_s, max_load, mean_load
        )


@compilable
def step_time(
    overhead_s: float, token_time_s: float, mean_time_s: float, max_load: float, mean_load: float
) -> float:
    """Return the duration of a step, see `Cluster.step_time`; every loop of the engine asks it."""
    return overhead_s + token_time_s * max_load + mean_time_s * mean_load
