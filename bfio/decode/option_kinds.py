"""Option kinds of decode runs: their valid values, and how texts are parsed."""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from bfio.common.options import (
    LOOK_AHEAD,
    NUMBER,
    RATIONAL,
    TEXT,
    WHOLE,
    OptionKind,
    checked,
    one_of,
    option,
    rational,
    read_pairs,
    whole,
)
from bfio.common.text import exact
from bfio.decode.cluster import MAX_TIME_S
from formulations.deadline import checked_work_limit
from formulations.errors import InputError, known_fields
from formulations.scalars import exact_rational, integer, real

if TYPE_CHECKING:
    from collections.abc import Mapping
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


def checked_time(value: object, where: str, unit: str = "s") -> float:
    """Return a time of at most `MAX_TIME_S`, or raise InputError; ``unit`` is named in it."""
    time = float(real(value, where))
    if not 0 <= time <= MAX_TIME_S:
        raise InputError(where, f"{time} {unit} is out of range", f"give one in [0, {MAX_TIME_S}]")
    return time


def _time_limit(value: object, name: str) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise InputError(
            name, f"{value!r} s is out of range", "give a finite number of seconds > 0"
        )
    return value


#: The look-ahead ``H`` of a policy [steps].
HORIZON = whole(0, MAX_HORIZON)
#: A factor of loads; and a discount per step.
SMALL_RATIO = rational(0, 10**6, 10**6)
DISCOUNT = checked(RATIONAL, _discount)
#: Limits of solves, in ticks (`formulations.deadline`) and in seconds.
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
#: Largest delay of reports [steps].
MAX_DELAY = 10**4


@dataclass(frozen=True)
class Pairs:
    """Base class of option values written as a text ``name=value,name=value``."""

    #: Names and kinds of the fields, in their order, and an example of a text.
    kinds: ClassVar[Mapping[str, OptionKind]] = {}
    example: ClassVar[str] = ""

    @classmethod
    def parsed(cls, given: object, where: str) -> Self | None:
        """Return the value of an option; ``none`` gives None."""
        if given is None or given == "none":
            return None
        if isinstance(given, cls):
            return given
        named = dict(zip(cls.kinds, fields(cls), strict=True))
        values = read_pairs(cls.kinds, str(given), where)
        for name, entry in named.items():
            if entry.default is MISSING and name not in values:
                raise InputError(where, f"has no {name}=", f'write e.g. {where}="{cls.example}"')
        return cls(**{named[name].name: value for name, value in values.items()})

    @property
    def text(self) -> str:
        """The value as a text, without entries that equal their defaults."""
        given = zip(self.kinds, fields(self), strict=True)
        values = ((name, getattr(self, entry.name), entry.default) for name, entry in given)
        return ",".join(f"{name}={exact(v)}" for name, v, default in values if v != default)


@known_fields
@dataclass(frozen=True)
class PrefillTier(Pairs):
    """Options of the prefill tier: prefill workers, and the pool that receives their requests.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    kinds: ClassVar = {
        "workers": WHOLE,
        "token_time": NUMBER,
        "overhead": NUMBER,
        "transfer": NUMBER,
        "ttl": NUMBER,
        "places": WHOLE,
    }
    example = "workers=4,token_time=5e-5,ttl=30,places=256"
    workers: int  #: ``P``; each computes one prompt at a time.
    #: Time of a prefill per prompt token, and its fixed part [s].
    token_time_s: float
    overhead_s: float = 0.0
    #: Time per prompt token to transfer its cache to the pool [s].
    transfer_time_s: float = TRANSFER_TIME_S
    #: Time that the pool keeps the cache of a waiting request [s]; infinite for no limit.
    ttl_s: float = math.inf
    #: Number of requests that the pool holds, including those in transfer; by default no limit.
    places: int | None = None

    def __post_init__(self) -> None:
        """Validate the values."""
        workers = integer(self.workers, "prefill workers", minimum=1, maximum=MAX_WORKERS)
        object.__setattr__(self, "workers", workers)
        for name in ("token_time_s", "overhead_s", "transfer_time_s"):
            time = checked_time(getattr(self, name), f"prefill {name}")
            object.__setattr__(self, name, time)
        ttl_s = math.inf if self.ttl_s == math.inf else float(real(self.ttl_s, "prefill ttl"))
        if not ttl_s >= MIN_TTL_S:
            raise InputError(
                "prefill ttl", f"{ttl_s} s is too short", f"give {MIN_TTL_S} s or more"
            )
        object.__setattr__(self, "ttl_s", ttl_s)
        if self.places is not None:
            integer(self.places, "prefill places", minimum=1)


@known_fields
@dataclass(frozen=True)
class ServiceLevel(Pairs):
    """Latency limits of a request, which only metrics use.

    ``ttft_s`` is the longest time from arrival or reveal to the first token, ``tpot_s`` the
    longest time per output token (BF-IO eq. 9) [s]; infinite for no limit, but not both.
    """

    kinds: ClassVar = {"ttft": NUMBER, "tpot": NUMBER}
    example = "ttft=2,tpot=0.05"
    ttft_s: float = math.inf
    tpot_s: float = math.inf

    def __post_init__(self) -> None:
        """Validate the values."""
        for name in ("ttft_s", "tpot_s"):
            value = getattr(self, name)
            limit = math.inf if value == math.inf else float(real(value, name))
            if not limit > 0:
                raise InputError(name, f"{limit} s is not a valid limit", "give seconds > 0")
            object.__setattr__(self, name, limit)
        if self.ttft_s == self.tpot_s == math.inf:
            raise InputError("slo", "sets no limit", f'write e.g. slo="{self.example}"')

    def met(self, first_tokens: FloatArray, times_per_token: FloatArray) -> BoolArray:
        """Return which requests met both limits, shape (n,); both times in seconds."""
        return (first_tokens <= self.ttft_s) & (times_per_token <= self.tpot_s)


@known_fields
@dataclass(frozen=True)
class Telemetry(Pairs):
    """Load reports of workers: each arrives ``delay`` steps late, and a share ``loss`` is lost."""

    kinds: ClassVar = {"delay": WHOLE, "loss": NUMBER}
    example = "delay=4,loss=0.1"
    delay: int = 0
    loss: float = 0.0

    def __post_init__(self) -> None:
        """Validate the values."""
        delay = integer(self.delay, "telemetry delay", maximum=MAX_DELAY)
        object.__setattr__(self, "delay", delay)
        loss = float(real(self.loss, "telemetry loss"))
        if not 0 <= loss < 1:
            raise InputError("telemetry loss", f"{loss} is out of range", "give a share in [0, 1)")
        object.__setattr__(self, "loss", loss)

    @classmethod
    def parsed(cls, given: object, where: str) -> Self | None:
        """Return the telemetry of a run; None if no report is late or lost."""
        found = super().parsed(given, where)
        return found if found is not None and (found.delay or found.loss) else None


#: Options of a run for the prefill tier, for latency limits and for telemetry.
PREFILL = option(
    None,
    checked(TEXT, PrefillTier.parsed),
    "TIER",
    f"with timed arrivals, prefill workers before the pool, e.g. {PrefillTier.example} (default: "
    "none; docs/cluster.md)",
    beside=TIMED,
)
SLO = option(
    None,
    checked(TEXT, ServiceLevel.parsed),
    "LIMITS",
    f"limits of a request that goodput counts by [s], e.g. {ServiceLevel.example} (default: none)",
)
TELEMETRY = option(
    None,
    checked(
        replace(TEXT, draws=lambda given: given is not None and given.loss > 0), Telemetry.parsed
    ),
    "T",
    f"loads that policies see are old or lost, e.g. {Telemetry.example} [steps, share] (default: "
    "none)",
)
