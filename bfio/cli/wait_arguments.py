"""What the arguments of ``bfio wait`` may not say together."""

import argparse
from pathlib import Path

from formulations.errors import InputError

_PLOT_FORMATS = (".png", ".pdf", ".svg")


def check_arguments(args: argparse.Namespace) -> None:
    """Refuse what contradicts itself or cannot be written, before anything is read.

    Raises
    ------
    InputError
        If there is such.
    """
    wrong = _trace_conflict(args) if args.trace is not None else _class_conflict(args)
    if wrong is not None:
        raise InputError("command line", *wrong)
    if args.arrivals not in (None, "poisson", "even", "trace"):
        what = f"{args.arrivals!r} is unknown"
        raise InputError("--arrivals", what, "use poisson, even or trace")
    if args.plot is not None:
        _check_plot(Path(args.plot))


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
            option = f"--{name.replace('_', '-')}"
            return f"{option} without --trace", "change the rates in FILE, or use --scale"
    if args.skip_bad_rows:
        return "--skip-bad-rows without --trace", "add --trace, or leave it out"
    if args.horizon is None:
        return "no --horizon", "say for how many seconds requests arrive"
    return None


def _check_plot(path: Path) -> None:
    if path.suffix not in _PLOT_FORMATS:
        formats = ", ".join(_PLOT_FORMATS)
        raise InputError("--plot", f"{path.name!r} is no plot's name", f"end it with {formats}")
    # Only writing tells: rights say nothing of a full or virtual file system.
    try:
        is_new = not (path.exists() or path.is_symlink())
        path.open("ab").close()
        if is_new:
            path.unlink()
    except (OSError, ValueError) as error:
        raise _unwritable(path, str(getattr(error, "strerror", None) or error)) from None


def _unwritable(path: Path, reason: str) -> InputError:
    remedy = "name a file in a folder that can be written"
    return InputError("--plot", f"{path} cannot be written ({reason})", remedy)
