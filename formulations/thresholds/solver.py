"""The threshold programs with their verbs: by iteration, a backend or enumeration; and proven."""

import time
from functools import partial
from typing import Any

from formulations.arrays import FloatArray
from formulations.formulation import Formulation
from formulations.results import Termination
from formulations.thresholds.check import threshold_violations
from formulations.thresholds.conditions import ThresholdProblem, policy_memory
from formulations.thresholds.least import brute_force, least_thresholds
from formulations.thresholds.result import ThresholdResult

Thresholds = tuple[int, ...]


class ThresholdProgram(Formulation[ThresholdProblem, Thresholds, ThresholdResult]):
    """The program of one `ThresholdProblem`."""

    result = ThresholdResult

    def __init__(self, problem: ThresholdProblem) -> None:
        super().__init__(problem)
        # Without the memory every load below 1 has thresholds.
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
        """Answer a load of 1 or more."""
        if self.problem.load < 1:
            return None
        return ThresholdResult(method=method, termination=Termination.INFEASIBLE)

    def solution_at(self, values: FloatArray) -> Thresholds:
        """Read thresholds off a point."""
        index = self.standard_form.column_index()
        return tuple(round(values[index[f"n[{g},{i}]"]]) for g, i in self.model.segments)

    def found(self, method: str) -> ThresholdResult:
        """Return what one of our own methods finds; both prove it the least."""
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
        ``INFEASIBLE`` for a load of 1 or more, and where the memory is enforced and too small.

    Raises
    ------
    InputError
        If the method is unknown.
    CapabilityError
        If the scaled program leaves the integers a backend can hold, or is too large to enumerate.
    """
    program = ThresholdProgram(problem)
    own = {name: partial(program.found, name) for name in ("fixed-point", "brute-force")}
    return program.solve_by(problem, method, time_limit=time_limit, seed=seed, own=own)
