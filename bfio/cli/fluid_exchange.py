"""``bfio fluid --write`` and ``--read-solution``: its linear programs, and their answers back."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bfio.cli.command import DONE, NOTHING_FOUND
from bfio.cli.exchange import read_solution, said_by, violated_lines, write_program
from bfio.cli.files import naming
from bfio.cli.output import print_json
from formulations.errors import InputError, use_one_of

if TYPE_CHECKING:
    from formulations.exchange.judge_linear import JudgedLinear
    from formulations.fluid import FluidObjective, FluidProblem
    from formulations.linear.exact_linear import ExactLinear
    from formulations.words import Words

PROGRAMS = ("throughput", "margin", "equilibrium")


def exchange_fluid(
    args: argparse.Namespace, problem: "FluidProblem", objective: "FluidObjective"
) -> int:
    """Write a fluid program, or judge a solution of it; return the exit status."""
    from formulations.exchange import of_linear

    name = args.program or PROGRAMS[0]
    linear, words = _stated(name, problem, objective)
    minimised = name == "equilibrium"
    if args.read_solution is not None:
        return _read(args, name, linear, words, minimised)
    options = "" if name == PROGRAMS[0] else f" --program {name}"
    options += "" if objective.value == "stages" else f" --objective {objective.value}"
    return write_program(
        args,
        of_linear(linear, minimised=minimised),
        words,
        "fluid",
        problem.digest(),
        prices=_prices(linear),
        options=options,
    )


def _stated(
    name: str, problem: "FluidProblem", objective: "FluidObjective"
) -> tuple["ExactLinear", "Words"]:
    """Return a program in rationals, as its statement says it, and its words."""
    from formulations.fluid import words
    from formulations.fluid.equilibrium_program import build as equilibrium
    from formulations.fluid.margin_program import build as margin
    from formulations.fluid.throughput_program import build as throughput
    from formulations.linear.exact_linear import exact_linear

    if name not in PROGRAMS:
        raise InputError("--program", f"{name!r} is unknown", use_one_of(name, PROGRAMS))
    if name == "equilibrium":
        return exact_linear(equilibrium(problem)), words.EQUILIBRIUM
    if name == "margin":
        return exact_linear(margin(problem)), words.MARGIN
    return exact_linear(throughput(problem, objective=objective)), words.THROUGHPUT


def _prices(linear: "ExactLinear") -> list[str]:
    from formulations.fluid.words import PRICES

    families = {name.partition("[")[0] for name in linear.rows}
    return [
        "dual prices: price of a row = value factor above * factor of the row (1 unless stated) * "
        "dual of the row in this file (the derivative of its objective by the right-hand side)",
        *(f"  {meaning}" for family, meaning in PRICES.items() if family in families),
    ]


def _read(
    args: argparse.Namespace, name: str, linear: "ExactLinear", words: "Words", minimised: bool
) -> int:
    from formulations.exchange.judge_linear import judge_linear
    from formulations.fluid.proof import DUALITY
    from formulations.rationals import plain_number
    from formulations.results import own_solver

    file = read_solution(args.read_solution)
    with naming(args.read_solution):
        judged = judge_linear(linear, words, file, minimised=minimised)
    answer = {
        "program": name,
        "status": _status(judged),
        "value": plain_number(judged.value),
        "optimum": plain_number(judged.optimum),
        "describes_optimum": judged.describes_optimum,
        "largest_excess": float(judged.largest_excess),
        "violated": list(judged.in_words.values()),
        "exact": {
            "value": str(judged.value),
            "optimum": None if judged.optimum is None else str(judged.optimum),
        },
        "solver": own_solver(checked=True),
        "proof": None if judged.optimum is None else DUALITY,
        "read": said_by(args.read_solution, file),
    }
    if args.json:
        print_json(answer)
    else:
        print("\n".join(_lines(args.read_solution, file.format, answer)))
    return NOTHING_FOUND if judged.violations else DONE


def _status(judged: "JudgedLinear") -> str:
    if judged.violations:
        return "infeasible"
    if judged.is_exact_optimum:
        return "optimal"
    return "feasible" if judged.largest_excess == 0 else "feasible within 1e-6"


def _lines(name: str, format_: str, answer: Mapping[str, Any]) -> list[str]:
    """Return what a person reads."""
    from bfio.common.number_text import number

    lines = [f"{name} ({format_}): {answer['status']}", *violated_lines(answer["violated"])]
    if answer["optimum"] is None:
        return [*lines, f"value {number(answer['value'])}; the program has no solution"]
    lines.append(
        f"value {number(answer['value'])}, optimum {number(answer['optimum'])} "
        f"= {answer['exact']['optimum']}, proven by {answer['proof']}"
    )
    if answer["describes_optimum"]:
        lines.append("the vertex that the values describe is, exactly, an optimum")
    return lines
