"""The answer to a step problem."""

from dataclasses import dataclass

from formulations.results import ProgramResult, TieRule

#: Worker of each request, None for one that keeps waiting.
Assignment = tuple[int | None, ...]


@dataclass(frozen=True, kw_only=True)
class StepResult(ProgramResult[Assignment]):
    """The answer of a step program; fractional discount weights scale objective and bound.

    Parameters
    ----------
    assignment : tuple of (int or None), optional
        Worker of each request, None for one that keeps waiting.
    tie_rule : TieRule
        Which of several optima this is.
    """

    solution_fields = ("assignment",)

    assignment: Assignment | None = None
    tie_rule: TieRule = TieRule.BACKEND

    def to_mapping(self) -> dict[str, object]:
        """Return the JSON document ``bfio solve`` prints."""
        document = super().to_mapping() | {"tie_rule": self.tie_rule.value}
        return document if self.scale == 1 else document | {"scale": self.scale}

    def solution_text(self) -> str:
        """Return who goes where."""
        assert self.assignment is not None
        return assignment_text(self.assignment)


def assignment_text(assignment: Assignment) -> str:
    """Return who goes where."""
    placed = [f"{i}->{g}" for i, g in enumerate(assignment) if g is not None]
    return "request->worker: " + (", ".join(placed) or "none admitted")
