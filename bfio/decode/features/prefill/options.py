"""How the prefill tier is given: workers, times, places."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bfio.common.number_text import exact
from bfio.common.options import NUMBER, TEXT, WHOLE, checked, option, read_pairs
from bfio.decode.cluster import MAX_TIME_S
from bfio.decode.option_kinds import TIMED
from formulations.errors import InputError
from formulations.keywords import known_fields
from formulations.scalars import integer, real

#: Time in which the cache of a token reaches the pool [s]: half a MiB of it over 50 GB/s.
TRANSFER_TIME_S = 1e-5
#: Shortest time to live [s].
MIN_TTL_S = 1e-3
MAX_WORKERS = 10**6
_FORM = "write e.g. workers=4,token_time=5e-5,ttl=30,places=256"
#: What the parts of its text stand for.
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
    """Prefill workers, and the pool they hand their requests to.

    Parameters
    ----------
    workers : int
        ``P``; each computes one prompt at a time.
    token_time_s, overhead_s : float
        Time of a prefill per token of the prompt, and its fixed part [s].
    transfer_time_s : float
        Time per token of the prompt in which its cache reaches the pool [s].
    ttl_s : float
        Time for which the pool keeps the cache of a request that waits [s]; infinite for ever.
    places : int, optional
        Requests that the pool holds, those on their way to it included; by default any number.

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
        """What it is given as, without what is as by default."""
        values = {name: getattr(self, field) for name, field in _NAMES.items()}
        kept = {n: v for n, v in values.items() if v != getattr(type(self), _NAMES[n], None)}
        return ",".join(f"{name}={exact(value)}" for name, value in kept.items())


def prefill_tier(given: str | PrefillTier | None, where: str = "prefill") -> PrefillTier | None:
    """Return the tier that an option of a run stands for.

    Parameters
    ----------
    given : str, PrefillTier or None
        ``workers=P,token_time=SECONDS``, and ``overhead``, ``transfer``, ``ttl`` [s], ``places``;
        ``none`` for none.
    where : str
        What an error names.

    Raises
    ------
    InputError
        If it cannot be read.
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


#: Its option of a run.
PREFILL = option(
    None,
    checked(TEXT, prefill_tier),
    "TIER",
    "with timed arrivals, prefill workers before the pool, e.g. workers=4,token_time=5e-5,"
    "ttl=30,places=256 (default: none; docs/cluster.md)",
    beside=TIMED,
)
