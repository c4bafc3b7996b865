"""``python -m benchmarks library``: build the problems and improve their best known results."""

import argparse
from functools import partial
from pathlib import Path

from bfio.cli.command import DONE
from bfio.cli.options import add_action, add_by_usage
from bfio.cli.output import read_text
from bfio.library import Status, entry
from bfio.library.store import DATA
from formulations.arrays import integer
from formulations.deadline import MAX_WORK_LIMIT
from formulations.problem_data import parse_json
from formulations.words import counted

_DESCRIPTION = """\
Make and improve the library of instances (docs/library.md).

  python -m benchmarks library build                  write the problems that are missing
  python -m benchmarks library improve 'step-*' --work-limit 5000000
  python -m benchmarks library take NAME answer.json --by "whose, with what"
  python -m benchmarks library merge DIR              better results of another copy
  python -m benchmarks readme                         regenerate the tables of docs/library.md

improve tries every method on each entry that is not closed, and rewrites its best known values
only where the checker finds a better solution, or the verifier derives a tighter bound.
"""


def add_library(parser: argparse.ArgumentParser, traces: Path) -> None:
    """Add the actions of the library to a parser."""
    parser.description = _DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    action = partial(add_action, actions)
    made = action("build", _build, "write the problems that are missing")
    data = {"--data DIR": "folder of trace files (default %(default)s)"}
    add_by_usage(made, data, type=Path, default=traces)
    better = action("improve", _improve, "try every method on entries that are not closed")
    names = {"names NAME": "names or patterns of entries (default all)"}
    add_by_usage(better, names, nargs="*")
    limit = {"--work-limit TICKS": "work limit of a solve [ticks of 1 µs] (%(default)s)"}
    add_by_usage(better, limit, type=int, default=2_000_000)
    add_by_usage(better, {"--methods A,B": "methods to try (default all)"}, default="")
    statuses = ["open", "claimed"]
    better.add_argument("--status", choices=statuses, help="only entries with this status")
    add_by_usage(better, {"--seed N": "seed of backends"}, type=int, default=0)
    taken = action("take", _take, "store a better solution from any source")
    solution = {
        "name NAME": "name of the entry",
        "file FILE": "solution, in the form of --json answers",
    }
    add_by_usage(taken, solution)
    add_by_usage(taken, {"--by TEXT": "finder and method of the solution"}, required=True)
    merged = action("merge", _merge, "store better results of another copy of the library")
    add_by_usage(merged, {"other DIR": "folder of the other copy"}, type=Path)
    library = {"--library DIR": "folder of the library (default %(default)s)"}
    for each in (made, better, taken, merged):
        add_by_usage(each, library, type=Path, default=DATA)


def _build(args: argparse.Namespace) -> int:
    from benchmarks.library.problems import build

    new, otherwise = build(args.library, args.data)
    print(f"{new} new problems")
    if otherwise:
        names = ", ".join(otherwise)
        print(f"{len(otherwise)} frozen problems would be generated differently today: {names}")
    return DONE


def _improve(args: argparse.Namespace) -> int:
    from benchmarks.library.improve import improve
    from benchmarks.library.methods import Limits

    ticks = integer(args.work_limit, "--work-limit", minimum=1, maximum=MAX_WORK_LIMIT)
    methods = [name for name in args.methods.split(",") if name]
    limits = Limits.of_work(ticks, args.seed)
    statuses = (Status(args.status),) if args.status else (Status.OPEN, Status.CLAIMED)
    better = improve(
        args.library,
        args.names or ["*"],
        limits,
        methods,
        statuses,
        lambda line: print(line, flush=True),
    )
    print(f"improved: {counted(better, 'entry')}")
    return DONE


def _take(args: argparse.Namespace) -> int:
    from benchmarks.library.improve import take

    better = take(
        args.library, entry(args.name, args.library), parse_json(read_text(args.file)), args.by
    )
    print("better: stored" if better else "not better: nothing changed")
    return DONE


def _merge(args: argparse.Namespace) -> int:
    from benchmarks.library.improve import merge

    print(f"improved: {counted(merge(args.library, args.other), 'entry')}")
    return DONE
