"""``bfio solve``: one step problem, or one per line."""

import argparse
import sys
from typing import TYPE_CHECKING

from bfio.cli.command import BAD_INPUT, DONE, NOTHING_FOUND, Command
from bfio.cli.exchange import add_exchange, exchange, is_exchange
from bfio.cli.options import add_common, add_time_limit, add_work_limit
from bfio.cli.output import naming, print_json, read_text
from bfio.cli.so_far import View, begin
from formulations.errors import InputError

if TYPE_CHECKING:
    from formulations.deadline import TimeLimit
    from formulations.step import StepProblem, StepResult

_SUMMARY = "solve one step problem (or a file of them) exactly or by heuristic"
_DESCRIPTION = """\
Solve one step: which waiting request goes to which worker, so that the imbalance (or the maximum
load, or the gap) over the look-ahead window is least.

FILE is JSON ("-" reads stdin); FILE.jsonl holds one problem per line and is answered line by line:

  {"capacity": [1, 0, 2],                       free slots of each worker
   "base": [[100, 101], [250, 251], [90, 91]],  load of each worker at h = 0..H
   "contribution": [[30, 31], [75, 76]],        load each waiting request adds at h = 0..H
   "discount": ["1", "9/10"],                   optional, one exact weight per h
   "objective": "imbalance"}                    optional: imbalance, max-load, gap

optional besides: "token_capacity" (per worker), "required" (true per request that must start),
"token_time" (time per token of each worker), "admit" (exact number of requests to start),
"benefit" (per request a list: what starting it on each worker is worth, taken off the objective).

  bfio solve step.json
  bfio solve step.json --method cp-sat --time-limit 10 --json
  bfio solve step.json --work-limit 5000000   (stops alike on every machine)
  bfio solve step.json --write step.lp                    (docs/exchange.md)
  bfio solve step.json --second age   (of the optima, the one that admits the oldest)

"optimal" means proven in integers. HiGHS and Pyomo solvers bound in floating point, so their
answers are "feasible" unless a combinatorial bound happens to prove them.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="step problem (.json, or .jsonl for many)")
    parser.add_argument(
        "--method",
        metavar="NAME",
        help="exact (default), two-stage, cp-sat, highs, pyomo[:SOLVER], brute-force",
    )
    parser.add_argument(
        "--second",
        metavar="NAME",
        help="which of the optima: age, largest, smallest, window, now or gap (docs/second.md)",
    )
    parser.add_argument(
        "--slack",
        metavar="E",
        type=int,
        default=0,
        help="with --second: how far above the optimum the objective may be (0)",
    )
    add_time_limit(parser)
    add_work_limit(parser)
    add_exchange(parser)
    add_common(parser)


def _run(args: argparse.Namespace) -> int:
    if args.slack and args.second is None:
        raise InputError("--slack", "there is no second objective", "add --second NAME")
    is_exchanged, is_many = is_exchange(args), args.file.endswith(".jsonl")
    if is_exchanged and is_many:
        raise InputError(args.file, "holds many problems", "give a .json file with one of them")
    # Loaded before the clock begins.
    from formulations.step import StepProgram, StepResult

    if is_exchanged:
        return exchange(args, StepProgram(_problem(read_text(args.file), args.file)), "solve", {})
    if is_many:
        return _solve_lines(read_text(args.file), args)
    view = View(args, StepResult.to_mapping, lambda result: [result.summary()], _status)
    deadline = begin(args, args.method or "exact", view)
    result = _solve(read_text(args.file), args.file, args, deadline)
    if args.json:
        print_json(result.to_mapping())
    else:
        print(result.summary())
    return _status(result)


def _solve(text: str, where: str, args: argparse.Namespace, limit: "TimeLimit") -> "StepResult":
    from bfio.step.solve import solve_step

    method = args.method or "exact"
    problem = _problem(text, where)
    return solve_step(
        problem,
        method=method,
        time_limit=limit,
        work_limit=args.work_limit,
        seed=args.seed,
        second=args.second,
        slack=args.slack,
    )


def _problem(text: str, where: str) -> "StepProblem":
    from formulations.step import StepProblem

    with naming(where):
        return StepProblem.from_json(text)


def _solve_lines(text: str, args: argparse.Namespace) -> int:
    """Answer every line, and go on after one that is no problem."""
    import json

    from bfio.cli.output import progress_bar

    lines, answers = text.splitlines(), sys.stdout
    statuses = {DONE}
    with progress_bar() as bar:
        task = bar.add_task("solve", total=len(lines))
        for k, line in enumerate(lines):
            try:
                result = _solve(line, f"{args.file}: line {k + 1}", args, args.time_limit)
                answer, status = result.to_mapping(), _status(result)
            except InputError as error:
                answer, status = {"error": str(error)}, BAD_INPUT
            print(json.dumps(answer, allow_nan=False), file=answers, flush=True)
            statuses.add(status)
            bar.advance(task)
    return BAD_INPUT if BAD_INPUT in statuses else max(statuses)


def _status(result: "StepResult") -> int:
    from formulations.results import Termination

    found = result.assignment is not None or result.termination is Termination.INFEASIBLE
    return DONE if found else NOTHING_FOUND


COMMAND = Command("solve", _SUMMARY, _DESCRIPTION, _add_arguments, _run)
