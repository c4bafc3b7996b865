"""``bfio demo``: the comparison of policies on an embedded default, explained."""

import argparse
import shutil
import sys
from pathlib import Path

from bfio.cli.command import Command
from bfio.cli.commands import compare

_POLICIES = "fcfs,jsq-tokens,br-0,bf-io"
_REQUESTS = 4000

_SUMMARY = "the main job on an embedded default, explained (start here)"
_DESCRIPTION = """\
The main job on an embedded default, in under a minute: 4,000 generated requests on 16 workers of
72 slots under four policies. Ends with what the numbers mean and what to try next.
"""
_INTRODUCTION = """\
16 decode workers of an LLM server advance in lockstep: every step lasts as long as the most loaded
worker, so the others wait. A request stays on its worker and its load grows by one token a step.
Four policies decide which waiting request goes where, on the same 4,000 requests:

  fcfs        oldest request to the worker with most free slots
  jsq-tokens  oldest request to the worker with least load
  br-0        BalanceRoute: a fast two-stage heuristic that fills each worker's safe margin
  bf-io       the integer program of every step, solved to proven optimality
"""
_MEANING = """\
How to read it:

  AvgImbalance  sum over workers of (maximum load - load), averaged over steps; ÷ is fcfs's over it
  idle          1 - mean load / maximum load, averaged over steps
  barrier       share of worker time spent waiting for the most loaded worker

A step lasts as long as its maximum load, which is (total load + imbalance) / workers. So at equal
total load less imbalance makes a shorter step. The total load differs between policies: it depends
on which requests each starts, with long or short prompts, and on how many run at once. Tokens per
second are counted over steps, TPOT is averaged over completed requests. So a policy can have less
imbalance and more tokens per second than another, and yet a higher mean TPOT.
"""
#: Arguments of the commands to try next, with their purposes.
_NEXT = (
    ("compare --trace FILE", "the same on a trace of yours"),
    ("gap --policy br-0", "how far the heuristic is from each step's optimum"),
    ("doctor", "versions, solvers, whether all parts work"),
    ("COMMAND --help", "everything else"),
)


def called() -> str:
    """Return how to call this program: by its path, unless the shell finds it by its name."""
    program = Path(sys.argv[0])
    if program.name != "bfio":
        return f"{sys.executable} -m bfio"
    found = shutil.which("bfio")
    is_found = found is not None and Path(found).resolve() == program.resolve()
    return "bfio" if is_found else str(program)


def next_steps() -> str:
    """Return the commands to try next, with the right program name."""
    typed = [(f"{called()} {arguments}", purpose) for arguments, purpose in _NEXT]
    width = max(len(command) for command, _ in typed)
    lines = [f"  {command:{width}}  {purpose}" for command, purpose in typed]
    return "\n".join(["Next:", *lines])


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    compare.COMMAND.add_arguments(parser)
    parser.set_defaults(policies=_POLICIES, requests=_REQUESTS)


def _run(args: argparse.Namespace) -> int:
    if args.json:
        return compare.run_and_show(args)
    print(_INTRODUCTION)
    status = compare.run_and_show(args)
    print(_MEANING)
    print(next_steps())
    return status


COMMAND = Command("demo", _SUMMARY, _DESCRIPTION, _add_arguments, _run)
