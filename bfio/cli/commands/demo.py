"""``bfio demo``: the main job on an embedded default, explained."""

import argparse

from bfio.cli.command import Command
from bfio.cli.commands import compare

_POLICIES = "fcfs,jsq-tokens,br-0,bf-io"
_REQUESTS = 4000

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
How to read it: AvgImbalance is the load the workers lack, in tokens, to be as full as the fullest
one, and ÷ how many times less that is than under fcfs; idle is how far the average worker's load
is below the fullest one's; barrier is the share of worker time spent waiting for the fullest. Less
imbalance makes shorter steps: more tokens per second, less time per token (TPOT).

Next:  bfio compare --trace FILE         the same on a trace of yours
       bfio gap --policy br-0            how far the heuristic is from each step's optimum
       bfio COMMAND --help               everything else
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    compare.COMMAND.add_arguments(parser)
    parser.set_defaults(policies=_POLICIES, requests=_REQUESTS)


def _run(args: argparse.Namespace) -> int:
    if args.json:
        return compare.run_and_show(args)
    print(_INTRODUCTION)
    status = compare.run_and_show(args)
    print(_MEANING)
    return status


COMMAND = Command(
    name="demo",
    summary="the main job on an embedded default, explained (start here)",
    description=_DESCRIPTION,
    add_arguments=_add_arguments,
    run=_run,
)
