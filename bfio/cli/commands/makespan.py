"""``bfio makespan``: the best schedule of barrier-synchronised workers, all requests known."""

import argparse
from typing import TYPE_CHECKING

from bfio.cli.problem_command import problem_command
from bfio.programs import MAKESPAN

if TYPE_CHECKING:
    from formulations.hindsight_makespan import MakespanProblem, MakespanResult

#: Largest drawing: number of workers (and of listed requests), and of steps.
_SHOWN_ROWS, _SHOWN_STEPS = 24, 40

_DESCRIPTION = """\
When and where should each request have decoded if all had been known in advance? G workers of B
slots run in lockstep; a request with prompt s and output o occupies a slot of one worker for o
steps, with loads s, s+1, ..., s+o-1, never paused or moved. A step lasts C + t*(largest load of a
worker).

FILE is JSON ("-" reads stdin):

  {"workers": 2, "slots": 1,
   "requests": [{"prompt": 9, "output": 2},
                {"arrival": 0, "prompt": 10, "output": 1}],   arrival [step]: optional, 0
   "step_overhead": "0.0048875",       optional: C [s], exact, as a string or whole number
   "token_time": "1.00524902e-7",      optional: t [s/token]
   "objective": "wall-clock",          optional, see below
   "work_conserving": false,           optional
   "memory": [40, 30]}                 optional: tokens that each worker holds at most, or a number

  bfio makespan requests.json --time-limit 60
  bfio makespan requests.json --objective imbalance --json
  bfio makespan requests.json --write requests.mps        (docs/exchange.md)

objectives: wall-clock, sum of the lengths of all steps in which something runs; imbalance, sum of
(largest load - load) over workers and steps; latency, sum of completion minus arrival in steps.
Work is conserved if every step starts min(free slots, waiting) requests. Imbalance needs that:
without it, idling would be free; with a memory it is not defined. Steps in which nothing runs take
no time, so wall-clock without work conservation does not depend on arrivals.

The answer is an interval [bound, objective], "optimal" if both meet; "scale" of their units make
one second. exact: ours; cp-sat, highs, pyomo[:SOLVER]: the integer program (HiGHS and Pyomo prove
nothing by themselves); brute-force: all schedules of a few requests.
"""


def _add_objective(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--objective",
        metavar="NAME",
        help="wall-clock, imbalance or latency, in place of the file's",
    )
    parser.add_argument(
        "--memory",
        metavar="TOKENS",
        type=int,
        help="most tokens of each worker at any step, in place of the file's",
    )


def _details(problem: "MakespanProblem") -> dict[str, object]:
    return {"criterion": problem.objective.value, "work_conserving": problem.work_conserving}


def _lines(problem: "MakespanProblem", result: "MakespanResult") -> list[str]:
    """Return the answer as text lines."""
    if result.starts is None or result.workers is None:
        return [f"{result.method}: no schedule ({result.termination})"]
    objective, bound = (_value(units, problem) for units in (result.objective, result.bound))
    rows = list(zip(result.workers, result.starts, strict=True))
    shown = ", ".join(f"{i}->{g}@{k}" for i, (g, k) in enumerate(rows[:_SHOWN_ROWS]))
    more = f" and {len(rows) - _SHOWN_ROWS} more" if len(rows) > _SHOWN_ROWS else ""
    return [
        f"{result.method}: {result.termination}, {problem.objective} {objective}, "
        f"bound {bound} ({result.bound_kind})",
        result.origin(),
        f"request->worker@step: {shown or 'none'}{more}",
        *_drawing(problem, result.starts, result.workers),
    ]


def _value(units: int | None, problem: "MakespanProblem") -> str:
    from formulations.hindsight_makespan import MakespanObjective

    if units is None:
        return "none"
    if problem.objective is MakespanObjective.WALL_CLOCK:
        return f"{units / problem.scale:.9g} s"
    return f"{units} {'tokens' if problem.objective is MakespanObjective.IMBALANCE else 'steps'}"


def _drawing(
    problem: "MakespanProblem", starts: tuple[int, ...], workers: tuple[int, ...]
) -> list[str]:
    """Draw the load of each worker at the busy steps, and the peaks; nothing if too wide."""
    from formulations.hindsight_makespan import trajectory

    if problem.workers > _SHOWN_ROWS or not starts:
        return []
    path = trajectory(problem, starts, workers)
    if len(path.steps) > _SHOWN_STEPS:
        return []
    rows = {"step": [str(step) for step in path.steps.tolist()]}
    loads = [(f"worker {g}", path.loads[:, g]) for g in range(problem.workers)]
    for label, values in (*loads, ("peak", path.peaks)):
        rows[label] = [str(load or ".") for load in values.tolist()]
    width = max(len(text) for texts in rows.values() for text in texts) + 1
    name = max(map(len, rows))
    return [
        f"{label:<{name}}" + "".join(f"{text:>{width}}" for text in texts)
        for label, texts in rows.items()
    ]


COMMAND = problem_command(
    "makespan",
    "the best schedule of barrier-synchronised workers in hindsight, with its bound",
    _DESCRIPTION,
    kind=MAKESPAN,
    file="machine and requests (.json)",
    more_arguments=_add_objective,
    overrides=("objective", "memory"),
    details=_details,
    lines=_lines,
)
