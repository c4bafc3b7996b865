"""Kinds of options: their values, and how texts are parsed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bfio.common.number_text import exact
from bfio.common.options import (
    LOOK_AHEAD,
    NUMBER,
    RATIONAL,
    TEXT,
    WHOLE,
    checked,
    one_of,
    option,
    rational,
    read_pairs,
    whole,
)
from bfio.decode.cluster import MAX_TIME_S
from formulations.errors import InputError
from formulations.keywords import known_fields
from formulations.rationals import exact_rational
from formulations.scalars import integer, real
from formulations.work import checked_work_limit

if TYPE_CHECKING:
    from fractions import Fraction

    from formulations.arrays import BoolArray, FloatArray

#: Longest look-ahead of a policy of this toolkit.
MAX_HORIZON = 5000


def look_ahead_option(default: int | None, text: str, most: int = MAX_HORIZON) -> Any:
    """Return the look-ahead field [steps] of a policy's options."""
    return option(default, whole(0, most), "H", text, name=LOOK_AHEAD)


def _discount(value: object, name: str) -> Fraction:
    gamma = exact_rational(value, name)
    if not 0 < gamma <= 1:
        raise InputError(name, f"{gamma} is out of range", "use 0 < gamma <= 1")
    return gamma


def _time_limit(value: object, name: str) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise InputError(name, f"{value!r} s", "give a finite number of seconds > 0")
    return value


#: The look-ahead ``H`` of a policy [steps].
HORIZON = whole(0, MAX_HORIZON)
#: A factor of loads; and a discount per step.
SMALL_RATIO = rational(0, 10**6, 10**6)
DISCOUNT = checked(RATIONAL, _discount)
#: Limits of solves, in ticks (`formulations.work`) and in seconds.
WORK_LIMIT, TIME_LIMIT = (checked(WHOLE, checked_work_limit), checked(NUMBER, _time_limit))
#: How stage 2 of the two-stage heuristic orders workers.
STAGE_2_KEY = one_of("lexicographic", "product")
#: Condition of options that need timed arrivals, because a pool ignores arrival times.
TIMED = "arrivals=timed"

#: Time per token to transfer its cache to the pool [s]: half a MiB over 50 GB/s.
TRANSFER_TIME_S = 1e-5
#: Shortest time to live [s].
MIN_TTL_S = 1e-3
MAX_WORKERS = 10**6
_FORM = "write e.g. workers=4,token_time=5e-5,ttl=30,places=256"
#: Field of each key in its text.
_NAMES = {
    "workers": "workers",
    "token_time": "token_time_s",
    "overhead": "overhead_s",
    "transfer": "transfer_time_s",
    "ttl": "ttl_s",
    "places": "places",
}


@known_fields
@dataclass(frozen=True)
class PrefillTier:
    """Prefill workers, and the pool that receives their requests.

    Parameters
    ----------
    workers : int
        ``P``; each computes one prompt at a time.
    token_time_s, overhead_s : float
        Time of a prefill per prompt token, and its fixed part [s].
    transfer_time_s : float
        Time per prompt token to transfer its cache to the pool [s].
    ttl_s : float
        Time that the pool keeps the cache of a waiting request [s]; infinite for no limit.
    places : int, optional
        Number of requests that the pool holds, including those in transfer; by default no limit.

    Raises
    ------
    InputError
        If a value is out of its domain.
    """

    workers: int
    token_time_s: float
    overhead_s: float = 0.0
    transfer_time_s: float = TRANSFER_TIME_S
    ttl_s: float = math.inf
    places: int | None = None

    def __post_init__(self) -> None:
        """Validate."""
        workers = integer(self.workers, "prefill workers", minimum=1, maximum=MAX_WORKERS)
        object.__setattr__(self, "workers", workers)
        for name in ("token_time_s", "overhead_s", "transfer_time_s"):
            time = float(real(getattr(self, name), f"prefill {name}"))
            if not 0 <= time <= MAX_TIME_S:
                raise InputError(f"prefill {name}", f"{time} s", f"give one in [0, {MAX_TIME_S}]")
            object.__setattr__(self, name, time)
        ttl_s = math.inf if self.ttl_s == math.inf else float(real(self.ttl_s, "prefill ttl"))
        if not ttl_s >= MIN_TTL_S:
            raise InputError("prefill ttl", f"{ttl_s} s", f"give {MIN_TTL_S} s or more")
        object.__setattr__(self, "ttl_s", ttl_s)
        if self.places is not None:
            integer(self.places, "prefill places", minimum=1)

    @property
    def text(self) -> str:
        """The tier as a text option, without default values."""
        values = {name: getattr(self, field) for name, field in _NAMES.items()}
        kept = {n: v for n, v in values.items() if v != getattr(type(self), _NAMES[n], None)}
        return ",".join(f"{name}={exact(value)}" for name, value in kept.items())


def prefill_tier(given: str | PrefillTier | None, where: str = "prefill") -> PrefillTier | None:
    """Parse the prefill tier of a run; ``none`` gives None.

    The format is ``workers=P,token_time=SECONDS``, with optional ``overhead``, ``transfer``,
    ``ttl`` [s] and ``places``.
    """
    if given is None or given == "none":
        return None
    if isinstance(given, PrefillTier):
        return given
    kinds = {name: WHOLE if name in ("workers", "places") else NUMBER for name in _NAMES}
    values = read_pairs(kinds, str(given), where)
    for name in ("workers", "token_time"):
        if name not in values:
            raise InputError(where, f"no {name}", _FORM)
    return PrefillTier(**{_NAMES[name]: value for name, value in values.items()})


#: The option of a run for the prefill tier.
PREFILL = option(
    None,
    checked(TEXT, prefill_tier),
    "TIER",
    "with timed arrivals, prefill workers before the pool, e.g. workers=4,token_time=5e-5,"
    "ttl=30,places=256 (default: none; docs/cluster.md)",
    beside=TIMED,
)

_SLO_FORM = "write e.g. ttft=2,tpot=0.05"


@known_fields
@dataclass(frozen=True)
class ServiceLevel:
    """Limits on the latency of a request, read by metrics only.

    ``ttft_s`` is the longest time from arrival or reveal to the first token, ``tpot_s`` the
    longest time per output token (BF-IO eq. 9) [s]; infinite for no limit, but not both.
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
            raise InputError("slo", "limits nothing", _SLO_FORM)

    def met(self, first_tokens: FloatArray, times_per_token: FloatArray) -> BoolArray:
        """Return which requests met both limits, shape (n,); both times in seconds."""
        return (first_tokens <= self.ttft_s) & (times_per_token <= self.tpot_s)


def service_level(given: str | ServiceLevel | None, where: str = "slo") -> ServiceLevel | None:
    """Parse the latency limits of a run; ``none`` gives None.

    The format is ``ttft=SECONDS,tpot=SECONDS``, one of the two or both.
    """
    if given is None or given == "none":
        return None
    if isinstance(given, ServiceLevel):
        return given
    limits = read_pairs({"ttft": NUMBER, "tpot": NUMBER}, str(given), where)
    return ServiceLevel(**{f"{name}_s": limit for name, limit in limits.items()})


#: The option of a run for latency limits.
SLO = option(
    None,
    checked(TEXT, service_level),
    "LIMITS",
    "limits of a request that goodput counts by [s], e.g. ttft=2,tpot=0.05 (default: none)",
)

#: Largest delay of reports [steps].
MAX_DELAY = 10**4


@known_fields
@dataclass(frozen=True)
class Telemetry:
    """Load reports of workers: each arrives ``delay`` steps late, and a share ``loss`` is lost."""

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
        """The telemetry as a text option."""
        pairs = (("delay", self.delay), ("loss", self.loss))
        return ",".join(f"{name}={exact(value)}" for name, value in pairs if value)


def telemetry_of(given: str | Telemetry | None, where: str = "telemetry") -> Telemetry | None:
    """Parse the telemetry of a run; None if no report is late or lost.

    The format is ``delay=STEPS,loss=SHARE``, one of the two or both; ``none`` for exact loads.
    """
    if given is None or given == "none":
        return None
    if not isinstance(given, Telemetry):
        kinds = {"delay": WHOLE, "loss": NUMBER}
        given = Telemetry(**read_pairs(kinds, str(given), where))
    return given if given.delay or given.loss else None


#: The option of a run for telemetry.
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
