"""The segment program with its verbs: segments and thresholds chosen at once."""

from collections.abc import Sequence
from typing import Any

from formulations.arrays import FloatArray
from formulations.backends import SolveLimits
from formulations.formulation import Formulation
from formulations.results import Termination
from formulations.thresholds.check import nested_violations
from formulations.thresholds.conditions import policy_memory
from formulations.thresholds.least import least_thresholds
from formulations.thresholds.nested_problem import NestedProblem
from formulations.thresholds.result import SegmentResult
from formulations.thresholds.segments import all_segments

#: Thresholds of the chosen segments, and the last stage of each.
Choice = tuple[tuple[int, ...], tuple[int, ...]]


class SegmentProgram(Formulation[NestedProblem, Choice, SegmentResult]):
    """The segment program of a `NestedProblem` with a boundary at every output.

    Parameters
    ----------
    problem : NestedProblem
        Data.
    most : int
        Objective of some solution.
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

        Merging segments only makes requests stay longer, so that bounds the full batch.
        """
        return self.problem.conditions.memory_bound()

    def objective_value(self, solution: Choice) -> int:
        """Return the memory of a full batch and of what waits between segments [tokens]."""
        thresholds, boundaries = solution
        return batch_and_waiting(self.problem.with_boundaries(boundaries), thresholds)

    def violations(self, solution: Choice, objective: int | None = None) -> dict[str, int]:
        """Return every violated constraint and by how much."""
        thresholds, boundaries = solution
        return nested_violations(self.problem.with_boundaries(boundaries), thresholds)

    def brute_force(self) -> tuple[int, Choice] | None:
        """Return the least memory over all boundaries; of equal ones the fewest segments."""
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
        """Read segments and thresholds off a point."""
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
    """Choose segments and thresholds of least full batch and waiting requests.

    Parameters
    ----------
    problem : NestedProblem
        Data; its own boundaries play no part.
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
        If the scaled program leaves the integers a backend can hold.
    """
    finest = problem.with_boundaries(problem.group.outputs)
    thresholds, _ = least_thresholds(finest)
    if thresholds is None:
        return SegmentResult(method=method, termination=Termination.INFEASIBLE)
    if method == "brute-force":
        return SegmentProgram.solve_by_enumeration(finest)
    most = batch_and_waiting(finest, thresholds)
    return SegmentProgram(finest, most).solved(method, SolveLimits(time_limit, seed))
