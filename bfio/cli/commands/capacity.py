"""``bfio capacity``: compute load and capacity of token-budget engines and networks of agents."""

import argparse
from typing import TYPE_CHECKING, Any

from bfio.cli.command import Command
from bfio.cli.options import add_by_usage, add_json
from bfio.cli.output import print_answer, print_table, read_problem
from bfio.cli.problem_command import add_exchange, is_exchange
from bfio.common.text import number
from formulations.errors import InputError, check_known, naming
from formulations.scalars import percent
from formulations.words import counted

if TYPE_CHECKING:
    from formulations.batching import AgentNetwork
    from formulations.stability import VirtualStation

_METHODS = ("closed-form", "highs", "pyomo")
_SUMMARY = "compute load, capacity and bottleneck of token-budget engines and networks of agents"
_DESCRIPTION = """\
Compute the largest request rate of an engine with a token budget, or of a network of agents. A
batch holds up to "budget" tokens, prompt and decode tokens mixed, and lasts
overhead + per_token*(tokens beyond free_tokens) slots, rounded up. Queues can stay bounded only if
fewer tokens arrive per slot than full batches process.

FILE is JSON ("-" reads stdin); numbers are exact, or strings such as "1/18":

  {"slot": "1e-4",                                        optional: seconds of a slot
   "agents": [{"name": "gpu", "budget": 512, "overhead": 455,
               "per_token": 3, "free_tokens": 64,         optional, 0
               "engines": 2, "chunked": true}],           optional, 1 and true
   "stages": [{"agent": "gpu", "prefill": 129, "decode": 112,    mean tokens
               "rate": "0.0015"}]}                        requests per slot from outside; 0

Several agents: stages also have a "type" of request and a "name" (type@agent if missing), and

  "routes": [{"from": "A@1", "to": "A@2", "probability": "1/2"}],    else the request departs
  "fork_join": ["A"]    types that take all routes at once; a stage waits for all before it

  bfio capacity engine.json
  bfio capacity engine.json --between-tokens 1100          (slots: the best budget within them)
  bfio capacity network.json --priority last --json

factor: upper limit of a common multiplier of all rates with full batches. load of an agent:
arriving tokens / tokens that full batches process. price: increase of the factor per additional
token per slot.
verdict: "stable" and "unstable" are proven; theorem and hypotheses are printed. "open": the load
condition holds, but is not sufficient for every policy of a network. "undecided": full batches
cannot process the load, but smaller batches, which are faster per token here, possibly can.
--priority: every agent serves the stages with the fewest (last) or most (first) remaining stages
first. Some pairs of stages are then never served at the same time; their joint load must be < 1.
"""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    table = {
        "file FILE": "agents, stages and routes (.json)",
        "--priority WHICH": "order in which agents serve stages: last or first",
        "--between-tokens SLOTS": "print the best budget that carries the load and for which two "
        "tokens of a request are at most this many slots apart",
        "--method NAME": "method: closed-form (default), or the linear program by highs or pyomo",
    }
    add_by_usage(parser, table)
    add_exchange(parser)
    add_json(parser)


def _run(args: argparse.Namespace) -> int:
    from formulations.batching import AgentNetwork
    from formulations.stability import capacity, named_priority, solve_capacity, virtual_stations
    from formulations.stability.verdict import capacity_answer

    limit, text = None, args.between_tokens
    if text is not None:
        if not text.isascii() or not text.isdigit() or len(text) > 12 or int(text) == 0:
            what = f"{text!r} is not a whole number of slots"
            raise InputError("--between-tokens", what, "write a number >= 1")
        limit = int(text)
    network = read_problem(args.file, AgentNetwork.from_json)
    stations: tuple[VirtualStation, ...] = ()
    if args.priority is not None:
        order = named_priority(network, args.priority, "--priority")
        stations = virtual_stations(network, order)
    method = args.method or "closed-form"
    check_known("--method", method, _METHODS)
    with naming(args.file, "stages"):
        if is_exchange(args):
            return _exchange(args, network, stations)
        if method == "closed-form":
            result = capacity(network, stations)
        else:
            result = solve_capacity(network, stations, backend=method)
    answer = capacity_answer(result, limit=limit)
    return print_answer(args, answer, lambda: _print(answer, network))


def _exchange(
    args: argparse.Namespace, network: "AgentNetwork", stations: "tuple[VirtualStation, ...]"
) -> int:
    """Write the capacity program, or check a solution of it; return the exit status."""
    from bfio.cli.problem_command import exchange
    from formulations.stability import CapacityProgram

    if args.between_tokens is not None:
        what = "cannot be combined with --write or --read-solution"
        raise InputError("--between-tokens", what, "leave it out")
    options = "" if args.priority is None else f" --priority {args.priority}"
    return exchange(args, CapacityProgram(network, stations), "capacity", options=options)


def _print(answer: dict[str, Any], network: "AgentNetwork") -> None:
    """Print the answer as text."""
    from formulations.results import origin

    unit = "slot" if network.slot is None else "second"
    print(f"{answer['verdict']}: {answer['source']}")
    full = ", ".join(answer["bottlenecks"])
    print(
        f"load {percent(answer['load'])} at {full}: with full batches a common factor of all "
        f"rates must stay below {number(answer['factor'])}"
    )
    rows = [
        [row["name"], str(row["engines"]), str(row["budget"]), str(row["batch_slots"])]
        + [number(row[f"{name}_per_{unit}"]) for name in ("tokens", "most_tokens")]
        + [percent(row["load"]), number(row["price"])]
        for row in answer["agents"]
    ]
    tokens = f"[tokens/{unit}]"
    columns = ["agent", "engines", "budget", "slots of\na batch", f"arrive\n{tokens}"]
    print_table("", [*columns, f"at most\n{tokens}", "load", "price\n[slots/token]"], rows)
    for row in answer["types"]:
        print(
            f"type {row['name']}: {number(row[f'rate_per_{unit}'])} requests per {unit}, limit "
            f"{number(row[f'most_per_{unit}'])} if all rates grow alike"
        )
    for pair in answer["virtual_stations"]:
        print(
            f"never served at the same time: {pair['stages']}, joint load {percent(pair['load'])}"
        )
    for row in answer["agents"]:
        choices = {"shortest batch with capacity for the load": row["shortest_batch"]}
        if "fastest_budget" in row:
            name = "highest rate within the limit with capacity for the load"
            choices[name] = row["fastest_budget"]
        for name, choice in choices.items():
            told = "none"
            if choice is not None:
                told = f"budget {choice['budget']:,}, {counted(choice['slots'], 'slot')}"
            print(f"{row['name']}, {name}, of budgets to {row['largest_budget']:,}: {told}")
    for label in ("warnings", "hypotheses"):
        for line in answer[label]:
            print(f"{label[:-1] if label == 'warnings' else 'provided that'}: {line}")
    print(origin(answer["solver"], answer["proof"]))


COMMAND = Command("capacity", _SUMMARY, _DESCRIPTION, _add_arguments, _run)
