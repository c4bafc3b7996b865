"""``bfio hindsight``: compute start times of least total latency for one KV cache."""

import argparse
from dataclasses import replace
from operator import add
from typing import TYPE_CHECKING, Any

from bfio.cli.command import DONE, NOTHING_FOUND
from bfio.cli.options import add_by_usage
from bfio.cli.output import can_print, print_answer, read_problem
from bfio.cli.problem_command import is_exchange, problem_command
from bfio.programs import LATENCY
from formulations.errors import InputError
from formulations.words import counted

if TYPE_CHECKING:
    from formulations.hindsight_latency import LatencyProblem

_SHOWN_STARTS = 20
#: Largest numbers of requests and rounds in a drawing.
_DRAWN_REQUESTS, _DRAWN_ROUNDS = 30, 100


#: Characters of a drawing: rounds in the cache, rounds waiting, and levels of memory use.
_BLOCKS = ("█", "·", " ▁▂▃▄▅▆▇█")
#: For streams that cannot encode block characters.
_ASCII = ("#", ".", " .:-=+*%#")

_DESCRIPTION = """\
Compute start times of least total latency if all requests are known in advance. One worker holds
at most M tokens. A request with prompt s and output o that starts at round p runs without pause,
grows by one token per round and completes at p + o. The objective is the sum over requests of
completion minus arrival, in rounds.

FILE is JSON ("-" reads stdin):

  {"memory": 16,
   "requests": [{"arrival": 0, "prompt": 3, "output": 5},
                {"arrival": 1, "prompt": 2, "output": 9}],
   "convention": "C"}    optional: A (rounds p..p+o), B (p..p+o-1) or C (p+1..p+o, default)

  bfio hindsight requests.json --time-limit 60
  bfio hindsight requests.json --algorithm mc-sf --json
  bfio hindsight requests.json --write requests.lp        (docs/exchange.md)

Without --algorithm the answer is an interval [bound, objective], "optimal" if both are equal.
exact is bfio's own method; cp-sat, highs and pyomo[:SOLVER] solve the integer program (bounds of
HiGHS and Pyomo solvers are floating-point and prove nothing); brute-force enumerates schedules.
With --algorithm an online heuristic runs in unit rounds, without a bound (null): mc-sf,
mc-benchmark, semi-online (all arrivals 0), alpha-greedy, beta-clearing, or module:function for
your own. Options follow the name: mc-sf:scan=continue, beta-clearing:alpha=0.2:beta=0.1. Without
--json small schedules are drawn.
"""


def _add_algorithm(parser: argparse.ArgumentParser) -> None:
    text = "run this online algorithm instead of solving the program"
    add_by_usage(parser, {"--algorithm NAME": text})


def _details(problem: "LatencyProblem") -> dict[str, object]:
    return {"convention": problem.convention.value}


def _text(problem: "LatencyProblem", answer: dict[str, Any]) -> list[str]:
    return [*_lines(answer), *_drawing(problem, answer["starts"])]


def _run(args: argparse.Namespace) -> int:
    if args.algorithm is None:
        return _SOLVER.run(args)
    if args.method or args.time_limit or is_exchange(args):
        raise InputError(
            "command line",
            "--algorithm cannot be combined with --method, --time-limit, --write or "
            "--read-solution",
            "omit one of them",
        )
    from formulations.hindsight_latency import LatencyProblem

    problem = read_problem(args.file, LatencyProblem.from_json)
    answer = _online(problem, args.algorithm, args.seed)
    print_answer(args, answer, lambda: print(*_text(problem, answer), sep="\n"))
    return NOTHING_FOUND if answer["objective"] is None else DONE


def _online(problem: "LatencyProblem", algorithm: str, seed: int) -> dict[str, Any]:
    """Run an online algorithm and return the result in the form of an answer."""
    from bfio.common.clock import timed
    from bfio.kvcache.simulation import serve
    from formulations.hindsight_latency import violations
    from formulations.results import Termination

    run, seconds = timed(lambda: serve(problem, algorithm, seed=seed))
    starts = run.start.tolist() if run.is_finished else None
    return {
        "method": algorithm,
        "termination": (Termination.FEASIBLE if run.is_finished else Termination.FAILED).value,
        "objective": run.total_latency,
        "bound": None,
        "starts": starts,
        **_details(problem),
        "violations": violations(problem, starts, run.total_latency) if starts is not None else {},
        "verdict": run.verdict.value,
        **{name: getattr(run, name) for name in ("reason", "peak_memory", "overflows", "cleared")},
        "seconds": seconds,
    }


def _lines(answer: dict[str, Any]) -> list[str]:
    """Return the answer as text lines."""
    from formulations.results import BoundKind, Termination, origin

    if answer["termination"] == Termination.RELAXED.value:
        return [f"{answer['method']}: relaxed, bound {answer['bound']} rounds, no schedule"]
    if answer["objective"] is None:
        why = answer.get("reason") or answer["termination"]
        return [f"{answer['method']}: no schedule ({why})"]
    bound, is_proven = "", False
    if answer["bound"] is not None:
        is_proven = answer["bound_kind"] == BoundKind.INTEGER.value
        trust = "proven in integers" if is_proven else "floating-point, unproven"
        bound = f", bound {answer['bound']} ({trust})"
    lines = [
        f"{answer['method']}: {answer['termination']}, total latency {answer['objective']} rounds"
        f"{bound}, convention {answer['convention']}"
    ]
    if "proof" in answer:
        lines.append(origin(answer["solver"], answer["proof"], bounded=is_proven))
    starts = answer["starts"]
    shown = ", ".join(f"{i}@{start}" for i, start in enumerate(starts[:_SHOWN_STARTS]))
    more = f" and {len(starts) - _SHOWN_STARTS} more" if len(starts) > _SHOWN_STARTS else ""
    lines.append(f"request@start: {shown or 'none'}{more}")
    if answer.get("cleared"):
        cleared = counted(answer["cleared"], "running request")
        lines.append(f"{counted(answer['overflows'], 'overflow')} cleared {cleared}")
    return lines


def _drawing(problem: "LatencyProblem", starts: list[int] | None) -> list[str]:
    """Draw waiting and running requests per round and the memory use; empty if too large."""
    from formulations.hindsight_latency import memory_used

    if not starts or len(starts) > _DRAWN_REQUESTS:
        return []
    ages = map(problem.convention.last_age, problem.output.tolist())
    first, last = int(problem.arrival.min()), max(map(add, starts, ages))
    if last - first >= _DRAWN_ROUNDS:
        return []
    used = memory_used(problem, starts)
    running, waiting, marks = _BLOCKS if can_print("".join(_BLOCKS)) else _ASCII
    rows = [("round", "".join(f"{now:<10}" for now in range(first, last + 1, 10)).rstrip())]
    age = problem.convention.first_age
    for i, start in enumerate(starts):
        arrival = int(problem.arrival[i])
        lasts = problem.convention.last_age(int(problem.output[i])) + 1 - age
        waits = waiting * (start + age - arrival)
        rows.append((f"request {i}", " " * (arrival - first) + waits + running * lasts))
    levels = [
        -(-used.get(now, 0) * (len(marks) - 1) // problem.memory) for now in range(first, last + 1)
    ]
    rows.append(("memory", "".join(marks[level] for level in levels)))
    width = max(len(label) for label, _ in rows) + 2
    legend = f"{running} in the cache, {waiting} waiting"
    peak = f"{legend}; peak {max(used.values())} of {problem.memory} tokens"
    return [*(f"{label:<{width}}{row}" for label, row in rows), peak]


_SOLVER = problem_command(
    "hindsight",
    "compute start times of least total latency for one KV cache, exactly or online",
    _DESCRIPTION,
    kind=LATENCY,
    file="requests, memory and convention (.json)",
    more_arguments=_add_algorithm,
    details=_details,
    lines=lambda problem, result: _text(problem, result.to_mapping() | _details(problem)),
)
COMMAND = replace(_SOLVER, run=_run)
