"""Options of the commands that serve requests; this module imports no server library."""

from __future__ import annotations

from dataclasses import dataclass

from bfio.common.options import (
    NUMBER,
    TEXT,
    CheckedOptions,
    OptionKind,
    checked,
    one_of,
    option,
    whole,
)
from bfio.decode.option_kinds import PrefillTier
from formulations.errors import InputError, known_fields
from formulations.scalars import real

#: Value of ``clock`` with which a step runs only when it is requested.
STEPPED = "stepped"
_SLOWEST, _FASTEST = 1e-6, 1e6


def _clock(value: object, name: str) -> str | float:
    if value == STEPPED:
        return STEPPED
    try:
        speed = float(str(value))
    except ValueError:
        speed = 0.0
    if not _SLOWEST <= speed <= _FASTEST:
        rule = f"give a number in [{_SLOWEST:g}, {_FASTEST:g}], or {STEPPED}"
        raise InputError(name, f"{value!r:.40} is not a clock", rule)
    return speed


def _seconds(least: float, most: float) -> OptionKind:
    """Return the option kind of times in a range [s]."""

    def check(value: object, name: str) -> float:
        time = float(real(value, name))
        if not least <= time <= most:
            rule = f"use {least:g} to {most:g} s"
            raise InputError(name, f"{time} s is out of range", rule)
        return time

    return checked(NUMBER, check)


_WAIT = _seconds(1e-4, 1e6)


@known_fields
@dataclass(frozen=True)
class EmulateOptions(CheckedOptions):
    """Options of the emulator, except those of its machine.

    Raises
    ------
    InputError
        If a value is invalid.
    """

    overflow: str = option(
        "recompute",
        one_of("recompute", "reserve"),
        "RULE",
        "with --memory: recompute (default: the youngest stops, to be sent again) or reserve "
        "(start only if the peak fits)",
    )
    clock: str | float = option(
        1.0,
        checked(TEXT, _clock),
        "F",
        f"seconds of the fleet per second (1), or {STEPPED}: POST /bfio/step runs each step",
    )
    settle_s: float = option(
        0.002,
        _seconds(0, 60),
        "T",
        "time from the tokens of a step to the next step, by the wall clock [s] (0.002)",
        name="settle",
    )
    prefill: PrefillTier | None = option(
        None,
        checked(TEXT, PrefillTier.parsed),
        "TIER",
        f"prefill workers under /prefill, e.g. {PrefillTier.example} (default: none)",
    )
    host: str = option("127.0.0.1", TEXT, "ADDRESS", "address to listen on (127.0.0.1)")
    port: int = option(8100, whole(0, 65535), "P", "port to listen on (8100); 0: any")
    addresses: str = option(
        "one",
        one_of("one", "each"),
        "A",
        "one (default: one port, X-data-parallel-rank chooses the worker) or each (ports from P "
        "on, one a worker)",
    )
    model: str = option("bfio", TEXT, "NAME", "name of the model (bfio)")


@known_fields
@dataclass(frozen=True)
class RouteOptions(CheckedOptions):
    """Options of the router, except its policy and the policy's options.

    Raises
    ------
    InputError
        If a value is invalid.
    """

    pool: int = option(1024, whole(1, 2**14), "R", "requests that may wait; more get 503 (1024)")
    ttl_s: float = option(
        600.0,
        _WAIT,
        "T",
        "longest time in the pool [s] (600); older requests get 503",
        name="ttl",
    )
    retries: int = option(
        3, whole(0, 100), "N", "attempts after a worker has failed a request (3)"
    )
    tick_s: float = option(
        0.005,
        _WAIT,
        "T",
        "if requests were sent too late for a step, decide so long after its last token; without "
        "a common boundary, after ten times that [s] (0.005)",
        name="tick",
    )
    host: str = option("127.0.0.1", TEXT, "ADDRESS", "address to listen on (127.0.0.1)")
    port: int = option(8000, whole(0, 65535), "P", "port to listen on (8000); 0: any")
