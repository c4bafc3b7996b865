"""``bfio fluid``: compute fluid equilibrium, admission rates, prices and WAIT thresholds."""

import argparse
from itertools import groupby
from typing import TYPE_CHECKING, Any

from bfio.cli.command import Command
from bfio.cli.options import add_by_usage, add_common, refuse_first
from bfio.cli.output import print_answer, print_table, read_problem
from bfio.cli.problem_command import (
    add_exchange,
    add_service_limits,
    exchange_fluid,
    is_exchange,
    limited_program,
)
from bfio.common.text import number
from formulations.errors import CapabilityError, InputError
from formulations.scalars import percent

if TYPE_CHECKING:
    from formulations.fluid import FluidProblem

#: Largest number of notes and prices shown as text.
_MOST_LINES = 8
_SUMMARY = "compute the sustainable load of an engine: equilibrium, admission, prices, thresholds"
_DESCRIPTION = """\
Compute the load that an engine sustains, in the fluid limit. Requests of each class arrive at
"rate" per second and need output + 1 iterations; an iteration on X tokens takes d0 + d1*X seconds;
the KV cache holds "memory" tokens.

FILE is JSON ("-" reads stdin); rates and times are exact: numbers, or strings such as "1/18":

  {"classes": [{"rate": 1, "prompt": 1, "output": 1},
               {"rate": "1.5", "prompt": 1, "output": 2}],    optional "workers": [0] in a class
   "d0": 0.5, "d1": "1/18", "memory": 9,
   "workers": 2}    optional: a number, or a list of {"d0", "d1", "memory"}

  bfio fluid load.json
  bfio fluid load.json --objective decode --json
  bfio fluid load.json --latency 3 --ttft 2
  bfio fluid load.json --write load.lp                    (docs/exchange.md)
  bfio fluid load.json --nested --horizon 4000 --probability 0.05

feasible: the equilibrium of the whole load fits the memory, and the load d1*(tokens of work per
second) is below 1. Otherwise the admitted rates are those of largest throughput. Duals:
throughput gained per additional token of memory or request per second; memory_below: throughput
lost per token of memory removed. thresholds: the smallest for which WAIT processes all arrivals
(one worker; null if the load is >= 1); thresholds_strict: the smallest that keep latency bounded.
notes name the classes whose single request exceeds every worker's memory; the fluid model ignores
this limit. --nested: thresholds of Nested WAIT, which does not know output lengths; classes of one
prompt length form a group, sorted by output. --segments L merges the classes of each group into L
equal segments; "best" tries all boundaries. --horizon and --probability add the memory that is
exceeded within the horizon with at most that probability. --latency and --ttft: the largest
throughput of one worker whose admitted classes stay within these mean times.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_by_usage(parser, {"file FILE": "classes, times and memory (.json)"})
    text = "objective of admission: stages (default, output + 1 per request) or decode (output)"
    add_by_usage(parser, {"--objective NAME": text}, default="stages")
    add_service_limits(parser)
    table = {
        "--nested": "also compute thresholds of Nested WAIT",
        "--segments L": "segments of Nested WAIT: a number, or best; default: one per output "
        "length",
    }
    add_by_usage(parser, table)
    text = "seconds during which the safety buffer of Nested WAIT suffices"
    add_by_usage(parser, {"--horizon T": text}, dest="duration")
    text = "probability of exceeding that memory during the horizon"
    add_by_usage(parser, {"--probability P": text})
    add_exchange(parser)
    text = "program to write or check: throughput (default), margin, equilibrium, wait, nested or"
    add_by_usage(parser, {"--program NAME": f"{text} segments"})
    add_common(parser)


def _run(args: argparse.Namespace) -> int:
    from bfio.programs import FLUID_KINDS, chosen_kind
    from formulations.fluid import FluidObjective, FluidProblem
    from formulations.fluid.limited import limited_answer
    from formulations.fluid.solver import fluid_answer
    from formulations.problem_data import member
    from formulations.thresholds.solver import wait_answer

    problem = read_problem(args.file, FluidProblem.from_json)
    objective = member(FluidObjective, args.objective, "--objective")
    kind = chosen_kind(FLUID_KINDS, args.program, "--program")
    limited = limited_program(args, problem, kind, objective=objective)
    if is_exchange(args):
        if _nested_wanted(args):
            raise InputError("--nested", "has no effect with --write", "use --program nested")
        return exchange_fluid(args, problem, kind, objective, limited)
    if args.program is not None:
        raise InputError("--program", "no program is written or checked", "add --write FILE")
    answer = fluid_answer(problem, objective) | wait_answer(problem)
    if _nested_wanted(args):
        answer["nested"] = _nested(args, problem)
    if limited is not None:
        answer["limited"] = limited_answer(limited.solved())
    return print_answer(args, answer, lambda: _print(answer, problem))


def _nested_wanted(args: argparse.Namespace) -> bool:
    given = {
        "--segments": args.segments,
        "--horizon": args.duration,
        "--probability": args.probability,
    }
    unread = [flag for flag, value in given.items() if value is not None and not args.nested]
    is_single = (args.duration is None) != (args.probability is None)
    is_bare = args.segments == "best" and args.duration is None
    refuse_first(
        [
            *((True, f"{flag} has no effect without --nested", "add --nested") for flag in unread),
            (is_single, "--horizon and --probability need each other", "give both or neither"),
            (is_bare, "--segments best needs --horizon and --probability", "add both"),
        ]
    )
    return bool(args.nested)


def _nested(args: argparse.Namespace, problem: "FluidProblem") -> dict[str, Any]:
    from formulations.thresholds import NestedProblem, best_plan, equal_boundaries, plan
    from formulations.thresholds.solver import nested_answer, undecided_answer

    nested: NestedProblem = NestedProblem.from_fluid(problem)
    text = args.segments
    if text not in (None, "best"):
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            what = f"{text!r} is not a number"
            raise InputError("--segments", what, "write an integer >= 1, or best")
        ends = [equal_boundaries(group.outputs, int(text)) for group in nested.groups]
        nested = nested.with_segments(ends)
    choose = best_plan if text == "best" else plan
    try:
        if args.duration is None:
            return nested_answer(nested)
        chosen = choose(nested, duration=args.duration, probability=args.probability)
        return nested_answer(nested, chosen)
    except CapabilityError as error:
        # The answer of the fluid model remains valid.
        return undecided_answer(nested, error)


def _print(answer: dict[str, Any], problem: "FluidProblem") -> None:
    """Print the answer as text."""
    from formulations.results import origin

    longest = " (the longest)" if len(problem.workers) > 1 else ""
    print(
        f"{answer['verdict']}: memory {number(answer['memory'])} of "
        f"{sum(w.memory for w in problem.workers):,} tokens "
        f"(equilibrium {number(answer['equilibrium_memory'])}), "
        f"margin {number(answer['margin'])}\n"
        f"iteration{longest} {number(answer['iteration_time'])} s, throughput "
        f"{number(answer['throughput'])} stages/s, {number(answer['decode_throughput'])} "
        "decode tokens/s"
    )
    blank = [None] * len(problem.classes)
    rows = [
        [str(j), number(float(kind.rate)), str(kind.prompt), str(kind.output), percent(share)]
        + [number(value) for value in values]
        for j, (kind, share, *values) in enumerate(
            zip(
                problem.classes,
                answer["admitted"],
                answer["thresholds"] or blank,
                answer["thresholds_strict"] or blank,
                answer["duals"]["rates"],
                strict=True,
            )
        )
    ]
    columns = ["class", "rate\n[1/s]", "prompt", "output", "admitted", "threshold", "strict"]
    print_table("", [*columns, "value of\n1 more/s"], rows)
    print(f"One more token of memory adds {_price(answer)}.")
    print(origin(answer["solver"], answer["proof"]))
    _print_thresholds(answer, problem)
    for note in _first(answer["notes"]):
        print(f"note: {note}")
    if "limited" in answer:
        _print_limited(answer["limited"], _unit(answer))
    if "nested" in answer:
        _print_nested(answer["nested"])


def _unit(answer: dict[str, Any]) -> str:
    return "stages/s" if answer["objective"] == "stages" else "decode tokens/s"


def _print_limited(limited: dict[str, Any], unit: str) -> None:
    """Print the throughput under service limits, its rates and times by class, and its prices."""
    print(
        f"within the limits: throughput {number(limited['value'])} {unit}, iteration "
        f"{number(limited['iteration_time'])} s"
    )
    columns = [limited[name] for name in ("admitted_rates", "latency", "ttft")]
    rows = [
        [str(j), *("none" if value is None else number(value) for value in values)]
        for j, values in enumerate(zip(*columns, strict=True))
    ]
    print_table("", ["class", "admitted\n[1/s]", "latency\n[s]", "TTFT\n[s]"], rows)
    latency, ttft = (number(limited["duals"][name]) for name in ("latency", "ttft"))
    print(f"One more second of latency adds {latency} {unit}, one of TTFT {ttft}.")


def _price(answer: dict[str, Any]) -> str:
    """Return the value of one more token of memory as text, per worker if there are several."""
    prices = answer["duals"]["memory"]
    unit = _unit(answer)
    if not isinstance(prices, list):
        return f"{number(prices)} {unit}"
    shown = []
    for price, group in groupby(range(len(prices)), key=lambda g: prices[g]):
        first, *others = group
        where = f"each of workers {first} to {others[-1]}" if others else f"worker {first}"
        shown.append(f"{number(price)} {unit} on {where}")
    return ", ".join(_first(shown))


def _first(lines: list[str]) -> list[str]:
    """Return the first lines and the number of the omitted ones, which ``--json`` prints."""
    rest = len(lines) - _MOST_LINES
    return lines if rest <= 0 else [*lines[:_MOST_LINES], f"{rest} more, see --json"]


def _print_thresholds(answer: dict[str, Any], problem: "FluidProblem") -> None:
    """Print the memory of a full batch for each kind of threshold, or why it does not exist."""
    capacity = problem.workers[0].memory
    lines = {}
    for key, name in (("thresholds", "threshold"), ("thresholds_strict", "strict")):
        if answer[key] is None:
            lines[name] = f"none, {answer['thresholds_note']}"
            continue
        full = f"a full batch needs {number(answer[f'{key}_memory'])} tokens"
        fits = "which fits" if answer[f"{key}_fit"] else "which does not fit"
        lines[name] = f"{full}, {fits} the memory of {capacity:,}"
    if lines["threshold"] == lines["strict"]:
        lines = {"threshold, strict": lines["strict"]}
    for name, line in lines.items():
        print(f"{name}: {line}")


def _print_nested(nested: dict[str, Any]) -> None:
    if nested["thresholds"] is None:
        print(f"Nested WAIT: {nested['termination']}, load {number(nested['load'])}")
        for note in nested["notes"]:
            print(f"note: {note}")
        return
    print(f"Nested WAIT: full batch {nested['policy_memory']:,} tokens")
    for group in nested["groups"]:
        pairs = zip(group["boundaries"], group["thresholds"], strict=True)
        shown = ", ".join(f"{n} up to stage {end}" for end, n in pairs)
        print(f"prompt {group['prompt']}: thresholds {shown}")
    if "safe_memory" in nested:
        print(f"with safety buffer {number(nested['safe_memory'])} tokens")


COMMAND = Command("fluid", _SUMMARY, _DESCRIPTION, _add_arguments, _run)
