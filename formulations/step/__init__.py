"""The BF-IO step program (IO): which waiting request goes to which worker at one step.

``build(problem)`` states it in Pyomo, ``solve(problem)`` solves it with a backend,
``violations(problem, assignment)`` checks any answer. Modules that need Pyomo or a solver load at
first use.
"""

from typing import TYPE_CHECKING

from formulations.lazy import lazy_attributes
from formulations.step.bound import lower_bound
from formulations.step.check import violations
from formulations.step.problem import Objective, StepProblem, StepResult, StepState

if TYPE_CHECKING:
    from formulations.step.program import build
    from formulations.step.solver import StepProgram, assess, solve, solve_by_enumeration

_HOMES = {
    "StepProgram": "formulations.step.solver",
    "assess": "formulations.step.solver",
    "build": "formulations.step.program",
    "solve": "formulations.step.solver",
    "solve_by_enumeration": "formulations.step.solver",
}

__all__ = [
    "Objective",
    "StepProblem",
    "StepProgram",
    "StepResult",
    "StepState",
    "assess",
    "build",
    "lower_bound",
    "solve",
    "solve_by_enumeration",
    "violations",
]


__getattr__, __dir__ = lazy_attributes(__name__, _HOMES)
