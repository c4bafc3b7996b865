"""``python -m benchmarks stale`` and ``remake``: list outdated results and recompute them."""

import argparse
from collections.abc import Sequence
from typing import Any

from benchmarks.provenance import CHANGED, CURRENT, DERIVED, Result, chosen, headlines
from benchmarks.readme import write_all
from benchmarks.remake import MAX_SHOWN, remake_all, sample
from bfio.cli.command import DONE, say
from bfio.common.import_closure import ROOT
from formulations.arrays import integer
from formulations.errors import InputError

#: Exit status if a result is stale, refused, or cannot be recomputed.
REFUSED = 1
#: Folder of the stores of recomputed rows.
_ROWS = ROOT / "out" / "remade"


def add_results(chooser: Any) -> None:
    """Add the commands ``stale``, ``headlines`` and ``remake``."""
    which = "name or its beginning, e.g. 21 or results/gap; without any"
    listed = chooser.add_parser("stale", help="name the results that today's code did not make")
    listed.set_defaults(act=_stale)
    listed.add_argument("names", nargs="*", metavar="NAME", help=f"{which} all")
    checked = chooser.add_parser(
        "headlines", help="refuse results of README and docs that cannot be had with today's code"
    )
    checked.set_defaults(act=_headlines)
    made = chooser.add_parser("remake", help="make results anew, and the tables of READMEs")
    made.set_defaults(act=_remake)
    made.add_argument("names", nargs="*", metavar="NAME", help=f"{which} all that are stale")
    made.add_argument("--list", action="store_true", help="only say how long each takes")
    made.add_argument("--jobs", type=int, default=1, metavar="N",
                      help="processes; what measures speed takes one (%(default)s)")  # fmt: skip


def _stale(args: argparse.Namespace) -> int:
    stale = [result for result in chosen(args.names) if _is_stale(result)]
    _tell(stale)
    return REFUSED if stale else DONE


def _headlines(args: argparse.Namespace) -> int:
    del args
    refused = sum(bool(refusals(result)) for result in headlines())
    say(f"{refused} results refused")
    return REFUSED if refused else DONE


def refusals(result: Result) -> list[str]:
    """Check the result of a headline, print the verdict, and return the errors.

    Its commits must exist. If the code has changed since, a sample of its rows must come out the
    same, unless the rows measure speed or the trace is missing.
    """
    found = [f"commit {name} does not exist" for name in result.lost_commits()]
    judged = "code of today" if result.state() == CURRENT else "by its commit only"
    if result.state() == CHANGED and not result.is_timed:
        try:
            found += sample(result)
            judged = "by a sample"
        except InputError as error:
            judged = f"by its commit only ({error})"
    say(f"{result.name}: {'refused' if found else 'passed'}, {judged}")
    for line in found[:MAX_SHOWN]:
        say(f"  {line}")
    return found


def _remake(args: argparse.Namespace) -> int:
    jobs = integer(args.jobs, "--jobs", minimum=1)
    wanted = [r for r in chosen(args.names) if _is_stale(r) and r.state() != DERIVED]
    if args.list:
        _tell(wanted)
        return DONE
    failed = remake_all(wanted, _ROWS, jobs, say)
    write_all()
    return REFUSED if failed else DONE


def _is_stale(result: Result) -> bool:
    return result.state() != CURRENT or bool(result.lost_commits())


def _tell(results: Sequence[Result]) -> None:
    """Print a list of results with their states and times."""
    width = max((len(result.name) for result in results), default=0)
    for result in results:
        print(f"{result.name:{width}}  {'; '.join(filter(None, _facts(result)))}")
    minutes = sum(result.seconds for result in results) / 60
    print(f"{len(results)} results; those whose time is known take {minutes:.0f} min of one core")


def _facts(result: Result) -> tuple[str, ...]:
    """Return the state, commits, date, time and machine of a result, as texts."""
    lost = result.lost_commits()
    commits = [f"{name} (does not exist)" if name in lost else name for name in result.commits]
    is_known = result.seconds > 0
    return (
        f"by {result.script}" if result.script else result.state(),
        f"commit {', '.join(commits)}" if commits else "no commit",
        result.origin.get("date", ""),
        f"{result.seconds:,.0f} s on {result.origin['processor']}" if is_known else "",
    )
