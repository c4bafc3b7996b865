"""Arguments of ``bfio wait``: how requests arrive, and what may not be said together."""

import argparse
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from bfio.cli.output import check_plot_name
from bfio.common.options import (
    RATIONAL,
    TEXT,
    flag,
    from_namespace,
    option,
)
from formulations.errors import InputError
from formulations.rationals import exact_rational


@dataclass(frozen=True)
class ArrivalOptions:
    """How requests arrive.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    duration: Fraction | None = option(
        None,
        RATIONAL,
        "T",
        "seconds of arrivals and observation (trace: until done)",
        name="horizon",
    )
    arrivals: str | None = option(
        None,
        TEXT,
        "MODE",
        "poisson (default), even, or trace (its own times, default with --trace)",
    )
    rate: Fraction | None = option(None, RATIONAL, "R", "trace: Poisson arrivals of R requests/s")
    rate_scale: Fraction | None = option(None, RATIONAL, "X", "trace: multiply the rate by X")
    scale: Fraction | None = option(
        None, RATIONAL, "ZETA", "heavy traffic: rates times ZETA, d0 and d1 over it"
    )

    def __post_init__(self) -> None:
        """Validate, and read numbers exactly."""
        if self.arrivals not in (None, "poisson", "even", "trace"):
            what = f"{self.arrivals!r} is unknown"
            raise InputError("arrivals", what, "use poisson, even or trace")
        for name in ("duration", "rate", "rate_scale", "scale"):
            if (given := getattr(self, name)) is not None:
                value = exact_rational(given, name, exponents=True)
                if value == 0:
                    raise InputError(name, "0 is out of range", "use a number > 0")
                object.__setattr__(self, name, value)


def checked_arrivals(args: argparse.Namespace) -> ArrivalOptions:
    """Refuse what contradicts itself or cannot be written, before anything is read.

    Raises
    ------
    InputError
        If there is such.
    """
    wrong = _trace_conflict(args) if args.trace is not None else _class_conflict(args)
    if wrong is not None:
        raise InputError("command line", *wrong)
    arrivals = from_namespace(ArrivalOptions, args)
    check_plot_name(args.plot)
    if args.plot is not None:
        _check_writable(Path(args.plot))
    return arrivals


def _trace_conflict(args: argparse.Namespace) -> tuple[str, str] | None:
    if args.arrivals == "even":
        return "--arrivals even with --trace", "use trace, or poisson with --rate"
    if args.arrivals == "poisson" and args.rate is None:
        return "--arrivals poisson with --trace", "add --rate"
    if args.rate is not None and (args.arrivals == "trace" or args.rate_scale is not None):
        return "--rate sets the times itself", "leave --arrivals trace and --rate-scale out"
    if args.scale is not None:
        return "--scale with --trace", "use --rate-scale, and other times in FILE"
    if args.horizon is not None and args.drain:
        return "--horizon and --drain with --trace", "give one of them"
    return None


def _class_conflict(args: argparse.Namespace) -> tuple[str, str] | None:
    if args.arrivals == "trace":
        return "--arrivals trace without --trace", "add --trace"
    for name in ("rate", "rate_scale"):
        if getattr(args, name) is not None:
            return f"{flag(name)} without --trace", "change the rates in FILE, or use --scale"
    for name in ("skip_bad_rows", "columns"):
        if getattr(args, name):
            return f"{flag(name)} without --trace", "add --trace, or leave it out"
    if args.horizon is None:
        return "no --horizon", "say for how many seconds requests arrive"
    return None


def _check_writable(path: Path) -> None:
    # Only writing tells: rights say nothing of a full or virtual file system.
    try:
        is_new = not (path.exists() or path.is_symlink())
        path.open("ab").close()
        if is_new:
            path.unlink()
    except (OSError, ValueError) as error:
        what = f"{path} cannot be written ({getattr(error, 'strerror', None) or error})"
        remedy = "name a file in a folder that can be written"
        raise InputError("--plot", what, remedy) from None
