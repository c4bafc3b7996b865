"""How limits on the times of requests are given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bfio.common.options import NUMBER, TEXT, checked, option, read_pairs
from formulations.errors import InputError
from formulations.keywords import known_fields
from formulations.scalars import real

if TYPE_CHECKING:
    from formulations.arrays import BoolArray, FloatArray

_FORM = "write e.g. ttft=2,tpot=0.05"


@known_fields
@dataclass(frozen=True)
class ServiceLevel:
    """Limits that a request meets or not; metrics alone read them.

    Parameters
    ----------
    ttft_s : float
        Longest time from arrival or reveal to the first token [s]; infinite for no limit.
    tpot_s : float
        Longest time per output token (BF-IO eq. 9) [s]; infinite for no limit.

    Raises
    ------
    InputError
        If a limit is no number > 0, or both are infinite.
    """

    ttft_s: float = math.inf
    tpot_s: float = math.inf

    def __post_init__(self) -> None:
        """Validate."""
        for name in ("ttft_s", "tpot_s"):
            value = getattr(self, name)
            limit = math.inf if value == math.inf else float(real(value, name))
            if not limit > 0:
                raise InputError(name, f"{limit} s is no limit", "give seconds > 0")
            object.__setattr__(self, name, limit)
        if self.ttft_s == self.tpot_s == math.inf:
            raise InputError("slo", "limits nothing", _FORM)

    def met(self, first_tokens: FloatArray, times_per_token: FloatArray) -> BoolArray:
        """Return which requests met both limits, shape (n,); both times in seconds."""
        return (first_tokens <= self.ttft_s) & (times_per_token <= self.tpot_s)


def service_level(given: str | ServiceLevel | None, where: str = "slo") -> ServiceLevel | None:
    """Return the limits that an option of a run stands for.

    Parameters
    ----------
    given : str, ServiceLevel or None
        ``ttft=SECONDS,tpot=SECONDS``, one of the two or both; ``none`` for no limits.
    where : str
        What an error names.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    if given is None or given == "none":
        return None
    if isinstance(given, ServiceLevel):
        return given
    limits = read_pairs({"ttft": NUMBER, "tpot": NUMBER}, str(given), where)
    return ServiceLevel(**{f"{name}_s": limit for name, limit in limits.items()})


#: Its option of a run.
SLO = option(
    None,
    checked(TEXT, service_level),
    "LIMITS",
    "limits of a request that goodput counts by [s], e.g. ttft=2,tpot=0.05 (default: none)",
)
