"""The pausing program: which active requests run in one step, and which waiting ones start.

``build(problem)`` states the program in Pyomo. ``solve(problem)`` minimises the time per token by
Dinkelbach's method: a sequence of programs with a price of tokens (``build_priced``).
``violations(problem, runs, assignment)`` checks a solution. Pyomo and solvers are loaded at first
use.
"""

from typing import TYPE_CHECKING

from formulations.lazy import lazy_attributes
from formulations.pausing.bound import Relaxation, least_ratio, least_times
from formulations.pausing.check import brute_force, time_and_tokens, violations
from formulations.pausing.problem import (
    Action,
    PausingProblem,
    PausingResult,
    PricedPausing,
    PricedResult,
)

if TYPE_CHECKING:
    from formulations.pausing.program import build, build_priced
    from formulations.pausing.solver import PausingProgram, PricedProgram, assess, solve, solve_by

__all__ = [
    "Action",
    "PausingProblem",
    "PausingProgram",
    "PausingResult",
    "PricedPausing",
    "PricedProgram",
    "PricedResult",
    "Relaxation",
    "assess",
    "brute_force",
    "build",
    "build_priced",
    "least_ratio",
    "least_times",
    "solve",
    "solve_by",
    "time_and_tokens",
    "violations",
]


__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "formulations.pausing.program": "build build_priced",
        "formulations.pausing.solver": "PausingProgram PricedProgram assess solve solve_by",
    },
)
