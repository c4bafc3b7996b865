"""The answer to a second program."""

from dataclasses import dataclass

from formulations.results import ProgramResult
from formulations.step.result import Assignment, assignment_text


@dataclass(frozen=True, kw_only=True)
class SecondResult(ProgramResult[Assignment]):
    """The answer of a second program; objective and bound are of the second objective.

    Parameters
    ----------
    assignment : tuple of (int or None), optional
        Worker of each request, None for one that keeps waiting.
    """

    solution_fields = ("assignment",)

    assignment: Assignment | None = None

    def solution_text(self) -> str:
        """Return who goes where."""
        return assignment_text(self.required_solution())
