"""Linear programs for other solvers, and their solutions back, judged in fractions."""

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bfio.cli.command import DONE, NOTHING_FOUND
from bfio.cli.exchange import read_solution, said_by, violated_lines, write_program
from bfio.cli.files import naming
from bfio.cli.output import print_json

if TYPE_CHECKING:
    from formulations.linear import ExactLinear
    from formulations.words import Words


def exchange_linear(
    args: argparse.Namespace,
    linear: "ExactLinear",
    words: "Words",
    command: str,
    *,
    name: str,
    digest: str,
    minimised: bool = False,
    prices: Mapping[str, str],
    options: str = "",
) -> int:
    """Write a linear program, or judge a solution of it; return the exit status.

    Parameters
    ----------
    args : argparse.Namespace
        With ``file``, ``json`` and those of `bfio.cli.exchange.add_exchange`.
    linear : ExactLinear
        The program in rationals, as its statement says it.
    words : Words
        What it says.
    command, name : str
        The command that brings a solution back, and what the program is called there.
    digest : str
        Of the problem.
    minimised : bool
        Whether the model minimises, see `formulations.exchange.of_linear`.
    prices : mapping
        Families of rows to what their dual prices mean.
    options : str
        Arguments that tell the program from others of the same file.
    """
    from formulations.exchange import of_linear

    if args.read_solution is not None:
        return _read(args, name, linear, words, minimised)
    families = {name.partition("[")[0] for name in linear.rows}
    told = [
        "dual prices: price of a row = value factor above * factor of the row (1 unless stated) * "
        "dual of the row in this file (the derivative of its objective by the right-hand side)",
        *(f"  {meaning}" for family, meaning in prices.items() if family in families),
    ]
    return write_program(
        args,
        of_linear(linear, minimised=minimised),
        words,
        command,
        digest,
        prices=told,
        options=options,
    )


def _read(
    args: argparse.Namespace, name: str, linear: "ExactLinear", words: "Words", minimised: bool
) -> int:
    from bfio.common.number_text import number
    from formulations.exchange.judge import judge_linear
    from formulations.fluid.solver import DUALITY
    from formulations.rationals import plain_number
    from formulations.results import own_solver

    file = read_solution(args.read_solution)
    with naming(args.read_solution):
        judged = judge_linear(linear, words, file, minimised=minimised)
    status = "feasible" if judged.largest_excess == 0 else "feasible within 1e-6"
    if judged.violations:
        status = "infeasible"
    elif judged.is_exact_optimum:
        status = "optimal"
    answer: dict[str, Any] = {
        "program": name,
        "status": status,
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
        print(f"{args.read_solution} ({file.format}): {status}")
        for line in violated_lines(answer["violated"]):
            print(line)
        if answer["optimum"] is None:
            print(f"value {number(answer['value'])}; the program has no solution")
        else:
            print(
                f"value {number(answer['value'])}, optimum {number(answer['optimum'])} "
                f"= {judged.optimum}, proven by {DUALITY}"
            )
        if answer["optimum"] is not None and judged.describes_optimum:
            print("the vertex that the values describe is, exactly, an optimum")
    return NOTHING_FOUND if judged.violations else DONE
