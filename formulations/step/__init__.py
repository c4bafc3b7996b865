"""The BF-IO step program (IO): which waiting request starts on which worker in one decode step.

``build(problem)`` states it in Pyomo, ``solve(problem)`` solves it with a backend,
``violations(problem, assignment)`` checks any assignment. Modules that need Pyomo or a solver are
loaded at first use.
"""

from typing import TYPE_CHECKING

from formulations.lazy import lazy_attributes
from formulations.step.bound import lower_bound
from formulations.step.check import violations
from formulations.step.problem import Objective, StepProblem, StepResult, StepState

if TYPE_CHECKING:
    from formulations.step.program import add_energy_cap, build
    from formulations.step.solver import StepProgram, assess, solve, solve_by_enumeration

__all__ = [
    "Objective",
    "StepProblem",
    "StepProgram",
    "StepResult",
    "StepState",
    "add_energy_cap",
    "assess",
    "build",
    "lower_bound",
    "solve",
    "solve_by_enumeration",
    "violations",
]


__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "formulations.step.program": "add_energy_cap build",
        "formulations.step.solver": "StepProgram assess solve solve_by_enumeration",
    },
)
