"""``bfio solve``: solve one step problem, or one per line of a file."""

import argparse
import json
import sys
from dataclasses import replace

from bfio.cli.command import BAD_INPUT, DONE
from bfio.cli.options import add_by_usage, add_work_limit
from bfio.cli.output import progress_bar, read_text
from bfio.cli.problem_command import is_exchange, problem_command, status_of
from bfio.programs import STEP
from formulations.errors import InputError, naming

#: Arguments passed to the solver unchanged.
_PASSED = ("work_limit", "second", "slack")

_DESCRIPTION = """\
Solve one step problem: assign waiting requests to workers so that the imbalance (or the maximum
load, or the gap) over the look-ahead window is least. Loads are KV-cache tokens.

FILE is JSON ("-" reads stdin); FILE.jsonl holds one problem per line and is answered line by line:

  {"capacity": [1, 0, 2],                       free slots of each worker
   "base": [[100, 101], [250, 251], [90, 91]],  load of each worker at h = 0..H
   "contribution": [[30, 31], [75, 76]],        load each waiting request adds at h = 0..H
   "discount": ["1", "9/10"],                   optional, one weight per h, rounded to millionths
   "objective": "imbalance"}                    optional: imbalance, max-load, gap

optional too: "token_capacity" (per worker), "required" (true per request that must start),
"token_time" (time per token of each worker), "admit" (exact number of requests to start),
"benefit" (per request, a list of what starting it on each worker subtracts from the objective),
"waited" with "longest_wait": L (requests that have waited L rounds or more must start).

  bfio solve step.json
  bfio solve step.json --method cp-sat --time-limit 10 --json
  bfio solve step.json --work-limit 5000000   (stops alike on every machine)
  bfio solve step.json --write step.lp                    (docs/exchange.md)
  bfio solve step.json --second age   (of the optima, the one that admits the oldest)

"optimal" means proven in integers. Bounds of HiGHS and Pyomo solvers are floating-point, so their
answers are "feasible" unless a combinatorial bound proves them.
"""


def _add_second(parser: argparse.ArgumentParser) -> None:
    text = "which optimum to return: age, largest, smallest, window, now or gap (docs/second.md)"
    add_by_usage(parser, {"--second NAME": text})
    text = "with --second: largest excess of the objective over the optimum (default 0)"
    add_by_usage(parser, {"--slack E": text}, type=int, default=0)
    add_work_limit(parser)


def _run(args: argparse.Namespace) -> int:
    if not args.file.endswith(".jsonl"):
        return _SOLVER.run(args)
    if is_exchange(args):
        what = "cannot be combined with a .jsonl file"
        raise InputError(args.file, what, "give a .json file with one problem")
    return _solve_lines(read_text(args.file), args)


def _solve_lines(text: str, args: argparse.Namespace) -> int:
    """Solve the problem of each line that is not blank; print errors and continue."""
    from bfio.step.solve import solve_step
    from formulations.step import StepProblem

    how = {name: getattr(args, name) for name in ("time_limit", "seed", *_PASSED)}
    lines = [(k, line) for k, line in enumerate(text.splitlines(), 1) if line.strip()]
    answers = sys.stdout
    statuses = {DONE}
    with progress_bar() as bar:
        task = bar.add_task("solve", total=len(lines))
        for k, line in lines:
            try:
                with naming(f"{args.file}: line {k}"):
                    problem = StepProblem.from_json(line)
                result = solve_step(problem, method=args.method or "exact", **how)
                answer, status = result.to_mapping(), status_of(result)
            except InputError as error:
                answer, status = {"error": str(error)}, BAD_INPUT
            print(json.dumps(answer, allow_nan=False), file=answers, flush=True)
            statuses.add(status)
            bar.advance(task)
    return BAD_INPUT if BAD_INPUT in statuses else max(statuses)


_SOLVER = problem_command(
    "solve",
    "solve one step problem, or a file of them, exactly or by a heuristic",
    _DESCRIPTION,
    kind=STEP,
    file="step problem (.json, or .jsonl for many)",
    methods="exact (default), two-stage, cp-sat, highs, pyomo[:SOLVER], brute-force, "
    "lp (bound only)",
    more_arguments=_add_second,
    passed=_PASSED,
)
COMMAND = replace(_SOLVER, run=_run)
