"""The two equal forms of a step's program: what backends consume."""

from functools import cached_property
from typing import Any

from formulations.standard_form import StandardForm
from formulations.step.matrix import build_standard_form
from formulations.step.problem import StepProblem


class StepProgram:
    """The program of one `StepProblem`, as a Pyomo model and as sparse arrays."""

    def __init__(self, problem: StepProblem) -> None:
        self.problem = problem

    @cached_property
    def model(self) -> Any:
        """The Pyomo statement."""
        from formulations.step.program import build

        return build(self.problem)

    @cached_property
    def standard_form(self) -> StandardForm:
        """The same program, written without Pyomo for speed."""
        return build_standard_form(self.problem)
