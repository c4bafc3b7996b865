"""``bfio demo``: compare four policies on generated requests, with explanations."""

import argparse
import shutil
import sys
from pathlib import Path

from bfio.cli.command import Command
from bfio.cli.commands import compare

_POLICIES = "fcfs,jsq-tokens,br-0,bf-io"
_REQUESTS = 4000

_SUMMARY = "compare four policies on generated requests, with explanations (start here)"
_DESCRIPTION = """\
Compare four routing policies on 4,000 generated requests and 16 workers of 72 slots each, in under
a minute. Explains the printed metrics and lists commands to try next.
"""
_INTRODUCTION = """\
Decode workers of an LLM server advance in lockstep: every step lasts as long as the most loaded
worker needs. A request stays on its worker, and its KV cache grows by one token per step. Policies
assign the same waiting requests to workers; unless --policies names others, they are:

  fcfs        oldest request to the worker with most free slots
  jsq-tokens  oldest request to the worker with least load
  br-0        BalanceRoute: a fast two-stage heuristic that fills each worker's safe margin
  bf-io       the integer program of every step, solved to proven optimality
"""
_MEANING = """\
How to read it:

  AvgImbalance  sum over workers of (maximum load - load), averaged over steps; ÷: fcfs's / this
  idle          1 - mean load / maximum load, averaged over steps
  barrier       share of worker time spent waiting for the most loaded worker

The length of a step grows with its maximum load, which is (total load + imbalance) / workers. At
equal total load, less imbalance makes a shorter step. The total load depends on the policy: on the
prompt lengths of the requests that it starts, and on how many run at once. Tokens per second are
counted over steps; TPOT is averaged over completed requests. Therefore a policy can have less
imbalance and more tokens per second than another one, but a higher mean TPOT.
"""
#: Arguments of the commands to try next, with their purposes.
_NEXT = (
    ("compare --trace FILE", "the same comparison on your trace"),
    ("gap --policy br-0", "how far br-0 is from the optimum of each step"),
    ("doctor", "versions, solvers, and a test of each part"),
    ("COMMAND --help", "every other command and option"),
)


def called() -> str:
    """Return the shell command of this program: its name if on the PATH, otherwise its path."""
    program = Path(sys.argv[0])
    if program.name != "bfio":
        return f"{sys.executable} -m bfio"
    found = shutil.which("bfio")
    is_found = found is not None and Path(found).resolve() == program.resolve()
    return "bfio" if is_found else str(program)


def next_steps() -> str:
    """Return the commands to try next, one per line."""
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
