"""``python -m benchmarks library``: build the problems and improve their best known results."""

import argparse
from pathlib import Path

from bfio.cli.command import DONE
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
    made = actions.add_parser("build", help="write the problems that are missing")
    made.set_defaults(act=_build)
    made.add_argument("--data", type=Path, metavar="DIR", default=traces,
                      help="folder of trace files (default %(default)s)")  # fmt: skip
    better = actions.add_parser("improve", help="try every method on entries that are not closed")
    better.set_defaults(act=_improve)
    better.add_argument(
        "names", nargs="*", metavar="NAME", help="names or patterns of entries (default all)"
    )
    better.add_argument("--work-limit", type=int, default=2_000_000, metavar="TICKS",
                        help="work limit of a solve [ticks of 1 µs] (%(default)s)")  # fmt: skip
    better.add_argument(
        "--methods", default="", metavar="A,B", help="methods to try (default all)"
    )
    better.add_argument(
        "--status", choices=["open", "claimed"], help="only entries with this status"
    )
    better.add_argument("--seed", type=int, default=0, metavar="N", help="seed of backends")
    taken = actions.add_parser("take", help="store a better solution from any source")
    taken.set_defaults(act=_take)
    taken.add_argument("name", metavar="NAME", help="name of the entry")
    taken.add_argument("file", metavar="FILE", help="solution, in the form of --json answers")
    taken.add_argument(
        "--by", required=True, metavar="TEXT", help="finder and method of the solution"
    )
    merged = actions.add_parser(
        "merge", help="store better results of another copy of the library"
    )
    merged.set_defaults(act=_merge)
    merged.add_argument("other", type=Path, metavar="DIR", help="folder of the other copy")
    for action in (made, better, taken, merged):
        action.add_argument("--library", type=Path, metavar="DIR", default=DATA,
                            help="folder of the library (default %(default)s)")  # fmt: skip


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
