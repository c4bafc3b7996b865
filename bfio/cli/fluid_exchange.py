"""``bfio fluid --write`` and ``--read-solution``: its linear programs, and their answers back."""

import argparse
from typing import TYPE_CHECKING

from bfio.cli.linear_exchange import exchange_linear
from formulations.errors import InputError, use_one_of

if TYPE_CHECKING:
    from formulations.fluid import FluidObjective, FluidProblem
    from formulations.linear import ExactLinear
    from formulations.words import Words

PROGRAMS = ("throughput", "margin", "equilibrium")


def exchange_fluid(
    args: argparse.Namespace, problem: "FluidProblem", objective: "FluidObjective"
) -> int:
    """Write a fluid program, or judge a solution of it; return the exit status."""
    from formulations.fluid.answer import PRICES

    name = args.program or PROGRAMS[0]
    linear, words = _stated(name, problem, objective)
    options = "" if name == PROGRAMS[0] else f" --program {name}"
    options += "" if objective.value == "stages" else f" --objective {objective.value}"
    return exchange_linear(
        args,
        linear,
        words,
        "fluid",
        name=name,
        digest=problem.digest(),
        minimised=name == "equilibrium",
        prices=PRICES,
        options=options,
    )


def _stated(
    name: str, problem: "FluidProblem", objective: "FluidObjective"
) -> tuple["ExactLinear", "Words"]:
    """Return a program in rationals, as its statement says it, and its words."""
    from formulations.fluid.answer import EQUILIBRIUM, MARGIN, THROUGHPUT
    from formulations.fluid.programs import build_equilibrium, build_margin, build_throughput
    from formulations.linear import exact_linear

    if name not in PROGRAMS:
        raise InputError("--program", f"{name!r} is unknown", use_one_of(name, PROGRAMS))
    if name == "equilibrium":
        return exact_linear(build_equilibrium(problem)), EQUILIBRIUM
    if name == "margin":
        return exact_linear(build_margin(problem)), MARGIN
    return exact_linear(build_throughput(problem, objective=objective)), THROUGHPUT
