"""The hindsight latency program with its verbs: solve it, and say only what is proven."""

from functools import cached_property
from typing import Any

import numpy as np

from formulations.arrays import FloatArray
from formulations.formulation import Formulation
from formulations.hindsight_latency.bound import lower_bound
from formulations.hindsight_latency.brute_force import brute_force
from formulations.hindsight_latency.check import total_latency, violations
from formulations.hindsight_latency.kinds import kinds
from formulations.hindsight_latency.matrix import build_standard_form
from formulations.hindsight_latency.problem import LatencyProblem
from formulations.hindsight_latency.result import LatencyResult, Starts
from formulations.hindsight_latency.words import WORDS
from formulations.request_table import RequestKind
from formulations.results import Termination
from formulations.standard_form import StandardForm
from formulations.words import listed


class LatencyProgram(Formulation[LatencyProblem, Starts, LatencyResult]):
    """The program of one `LatencyProblem`.

    Parameters
    ----------
    problem : LatencyProblem
        Data.
    aggregate : bool
        Whether identical requests form one kind of integer variables.
    """

    result = LatencyResult
    words = WORDS
    # One request after the other is always feasible.
    always_feasible = True

    def __init__(self, problem: LatencyProblem, *, aggregate: bool = True) -> None:
        super().__init__(problem)
        self.aggregate = aggregate

    @cached_property
    def kinds(self) -> tuple[RequestKind, ...]:
        """The kinds of requests."""
        return kinds(self.problem, aggregate=self.aggregate)

    def state(self) -> Any:
        """Return the Pyomo statement."""
        from formulations.hindsight_latency.program import build

        return build(self.problem, aggregate=self.aggregate)

    def write(self) -> StandardForm:
        """Return the standard form, written without Pyomo."""
        return build_standard_form(self.problem, self.kinds)

    def lower_bound(self) -> int:
        """Return the bound by areas."""
        return lower_bound(self.problem)

    def objective_value(self, solution: Starts) -> int:
        """Return the total latency [rounds]."""
        return total_latency(self.problem, solution)

    def violations(self, solution: Starts, objective: int | None = None) -> dict[str, int]:
        """Return every violated constraint and by how much."""
        return violations(self.problem, solution, objective)

    def brute_force(self) -> tuple[int, Starts]:
        """Return the optimum and the smallest starts that reach it."""
        objective, starts = brute_force(self.problem)
        return objective, tuple(starts)

    def settled(self, method: str) -> LatencyResult | None:
        """Answer a problem without requests."""
        if self.problem.num_requests:
            return None
        return self.answer((), Termination.OPTIMAL, 0, method=method)

    def groups(self) -> list[str]:
        """Return the requests of each kind, in words."""
        return [listed(kind.members) for kind in self.kinds]

    def solution_at(self, values: FloatArray) -> Starts:
        """Read starts off a point; members of a kind start in order."""
        counts = np.maximum(np.round(values).astype(np.int64), 0)
        starts: list[int] = self.problem.arrival.tolist()
        offset = 0
        for kind in self.kinds:
            of_kind = counts[offset : offset + len(kind.starts)]
            rounds = np.repeat(np.array(kind.starts), of_kind).tolist()
            # A point that starts too few or too many is caught by its objective or bound.
            for member, start in zip(kind.members, rounds, strict=False):
                starts[member] = start
            offset += len(kind.starts)
        return tuple(starts)

    def point_of(self, solution: Starts) -> FloatArray | None:
        """Write starts as a point; None if they are too late."""
        index = self.standard_form.column_index()
        values = np.zeros(len(index))
        for c, kind in enumerate(self.kinds):
            for member in kind.members:
                column = index.get(f"x[{c},{solution[member]}]")
                if column is None:
                    return None
                values[column] += 1.0
        return values


solve = LatencyProgram.solve
solve_by_enumeration = LatencyProgram.solve_by_enumeration
