"""The answer to a hindsight latency problem."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from formulations.errors import InputError
from formulations.results import BoundKind, Termination


@dataclass(frozen=True)
class LatencyResult:
    """Why a solve stopped, and the checked schedule and bound in hand; None where missing.

    Parameters
    ----------
    method : str
        What solved: a backend or ``brute-force``.
    termination : Termination
        ``OPTIMAL`` only if ``objective`` equals a bound derived in integers.
    objective : int, optional
        Total latency of ``starts`` [rounds], recomputed in integers.
    bound : int, optional
        Lower bound on the total latency.
    bound_kind : BoundKind
        Whether the bound was derived in integers.
    starts : tuple of int, optional
        Start round of each request.
    violations : mapping
        What the checker found; empty for a feasible schedule.
    seconds : float
        Wall-clock time of the solve itself.
    compile_seconds : float
        Wall-clock time to write the program in the solver's form.
    solver : mapping
        Name, version, raw status and options.
    """

    method: str
    termination: Termination
    objective: int | None = None
    bound: int | None = None
    bound_kind: BoundKind = BoundKind.INTEGER
    starts: tuple[int, ...] | None = None
    violations: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    compile_seconds: float = 0.0
    solver: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a result that contradicts itself."""
        if (self.objective is None) != (self.starts is None):
            raise ValueError("objective and starts come together")
        if self.is_optimal and not (
            self.objective == self.bound
            and self.bound_kind is BoundKind.INTEGER
            and not self.violations
        ):
            raise ValueError("optimal needs an equal integer bound and a feasible schedule")

    @property
    def is_optimal(self) -> bool:
        """Whether the schedule is proven optimal, in integers."""
        return self.termination is Termination.OPTIMAL

    @property
    def gap(self) -> float | None:
        """``(objective - bound) / objective``; None where one is missing."""
        if self.objective is None or self.bound is None:
            return None
        return 0.0 if self.objective == 0 else (self.objective - self.bound) / self.objective

    def required_starts(self) -> tuple[int, ...]:
        """Return the starts.

        Raises
        ------
        InputError
            If the run left none.
        """
        if self.starts is None:
            raise InputError(
                self.method, f"no schedule ({self.termination})", "raise the time limit"
            )
        return self.starts

    def to_mapping(self) -> dict[str, object]:
        """Return a JSON document."""
        return {
            "method": self.method,
            "termination": self.termination.value,
            "objective": self.objective,
            "bound": self.bound,
            "bound_kind": None if self.bound is None else self.bound_kind.value,
            "starts": None if self.starts is None else list(self.starts),
            "violations": dict(self.violations),
            "seconds": self.seconds,
            "compile_seconds": self.compile_seconds,
            "solver": dict(self.solver),
        }
