"""The answer to a step problem."""

from dataclasses import dataclass

from formulations.errors import InputError
from formulations.results import ProgramResult, TieRule


@dataclass(frozen=True, kw_only=True)
class StepResult(ProgramResult):
    """The answer of a step program; objective and bound are scaled by ``scale``.

    Parameters
    ----------
    assignment : tuple of (int or None), optional
        Worker of each request, None for one that keeps waiting.
    tie_rule : TieRule
        Which of several optima this is.
    scale : int
        Factor by which fractional discount weights, hence objective and bound, are scaled.
    """

    assignment: tuple[int | None, ...] | None = None
    tie_rule: TieRule = TieRule.BACKEND
    scale: int = 1

    def __post_init__(self) -> None:
        """Refuse a result that contradicts itself."""
        super().__post_init__()
        if (self.objective is None) != (self.assignment is None):
            raise ValueError("objective and assignment come together")

    def required_assignment(self) -> tuple[int | None, ...]:
        """Return the assignment.

        Raises
        ------
        InputError
            If the run left none.
        """
        if self.assignment is None:
            raise InputError(
                self.method, f"no solution ({self.termination})", "raise the time limit"
            )
        return self.assignment

    def to_mapping(self) -> dict[str, object]:
        """Return the JSON document ``bfio solve`` prints."""
        document = super().to_mapping() | {
            "assignment": None if self.assignment is None else list(self.assignment),
            "tie_rule": self.tie_rule.value,
        }
        if self.scale != 1:
            document["scale"] = self.scale
        return document

    def summary(self) -> str:
        """Return a few lines of plain text."""
        lines = [f"{self.method}: {self.termination} in {self.seconds * 1e3:.1f} ms"]
        if self.objective is not None:
            lines.append(f"objective {self.objective}, bound {self.bound} ({self.bound_kind})")
        if self.scale != 1:
            lines.append(f"objective and bound are scaled by {self.scale}")
        if self.assignment is not None:
            placed = [f"{i}->{g}" for i, g in enumerate(self.assignment) if g is not None]
            lines.append("request->worker: " + (", ".join(placed) or "none admitted"))
        lines += [f"violated: {name} by {amount}" for name, amount in self.violations.items()]
        return "\n".join(lines)
