"""The secondary program: minimise a second objective over near-optimal assignments of a step."""

from typing import TYPE_CHECKING

from formulations.lazy import lazy_attributes
from formulations.second.check import second_value, violations
from formulations.second.problem import (
    Second,
    SecondProblem,
    SecondResult,
    second_problem,
    without_idle_steps,
)

if TYPE_CHECKING:
    from formulations.second.solver import SecondProgram, solve

__all__ = [
    "Second",
    "SecondProblem",
    "SecondProgram",
    "SecondResult",
    "second_problem",
    "second_value",
    "solve",
    "violations",
    "without_idle_steps",
]

__getattr__, __dir__ = lazy_attributes(
    __name__, {"formulations.second.solver": "SecondProgram solve"}
)
