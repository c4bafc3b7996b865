"""``bfio batch --state``: the next batch of each policy, and the best one by the batch program."""

import argparse
from typing import TYPE_CHECKING, Any

from bfio.cli.command import DONE
from bfio.cli.exchange import exchange, is_exchange
from bfio.cli.options import given_options
from bfio.cli.output import print_json, print_table, read_problem
from bfio.common.options import flag
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from formulations.batch_composition.greedy import Batch

#: Those of section 3 of the paper.
_POLICIES = ("faster-transformer", "vllm", "orca", "sarathi")
#: What a state has a use for; all else is about networks and runs.
_OF_STATES = ("state", "policy", "json", "write", "overwrite", "read_solution")


def next_batches(
    args: argparse.Namespace, add_arguments: "Callable[[argparse.ArgumentParser], None]"
) -> int:
    """Print the next batch of each policy in a state, or write the batch program of the state.

    Parameters
    ----------
    args : argparse.Namespace
        What was given.
    add_arguments : callable
        Adds the arguments of the command to a parser.
    """
    from bfio.batching.program import batch_of
    from bfio.batching.registry import build
    from formulations.batch_composition import BatchProblem, solve, worth
    from formulations.batch_composition.check import violations
    from formulations.batch_composition.solver import WORDS, BatchProgram

    for name in given_options(args, add_arguments, besides=_OF_STATES):
        option = "FILE" if name == "file" else flag(name)
        raise InputError("command line", f"{option} with --state", "leave it out")
    problem = read_problem(args.state, BatchProblem.from_json)
    if is_exchange(args):
        if args.policy:
            raise InputError("--policy", "the batch program knows no policy", "leave it out")
        named = argparse.Namespace(**vars(args) | {"file": args.state})
        return exchange(named, BatchProgram(problem), "batch --state", {})

    def told(batch: "Batch") -> dict[str, Any]:
        prefill, decode = batch
        return {
            "tokens": sum(prefill) + sum(decode),
            "worth": worth(problem, prefill, decode),
            "prefill": {str(i): x for i, x in enumerate(prefill) if x},
            "decode": [str(i) for i, y in enumerate(decode) if y],
        }

    best = solve(problem)
    proof = {name: getattr(best, name) for name in ("objective", "method", "proof", "solver")}
    answer: dict[str, Any] = {"budget": problem.budget, "requests": problem.num_requests}
    answer["best"] = told(best.required_solution()) | proof
    answer["policies"] = []
    for name in dict.fromkeys(args.policy or _POLICIES):
        batch = batch_of(build(name), problem, name)
        broken = [WORDS.told(rule, by) for rule, by in violations(problem, *batch).items()]
        entry = {"policy": name, **told(batch), "broken": broken}
        entry["gap"] = None if broken else answer["best"]["worth"] - entry["worth"]
        answer["policies"].append(entry)
    if args.json:
        print_json(answer)
    else:
        _print(answer)
    return DONE


def _print(answer: dict[str, Any]) -> None:
    from bfio.cli.batch_table import decoded, prompts
    from bfio.common.number_text import number
    from formulations.results import origin

    rows = []
    for entry in ({"policy": "the best", "gap": 0, **answer["best"]}, *answer["policies"]):
        batch = prompts(entry["prefill"]), decoded(entry["decode"])
        row = [entry["policy"], str(entry["tokens"]), *batch, number(entry["worth"])]
        rows.append([*row, number(entry["gap"])])
    columns = ["policy", "tokens", "prompt tokens", "decode tokens of", "worth", "gap"]
    print_table("", columns, rows)
    print(
        f"{answer['requests']} requests, a budget of {answer['budget']:,} tokens; gap: how much "
        "more the best batch is worth."
    )
    for entry in answer["policies"]:
        for broken in entry["broken"]:
            print(f"{entry['policy']}: not a batch of this program, {broken}")
    print(origin(answer["best"]["solver"], answer["best"]["proof"]))


def refuse_exchange(args: argparse.Namespace) -> None:
    """Refuse ``--write`` and its kin where no state is given.

    Raises
    ------
    InputError
        If one is given.
    """
    if is_exchange(args):
        option = "--write" if args.write is not None else "--read-solution"
        remedy = "give --state FILE; bfio capacity has the program of a network"
        raise InputError(option, "a simulation is no program", remedy)
