"""Solve the threshold and segment programs: by iteration, by backends, by enumeration."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from formulations.arrays import FloatArray
from formulations.backends import SolveLimits
from formulations.formulation import Formulation
from formulations.results import ProgramResult, Termination
from formulations.thresholds.check import brute_force, nested_violations, threshold_violations
from formulations.thresholds.conditions import ThresholdProblem, least_thresholds, policy_memory
from formulations.thresholds.problem import NestedProblem
from formulations.thresholds.segments import all_segments


@dataclass(frozen=True, kw_only=True)
class ThresholdResult(ProgramResult[Any]):
    """The answer of a threshold program; the objective is the memory ``Σ n_i w_i`` [tokens].

    Parameters
    ----------
    thresholds : tuple of int, optional
        Threshold per stage of each class (WAIT) or segment (Nested WAIT); None if infeasible.
    iterations : int
        Rounds of the fixed-point iteration, if that is the method.
    """

    solution_fields: ClassVar[tuple[str, ...]] = ("thresholds",)

    thresholds: tuple[int, ...] | None = None
    iterations: int = 0


@dataclass(frozen=True, kw_only=True)
class SegmentResult(ThresholdResult):
    """The answer of the segment program; see `segment_program` for its objective.

    Parameters
    ----------
    boundaries : tuple of int, optional
        Last stage of each chosen segment.
    """

    solution_fields = ("thresholds", "boundaries")

    boundaries: tuple[int, ...] | None = None


#: Thresholds of the chosen segments, and the last stage of each.
Choice = tuple[tuple[int, ...], tuple[int, ...]]


class SegmentProgram(Formulation[NestedProblem, Choice, SegmentResult]):
    """The segment program of a `NestedProblem` with a boundary at every output.

    Parameters
    ----------
    problem : NestedProblem
        Data.
    most : int
        Objective of a known solution.
    """

    result = SegmentResult

    def __init__(self, problem: NestedProblem, most: int = 0) -> None:
        super().__init__(problem)
        self.most = most
        self.always_feasible = not problem.within_memory

    def state(self) -> Any:
        """Return the Pyomo statement."""
        from formulations.thresholds.segment_program import build

        return build(self.problem, self.most)

    def lower_bound(self) -> int:
        """Return the memory of the fluid equilibrium with the finest segments.

        Merging segments only makes requests stay longer, so this bounds every full batch.
        """
        return self.problem.conditions.memory_bound()

    def objective_value(self, solution: Choice) -> int:
        """Return the memory of a full batch and of requests between segments [tokens]."""
        thresholds, boundaries = solution
        return batch_and_waiting(self.problem.with_boundaries(boundaries), thresholds)

    def violations(self, solution: Choice, objective: int | None = None) -> dict[str, int]:
        """Return every violated constraint and by how much."""
        thresholds, boundaries = solution
        return nested_violations(self.problem.with_boundaries(boundaries), thresholds)

    def brute_force(self) -> tuple[int, Choice] | None:
        """Return the least memory over all boundaries; ties go to fewest segments."""
        choices = []
        for candidate in all_segments(self.problem):
            thresholds, _ = least_thresholds(candidate)
            if thresholds is not None and not nested_violations(candidate, thresholds):
                memory = batch_and_waiting(candidate, thresholds)
                ends = candidate.group.ends
                choices.append((memory, len(ends), ends, thresholds))
        if not choices:
            return None
        memory, _, boundaries, thresholds = min(choices)
        return memory, (thresholds, boundaries)

    def solution_at(self, values: FloatArray) -> Choice:
        """Return the segments and thresholds at a point of the standard form."""
        index = self.standard_form.column_index()
        chosen = [(a, b) for a, b in self.model.segments if round(values[index[f"z[{a},{b}]"]])]
        thresholds = tuple(round(values[index[f"n[{a},{b}]"]]) for a, b in chosen)
        return thresholds, tuple(self.problem.group.outputs[b] for _, b in chosen)


def batch_and_waiting(problem: NestedProblem, thresholds: Sequence[int]) -> int:
    """Return the first two terms of (12), the objective of the segment program [tokens]."""
    held = problem.group.chain.held
    waiting = sum(tokens * n for tokens, n in zip(held, thresholds[1:], strict=True))
    return policy_memory(problem.weights, thresholds) + waiting


def solve_segments(
    problem: NestedProblem,
    *,
    method: str = "cp-sat",
    time_limit: float | None = None,
    seed: int = 0,
) -> SegmentResult:
    """Choose segments and thresholds that minimise the memory of full batch and waiting requests.

    Parameters
    ----------
    problem : NestedProblem
        Data; its own boundaries are ignored.
    method : str
        ``cp-sat``, ``highs``, ``pyomo`` or ``brute-force``.
    time_limit : float, optional
        Seconds for the backend.
    seed : int
        Random seed of the backend.

    Raises
    ------
    InputError
        If the method is unknown.
    CapabilityError
        If the scaled program exceeds the integer range of a backend.
    """
    finest = problem.with_boundaries(problem.group.outputs)
    thresholds, _ = least_thresholds(finest)
    if thresholds is None:
        return SegmentResult(method=method, termination=Termination.INFEASIBLE)
    if method == "brute-force":
        return SegmentProgram.solve_by_enumeration(finest)
    most = batch_and_waiting(finest, thresholds)
    return SegmentProgram(finest, most).solved(method, SolveLimits(time_limit, seed))


Thresholds = tuple[int, ...]


class ThresholdProgram(Formulation[ThresholdProblem, Thresholds, ThresholdResult]):
    """The program of one `ThresholdProblem`."""

    result = ThresholdResult

    def __init__(self, problem: ThresholdProblem) -> None:
        super().__init__(problem)
        # Without the memory limit, every load below 1 has feasible thresholds.
        self.always_feasible = not problem.conditions.within_memory

    def state(self) -> Any:
        """Return the Pyomo statement."""
        from formulations.thresholds.program import build

        return build(self.problem)

    def lower_bound(self) -> int:
        """Return the memory of the fluid equilibrium."""
        return self.problem.conditions.memory_bound()

    def objective_value(self, solution: Thresholds) -> int:
        """Return the memory of a full batch [tokens]."""
        return policy_memory(self.problem.weights, solution)

    def violations(self, solution: Thresholds, objective: int | None = None) -> dict[str, int]:
        """Return every violated constraint and by how much."""
        return threshold_violations(self.problem, solution)

    def settled(self, method: str) -> ThresholdResult | None:
        """Answer a load of 1 or more: infeasible."""
        if self.problem.load < 1:
            return None
        return ThresholdResult(method=method, termination=Termination.INFEASIBLE)

    def solution_at(self, values: FloatArray) -> Thresholds:
        """Return the thresholds at a point of the standard form."""
        index = self.standard_form.column_index()
        return tuple(round(values[index[f"n[{g},{i}]"]]) for g, i in self.model.segments)

    def found(self, method: str) -> ThresholdResult:
        """Return the result of one of our own methods; each proves its optimum."""
        began = time.perf_counter()
        vector, rounds = (
            least_thresholds(self.problem)
            if method == "fixed-point"
            else (brute_force(self.problem), 0)
        )
        report: dict[str, Any] = {
            "method": method,
            "seconds": time.perf_counter() - began,
            "iterations": rounds,
        }
        if vector is None or set(self.violations(vector)) == {"memory"}:
            return ThresholdResult(termination=Termination.INFEASIBLE, **report)
        return self.answer(vector, Termination.OPTIMAL, self.objective_value(vector), **report)


def solve(
    problem: ThresholdProblem,
    *,
    method: str = "fixed-point",
    time_limit: float | None = None,
    seed: int = 0,
) -> ThresholdResult:
    """Return the thresholds of least memory.

    Parameters
    ----------
    problem : WaitProblem, NestedProblem or TimeVaryingProblem
        Data.
    method : str
        ``fixed-point`` (least solution by iteration, in rationals), ``brute-force``, or a backend
        for the integer program (constant rates): ``cp-sat``, ``highs``, ``pyomo``,
        ``pyomo:SOLVER``.
    time_limit : float, optional
        Seconds for a backend.
    seed : int
        Random seed of a backend.

    Returns
    -------
    ThresholdResult
        ``INFEASIBLE`` for a load of 1 or more, or if the memory is enforced and too small.

    Raises
    ------
    InputError
        If the method is unknown.
    CapabilityError
        If the scaled program exceeds the integer range of a backend, or is too large to enumerate.
    """
    program = ThresholdProgram(problem)
    own = {name: partial(program.found, name) for name in ("fixed-point", "brute-force")}
    return program.solve_by(problem, method, time_limit=time_limit, seed=seed, own=own)
