"""``python -m benchmarks``: list, run, report."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from benchmarks.case import DEFAULT_DATA, DEFAULT_INSTANCES, DEFAULT_TIME_LIMIT_S, ROOT, Settings
from benchmarks.registry import cases, find_cases
from benchmarks.report import write_report
from benchmarks.runner import Tally, run_units, selected_units, session_name
from benchmarks.store import open_store
from bfio.cli.output import progress_bar
from formulations.arrays import integer
from formulations.errors import InputError

DONE, ROWS_FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
_DESCRIPTION = (
    "Run benchmark cases into resumable rows, and report them; see benchmarks/README.md."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    try:
        args = _parser().parse_args(argv)
        status: int = args.command(args)
    except InputError as error:
        return _say(f"error: {error}", BAD_INPUT)
    except OSError as error:
        return _say(f"error: {error.filename or 'output'}: {error.strerror or error}", BAD_INPUT)
    except KeyboardInterrupt:
        return _say("interrupted; finished rows are kept, the same command resumes", INTERRUPTED)
    return status


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line."""

    def error(self, message: str) -> NoReturn:
        """Print one line and leave."""
        self.exit(BAD_INPUT, f"error: command line: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m benchmarks", description=_DESCRIPTION)
    chooser = parser.add_subparsers(metavar="COMMAND", required=True)
    listing = chooser.add_parser("list", help="name every case")
    listing.set_defaults(command=_list)
    run = chooser.add_parser("run", help="measure cases; rows already there are skipped")
    _add_run_arguments(run)
    run.set_defaults(command=_run)
    report = chooser.add_parser("report", help="write report.md and one figure per case")
    report.add_argument("folder", type=Path, metavar="DIR", help="folder that `run` wrote")
    report.set_defaults(command=_report)
    return parser


def _add_run_arguments(run: argparse.ArgumentParser) -> None:
    run.add_argument("cases", nargs="+", metavar="CASE", help="name or pattern, e.g. 'steps-*'")
    run.add_argument("--smoke", action="store_true", help="smallest sizes (default --out differs)")
    run.add_argument("--out", type=Path, metavar="DIR", help="folder of the rows")
    run.add_argument("--only", action="append", default=[], metavar="TEXT",
                     help="units whose instance or method holds TEXT; repeatable")  # fmt: skip
    run.add_argument("--instances", type=int, default=DEFAULT_INSTANCES, metavar="N",
                     help="warm steps per group of a step case (%(default)s)")  # fmt: skip
    run.add_argument("--time-limit", type=float, default=DEFAULT_TIME_LIMIT_S, metavar="SECONDS",
                     help="limit of one solve (%(default)s)")  # fmt: skip
    run.add_argument("--methods", default="", metavar="A,B", help="methods or policies to measure")
    run.add_argument("--seed", type=int, default=0, metavar="N", help="first seed (%(default)s)")
    run.add_argument("--data", type=Path, default=DEFAULT_DATA, metavar="DIR", help="trace files")


def _list(args: argparse.Namespace) -> int:
    del args
    width = max(map(len, cases()))
    for case in cases().values():
        print(f"{case.name:{width}}  {case.summary}")
    return DONE


def _run(args: argparse.Namespace) -> int:
    settings = _settings(args)
    chosen = find_cases(args.cases)
    work = [(case, selected_units(case, settings, args.only)) for case in chosen]
    if not any(units for _, units in work):
        raise InputError("--only", "no unit holds these texts", "leave it out")
    session, total = session_name(), Tally()
    with open_store(settings.out) as store, progress_bar() as display:
        for case, units in work:
            task = display.add_task(case.name, total=len(units))
            tally = run_units(case, units, store, session, partial(display.advance, task))
            total = _added(total, tally)
    summary = f"{total.measured} rows measured, {total.skipped} already there"
    if total.failed:
        return _say(f"{summary}, {total.failed} failed: see {settings.out}", ROWS_FAILED)
    return _say(f"{summary}: {settings.out}", DONE)


def _report(args: argparse.Namespace) -> int:
    print(write_report(args.folder))
    return DONE


def _settings(args: argparse.Namespace) -> Settings:
    if not 0 < args.time_limit < float("inf"):
        raise InputError("--time-limit", f"{args.time_limit} s", "give a time > 0")
    return Settings(
        out=args.out or ROOT / "out" / ("benchmarks-smoke" if args.smoke else "benchmarks"),
        smoke=args.smoke,
        instances=integer(args.instances, "--instances", minimum=1),
        time_limit=args.time_limit,
        seed=integer(args.seed, "--seed"),
        methods=tuple(name for name in args.methods.split(",") if name),
        data=args.data,
    )


def _added(first: Tally, second: Tally) -> Tally:
    return Tally(
        first.measured + second.measured,
        first.skipped + second.skipped,
        first.failed + second.failed,
    )


def _say(line: str, status: int) -> int:
    print("".join(c if c.isprintable() else " " for c in line), file=sys.stderr)
    return status
