"""``bfio makespan``: schedule known requests on barrier-synchronised workers optimally."""

import argparse
from typing import TYPE_CHECKING

from bfio.cli.options import add_by_usage
from bfio.cli.problem_command import problem_command
from bfio.programs import MAKESPAN

if TYPE_CHECKING:
    from formulations.hindsight_makespan import MakespanProblem, MakespanResult

#: Largest drawing: number of workers (and of listed requests), and of steps.
_SHOWN_ROWS, _SHOWN_STEPS = 24, 40

_DESCRIPTION = """\
Compute the best worker and start step of each request if all requests are known in advance. G
workers of B slots run in lockstep. A request with prompt s and output o occupies a slot of one
worker for o steps, with loads s, s+1, ..., s+o-1 [tokens], never paused or moved. A step lasts
C + t*(largest load of a worker).

FILE is JSON ("-" reads stdin):

  {"workers": 2, "slots": 1,
   "requests": [{"prompt": 9, "output": 2},
                {"arrival": 0, "prompt": 10, "output": 1}],   arrival [step]: optional, 0
   "step_overhead": "0.0048875",       optional: C [s], exact, as a string or whole number
   "token_time": "1.0052490234375e-7", optional: t [s/token]
   "objective": "wall-clock",          optional, see below
   "work_conserving": false,           optional
   "memory": [40, 30]}                 optional: tokens at most, per worker or one number

  bfio makespan requests.json --time-limit 60
  bfio makespan requests.json --objective imbalance --json
  bfio makespan requests.json --write requests.mps        (docs/exchange.md)

objectives: wall-clock, total length of all steps in which a request runs; imbalance, sum of
(largest load - load) over workers and steps; latency, sum of completion minus arrival in steps.
A schedule conserves work if every step starts min(free slots, waiting) requests. Imbalance
requires work conservation, because idling would cost nothing without it, and is not defined with a
memory. Steps without a running request take no time, so wall-clock without work conservation does
not depend on arrivals.

The answer is an interval [bound, objective], "optimal" if both are equal. "scale" is the number of
their units per second. exact: bfio's own method; cp-sat, highs, pyomo[:SOLVER]: integer program
(bounds of HiGHS and Pyomo solvers are floating-point and prove nothing); brute-force: enumeration.
"""


def _add_objective(parser: argparse.ArgumentParser) -> None:
    text = "wall-clock, imbalance or latency; replaces the objective of FILE"
    add_by_usage(parser, {"--objective NAME": text})
    text = "largest load of each worker at any step [tokens]; replaces the memory of FILE"
    add_by_usage(parser, {"--memory TOKENS": text}, type=int)


def _details(problem: "MakespanProblem") -> dict[str, object]:
    return {"criterion": problem.objective.value, "work_conserving": problem.work_conserving}


def _lines(problem: "MakespanProblem", result: "MakespanResult") -> list[str]:
    """Return the answer as text lines."""
    if result.starts is None or result.workers is None:
        bound = _value(result.bound, problem)
        return [f"{result.method}: {result.termination}, bound {bound}, no schedule"]
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
    """Draw the load of each worker at the busy steps, and the peaks; empty if too wide."""
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
    "compute the optimal schedule of barrier-synchronised workers, all requests known",
    _DESCRIPTION,
    kind=MAKESPAN,
    file="machine and requests (.json)",
    more_arguments=_add_objective,
    overrides=("objective", "memory"),
    details=_details,
    lines=_lines,
)
