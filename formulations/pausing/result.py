"""The answer to a pausing problem, in rationals."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from formulations.frames import fields_frame
from formulations.pausing.problem import PausingProblem
from formulations.rationals import plain_number
from formulations.results import ProgramResult, Solved, check_bound


@dataclass(frozen=True, kw_only=True)
class PricedResult(ProgramResult[tuple[tuple[bool, ...], tuple[int | None, ...]]]):
    """The answer at a price of tokens.

    Parameters
    ----------
    runs : tuple of bool, optional
        Whether each active request runs.
    assignment : tuple of (int or None), optional
        Worker of each waiting request, None for one that keeps waiting.
    """

    solution_fields = ("runs", "assignment")

    runs: tuple[bool, ...] | None = None
    assignment: tuple[int | None, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class PausingResult(Solved):
    """Why a solve stopped, and the step and bound in hand; None where missing.

    "Optimal" means that the ratio, recomputed in integers, equals a bound derived in integers.

    Parameters
    ----------
    problem : PausingProblem
        What was solved.
    time, tokens : int, optional
        Units of time (``problem.scale`` to a second) of the step, and tokens that it emits.
    bound : Fraction, optional
        Lower bound on the seconds per token of every feasible step.
    runs : tuple of bool, optional
        Whether each active request runs.
    assignment : tuple of (int or None), optional
        Worker of each waiting request, None for one that keeps waiting.
    rounds : int
        Integer programs that were solved, one for each price of tokens.
    violations : mapping
        What the checker found; empty for a feasible step.
    """

    problem: PausingProblem
    time: int | None = None
    tokens: int | None = None
    bound: Fraction | None = None
    runs: tuple[bool, ...] | None = None
    assignment: tuple[int | None, ...] | None = None
    rounds: int = 0
    violations: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a result that contradicts itself."""
        if self.is_optimal and (self.objective != self.bound or self.violations):
            raise ValueError("optimal needs an equal exact bound and a feasible step")
        check_bound(self.method, self.objective, self.bound, checked=not self.violations)

    @property
    def objective(self) -> Fraction | None:
        """Seconds per token of the step; None if there is none."""
        if self.time is None or not self.tokens:
            return None
        return self.problem.ratio(self.time, self.tokens)

    @property
    def gap(self) -> float | None:
        """``(objective - bound) / objective``; None where one is missing."""
        if self.objective is None or self.bound is None:
            return None
        return float(1 - self.bound / self.objective) if self.objective else 0.0

    def summary(self) -> str:
        """Return a few lines of plain text."""
        lines = [f"{self.method}: {self.termination} in {self.seconds * 1e3:.1f} ms"]
        if self.objective is not None:
            bound = "none" if self.bound is None else f"{float(self.bound):.9g}"
            lines.append(f"{float(self.objective):.9g} s per token, bound {bound}")
        lines.append(self.origin())
        if self.runs is not None and self.assignment is not None and self.time is not None:
            seconds = float(Fraction(self.time, self.problem.scale))
            lines.append(f"{self.tokens} tokens in {seconds:.9g} s")
            lines.append(_text(self.problem, self.runs, self.assignment))
        lines += [f"violated: {name} by {amount}" for name, amount in self.violations.items()]
        return "\n".join(lines)

    def to_frame(self) -> Any:
        """Return its figures as a data frame of pandas."""
        return fields_frame(self)

    def to_mapping(self) -> dict[str, object]:
        """Return the JSON document ``bfio pause`` prints."""
        runs, assignment = self.runs, self.assignment
        actions, idle = None, None
        if runs is not None and assignment is not None:
            actions = [action.value for action in self.problem.actions(runs)]
            idle = list(self.problem.frozen_workers(runs, assignment))
        return {
            "method": self.method,
            "termination": self.termination.value,
            "objective": plain_number(self.objective),
            "bound": plain_number(self.bound),
            "exact": {
                name: None if value is None else str(value)
                for name, value in (("objective", self.objective), ("bound", self.bound))
            },
            "time": self.time,
            "tokens": self.tokens,
            "scale": self.problem.scale,
            "actions": actions,
            "frozen_workers": idle,
            "assignment": None if assignment is None else list(assignment),
            "violations": dict(self.violations),
            "rounds": self.rounds,
            "seconds": self.seconds,
            "compile_seconds": self.compile_seconds,
            "solver": dict(self.solver),
            "proof": self.proof,
        }


def _text(
    problem: PausingProblem, runs: tuple[bool, ...], assignment: tuple[int | None, ...]
) -> str:
    """Return who rests, who starts, and which workers are frozen."""
    rest = [str(j) for j, run in enumerate(runs) if not run]
    starts = [f"{i}->{g}" for i, g in enumerate(assignment) if g is not None]
    parts = [f"rest: {', '.join(rest) or 'none'}", f"start: {', '.join(starts) or 'none'}"]
    if idle := problem.frozen_workers(runs, assignment):
        parts.append(f"frozen workers: {', '.join(map(str, idle))}")
    return "; ".join(parts)
