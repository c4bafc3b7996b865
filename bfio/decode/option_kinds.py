"""Option kinds of decode runs: their valid values, and how texts are parsed."""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from bfio.common.options import (
    LOOK_AHEAD,
    NUMBER,
    RATIONAL,
    TEXT,
    WHOLE,
    CheckedOptions,
    OptionKind,
    checked,
    one_of,
    option,
    options_of,
    rational,
    read_pairs,
    whole,
)
from bfio.common.text import exact
from bfio.decode.cluster import MAX_TIME_S
from formulations.deadline import checked_work_limit
from formulations.errors import InputError, known_fields
from formulations.scalars import MAX_TOKENS, exact_rational, real

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
class Pairs(CheckedOptions):
    """Base class of option values written as a text ``name=value,name=value``."""

    #: An example of a text.
    example: ClassVar[str] = ""

    @classmethod
    def parsed(cls, given: object, where: str) -> Self | None:
        """Return the value of an option; ``none`` gives None."""
        if given is None or given == "none":
            return None
        if isinstance(given, cls):
            return given
        named = {entry.name: entry for entry in options_of(cls)}
        kinds = {name: entry.kind for name, entry in named.items()}
        values = read_pairs(kinds, str(given), where)
        for name, entry in named.items():
            if entry.default is MISSING and name not in values:
                raise InputError(where, f"has no {name}=", f'write e.g. {where}="{cls.example}"')
        return cls(**{named[name].field: value for name, value in values.items()})

    @property
    def text(self) -> str:
        """The value as a text, without entries that equal their defaults."""
        values = ((entry, getattr(self, entry.field)) for entry in options_of(type(self)))
        return ",".join(f"{entry.name}={exact(v)}" for entry, v in values if v != entry.default)


def _pair(default: Any, kind: OptionKind, name: str | None = None) -> Any:
    """Return a field of `Pairs`; ``name`` is its name in texts, by default that of the field."""
    return option(default, kind, "", "", name=name)


def _time_to_live(value: object, name: str) -> float:
    ttl_s = math.inf if value == math.inf else float(real(value, "prefill ttl"))
    if not ttl_s >= MIN_TTL_S:
        raise InputError("prefill ttl", f"{ttl_s} s is too short", f"give {MIN_TTL_S} s or more")
    return ttl_s


def _limit(value: object, name: str) -> float:
    limit = math.inf if value == math.inf else float(real(value, name))
    if not limit > 0:
        raise InputError(name, f"{limit} s is not a valid limit", "give seconds > 0")
    return limit


def _loss(value: object, name: str) -> float:
    loss = float(real(value, name))
    if not 0 <= loss < 1:
        raise InputError(name, f"{loss} is out of range", "give a share in [0, 1)")
    return loss


_TIME, _LIMIT = checked(NUMBER, checked_time), checked(NUMBER, _limit)


@known_fields
@dataclass(frozen=True)
class PrefillTier(Pairs):
    """Options of the prefill tier: prefill workers, and the pool that receives their requests.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    whose = "prefill "
    example = "workers=4,token_time=5e-5,ttl=30,places=256"
    #: ``P``; each computes one prompt at a time.
    workers: int = _pair(MISSING, whole(1, MAX_WORKERS))
    #: Time of a prefill per prompt token, and its fixed part [s].
    token_time_s: float = _pair(MISSING, _TIME, "token_time")
    overhead_s: float = _pair(0.0, _TIME, "overhead")
    #: Time per prompt token to transfer its cache to the pool [s].
    transfer_time_s: float = _pair(TRANSFER_TIME_S, _TIME, "transfer")
    #: Time that the pool keeps the cache of a waiting request [s]; infinite for no limit.
    ttl_s: float = _pair(math.inf, checked(NUMBER, _time_to_live), "ttl")
    #: Number of requests that the pool holds, including those in transfer; by default no limit.
    places: int | None = _pair(None, whole(1, MAX_TOKENS))


@known_fields
@dataclass(frozen=True)
class ServiceLevel(Pairs):
    """Latency limits of a request, which only metrics use.

    ``ttft_s`` is the longest time from arrival or reveal to the first token, ``tpot_s`` the
    longest time per output token (BF-IO eq. 9) [s]; infinite for no limit, but not both.
    """

    whose = "slo: "
    example = "ttft=2,tpot=0.05"
    ttft_s: float = _pair(math.inf, _LIMIT, "ttft")
    tpot_s: float = _pair(math.inf, _LIMIT, "tpot")

    def __post_init__(self) -> None:
        """Check that there is a limit."""
        super().__post_init__()
        if self.ttft_s == self.tpot_s == math.inf:
            raise InputError("slo", "sets no limit", f'write e.g. slo="{self.example}"')

    def met(self, first_tokens: FloatArray, times_per_token: FloatArray) -> BoolArray:
        """Return which requests met both limits, shape (n,); both times in seconds."""
        return (first_tokens <= self.ttft_s) & (times_per_token <= self.tpot_s)


@known_fields
@dataclass(frozen=True)
class Telemetry(Pairs):
    """Load reports of workers: each arrives ``delay`` steps late, and a share ``loss`` is lost."""

    whose = "telemetry "
    example = "delay=4,loss=0.1"
    delay: int = _pair(0, whole(0, MAX_DELAY))
    loss: float = _pair(0.0, checked(NUMBER, _loss))

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
