"""The answer to a step problem."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from formulations.errors import InputError
from formulations.results import BoundKind, Termination, TieRule


@dataclass(frozen=True)
class StepResult:
    """Why a solve stopped, and the checked solution and bound in hand; None where missing.

    Parameters
    ----------
    method : str
        What solved: a backend, ``exact``, ``two-stage`` or ``brute-force``.
    termination : Termination
        ``OPTIMAL`` only if ``objective`` equals a bound derived in integers.
    objective : int, optional
        Scaled objective of ``assignment``, recomputed in integers.
    bound : int, optional
        Lower bound on the scaled objective.
    bound_kind : BoundKind
        Whether the bound was derived in integers.
    assignment : tuple of (int or None), optional
        Worker of each request, None for one that keeps waiting.
    violations : mapping
        What the checker found; empty for a feasible solution.
    seconds : float
        Wall-clock time of the solve itself.
    compile_seconds : float
        Wall-clock time to write the program in the solver's form.
    tie_rule : TieRule
        Which of several optima this is.
    scale : int
        Factor by which fractional discount weights, hence objective and bound, are scaled.
    solver : mapping
        Name, version, raw status and options.
    """

    method: str
    termination: Termination
    objective: int | None = None
    bound: int | None = None
    bound_kind: BoundKind = BoundKind.INTEGER
    assignment: tuple[int | None, ...] | None = None
    violations: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    compile_seconds: float = 0.0
    tie_rule: TieRule = TieRule.BACKEND
    scale: int = 1
    solver: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a result that contradicts itself."""
        if (self.objective is None) != (self.assignment is None):
            raise ValueError("objective and assignment come together")
        if self.is_optimal and not (
            self.objective == self.bound
            and self.bound_kind is BoundKind.INTEGER
            and not self.violations
        ):
            raise ValueError("optimal needs an equal integer bound and a feasible assignment")

    @property
    def is_optimal(self) -> bool:
        """Whether the solution is proven optimal, in integers."""
        return self.termination is Termination.OPTIMAL

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
        document: dict[str, object] = {
            "method": self.method,
            "termination": self.termination.value,
            "objective": self.objective,
            "bound": self.bound,
            "bound_kind": None if self.bound is None else self.bound_kind.value,
            "assignment": None if self.assignment is None else list(self.assignment),
            "violations": dict(self.violations),
            "seconds": self.seconds,
            "compile_seconds": self.compile_seconds,
            "tie_rule": self.tie_rule.value,
            "solver": dict(self.solver),
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
