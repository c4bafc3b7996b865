"""The pausing program: which active requests run in one step, and which waiting ones start.

``build(priced)`` states it in Pyomo at a price of tokens, ``solve(problem)`` minimises the time
per token by Dinkelbach's sequence of these programs, ``violations(problem, runs, assignment)``
checks any answer. Pyomo and solvers are loaded at first use.
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
    from formulations.pausing.program import build
    from formulations.pausing.solver import PricedProgram, assess, solve, solve_by

_HOMES = {
    "PricedProgram": "formulations.pausing.solver",
    "assess": "formulations.pausing.solver",
    "build": "formulations.pausing.program",
    "solve": "formulations.pausing.solver",
    "solve_by": "formulations.pausing.solver",
}

__all__ = [
    "Action",
    "PausingProblem",
    "PausingResult",
    "PricedPausing",
    "PricedProgram",
    "PricedResult",
    "Relaxation",
    "assess",
    "brute_force",
    "build",
    "least_ratio",
    "least_times",
    "solve",
    "solve_by",
    "time_and_tokens",
    "violations",
]


__getattr__, __dir__ = lazy_attributes(__name__, _HOMES)
