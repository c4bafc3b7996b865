"""The BF-IO step program (IO): which waiting request goes to which worker at one step.

``build(problem)`` states it in Pyomo, ``solve(problem)`` solves it with a backend,
``violations(problem, assignment)`` checks any answer.
"""

from formulations.step.bound import lower_bound
from formulations.step.check import violations
from formulations.step.problem import Objective, StepProblem
from formulations.step.program import StepProgram, build
from formulations.step.result import StepResult
from formulations.step.solver import assess, solve, solve_by_enumeration

__all__ = [
    "Objective",
    "StepProblem",
    "StepProgram",
    "StepResult",
    "assess",
    "build",
    "lower_bound",
    "solve",
    "solve_by_enumeration",
    "violations",
]
