"""Arguments of ``bfio batch``: where the network comes from, and what may not be said together."""

import argparse
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from bfio.common.options import RATIONAL, TEXT, WHOLE, flag, from_namespace, option, split_pairs
from formulations.errors import InputError
from formulations.rationals import exact_number

_PLOT_FORMATS = (".png", ".pdf", ".svg")
_MOST_BATCHES = 1000


@dataclass(frozen=True)
class SourceOptions:
    """A network without a file, and laws of what arrives.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    hardware: str | None = option(
        None, TEXT, "NAME", "in the place of FILE: engines with published batch times"
    )
    rate: Fraction | None = option(
        None, RATIONAL, "R", "with --hardware: requests/s; with --trace: Poisson arrivals"
    )
    prefill: Fraction | None = option(
        None, RATIONAL, "M", "with --hardware: mean prompt tokens, >= 1"
    )
    decode: Fraction | None = option(
        None, RATIONAL, "M", "with --hardware: mean decode tokens, >= 1"
    )
    budget: int = option(512, WHOLE, "B", "with --hardware: token budget (default 512)")
    engines: int = option(1, WHOLE, "K", "with --hardware: engines in parallel (default 1)")
    rate_scale: Fraction | None = option(None, RATIONAL, "X", "trace: multiply the rate by X")
    sizes: str = option(
        "geometric", TEXT, "LAW", "tokens around their means: geometric (default), fixed, poisson"
    )
    arrivals: str = option("poisson", TEXT, "LAW", "poisson (default) or bernoulli")
    balancer: str = option(
        "random",
        TEXT,
        "NAME",
        "parallel engines: random (default), least-requests, least-tokens, first",
    )
    terms: str | None = option(
        None, TEXT, "TERMS", "time of a batch beyond its tokens: NAME=VALUE:... [slots]"
    )

    def __post_init__(self) -> None:
        """Read numbers exactly."""
        for name in ("rate", "prefill", "decode", "rate_scale"):
            if (given := getattr(self, name)) is not None:
                value = exact_number(given, name, positive=True)
                object.__setattr__(self, name, value)


def checked_sources(args: argparse.Namespace) -> SourceOptions:
    """Refuse what contradicts itself or cannot be written, before anything is read.

    Raises
    ------
    InputError
        If there is such.
    """
    wrong = _conflict(args)
    if wrong is not None:
        raise InputError("command line", *wrong)
    if args.plot is not None and Path(args.plot).suffix not in _PLOT_FORMATS:
        what, formats = f"{Path(args.plot).name!r} is no plot's name", ", ".join(_PLOT_FORMATS)
        raise InputError("--plot", what, f"end it with {formats}")
    if args.show_batches is not None and not 1 <= args.show_batches <= _MOST_BATCHES:
        what = f"{args.show_batches} is out of range"
        raise InputError("--show-batches", what, f"use 1 to {_MOST_BATCHES:,}")
    return from_namespace(SourceOptions, args)


def _conflict(args: argparse.Namespace) -> tuple[str, str] | None:
    if (args.file is None) == (args.hardware is None):
        found = "neither FILE nor --hardware" if args.file is None else "FILE and --hardware"
        return found, "give one of them"
    sized = args.prefill is not None or args.decode is not None
    if args.hardware is None and sized:
        return "--prefill or --decode with FILE", "write them there"
    for name in ("budget", "engines"):
        if args.hardware is None and getattr(args, name) != getattr(SourceOptions(), name):
            return f"{flag(name)} with FILE", "write it there"
    if args.hardware is None and args.rate is not None and args.trace is None:
        return "--rate with FILE", "write it there, or give --trace"
    if args.hardware is not None and args.trace is None:
        missing = [n for n in ("rate", "prefill", "decode") if getattr(args, n) is None]
        if missing:
            return f"--hardware without --{missing[0]}", "add it, or a --trace"
    return _trace_conflict(args, sized=sized)


def _trace_conflict(args: argparse.Namespace, *, sized: bool) -> tuple[str, str] | None:
    if args.trace is None:
        for name in ("rate_scale", "skip_bad_rows", "columns"):
            if getattr(args, name):
                return (
                    f"{flag(name)} without --trace",
                    "add --trace, or leave it out",
                )
        return None if args.horizon is not None else ("no --horizon", "say how long to simulate")
    if sized or args.sizes != SourceOptions().sizes:
        which = "--prefill or --decode" if sized else "--sizes"
        return f"{which} with --trace", "leave them out: the trace has its own"
    if args.rate is None and args.arrivals != SourceOptions().arrivals:
        return "--arrivals with --trace", "leave it out, as the trace has times; or give --rate"
    if args.rate is not None and args.rate_scale is not None:
        return "--rate and --rate-scale", "give one of them"
    if args.rate is not None and args.horizon is None:
        return "--rate without --horizon", "say how long to simulate"
    return None


def priorities(texts: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the orders of stages that agents are given as ``AGENT=STAGE>STAGE``.

    Raises
    ------
    InputError
        If one cannot be read, or an agent is named twice.
    """
    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        agent, equals, order = text.partition("=")
        stages = tuple(name.strip() for name in order.split(">"))
        if not equals or not all(stages):
            raise InputError(
                "--priority", f"{text!r:.60}", "write last, first or AGENT=STAGE>STAGE"
            )
        if agent in found:
            raise InputError("--priority", f"{agent} is named twice", "give it one order")
        found[agent.strip()] = stages
    return found


def pairs(texts: list[str], where: str) -> dict[str, str]:
    """Return what is written as ``NAME=VALUE``.

    Raises
    ------
    InputError
        If one cannot be read, or a name occurs twice.
    """
    found = split_pairs(texts, where)
    for name, value in found.items():
        if not name or not value:
            raise InputError(where, f"{name or value!r:.60}", "write NAME=VALUE")
    return found
