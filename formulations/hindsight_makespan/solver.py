"""The hindsight makespan program with its verbs: solve it, and say only what is proven."""

from functools import cached_property
from typing import Any

from formulations.arrays import FloatArray
from formulations.formulation import Formulation
from formulations.hindsight_makespan.bound import lower_bound
from formulations.hindsight_makespan.brute_force import brute_force
from formulations.hindsight_makespan.check import objective_value, violations
from formulations.hindsight_makespan.kinds import kinds
from formulations.hindsight_makespan.matrix import build_standard_form
from formulations.hindsight_makespan.points import point_of, schedule_of
from formulations.hindsight_makespan.problem import MakespanProblem
from formulations.hindsight_makespan.result import MakespanResult, Schedule
from formulations.hindsight_makespan.words import WORDS
from formulations.request_table import RequestKind
from formulations.results import Termination
from formulations.standard_form import StandardForm
from formulations.words import listed


class MakespanProgram(Formulation[MakespanProblem, Schedule, MakespanResult]):
    """The program of one `MakespanProblem`.

    Parameters
    ----------
    problem : MakespanProblem
        Data.
    aggregate : bool
        Whether requests alike form one kind of integer variables.
    """

    result = MakespanResult
    words = WORDS
    # A list schedule is always feasible.
    always_feasible = True

    def __init__(self, problem: MakespanProblem, *, aggregate: bool = True) -> None:
        super().__init__(problem)
        self.aggregate = aggregate

    @cached_property
    def kinds(self) -> tuple[RequestKind, ...]:
        """The kinds of requests."""
        return kinds(self.problem, aggregate=self.aggregate)

    def state(self) -> Any:
        """Return the Pyomo statement."""
        from formulations.hindsight_makespan.program import build

        return build(self.problem, aggregate=self.aggregate)

    def write(self) -> StandardForm:
        """Return the standard form, written without Pyomo."""
        return build_standard_form(self.problem, self.kinds)

    def lower_bound(self) -> int:
        """Return the bound by packing, peaks and completions."""
        return lower_bound(self.problem)

    def objective_value(self, solution: Schedule) -> int:
        """Return the objective in integers."""
        return objective_value(self.problem, *solution)

    def violations(self, solution: Schedule, objective: int | None = None) -> dict[str, int]:
        """Return every violated constraint and by how much."""
        return violations(self.problem, *solution, objective)

    def brute_force(self) -> tuple[int, Schedule]:
        """Return the optimum and the smallest schedule that reaches it."""
        objective, starts, workers = brute_force(self.problem)
        return objective, (tuple(starts), tuple(workers))

    def settled(self, method: str) -> MakespanResult | None:
        """Answer a problem without requests."""
        if self.problem.num_requests:
            return None
        return self.answer(((), ()), Termination.OPTIMAL, 0, method=method)

    def details(self) -> dict[str, Any]:
        """Return the scale of the objective."""
        return {"scale": self.problem.scale}

    def groups(self) -> list[str]:
        """Return the requests of each kind, in words."""
        return [listed(kind.members) for kind in self.kinds]

    def solution_at(self, values: FloatArray) -> Schedule:
        """Read starts and workers off a point; members of a kind start in order."""
        return schedule_of(self.problem, self.kinds, values)

    def point_of(self, solution: Schedule) -> FloatArray | None:
        """Write a feasible schedule as a point; None if it is not within the windows."""
        return point_of(self.problem, self.kinds, self.standard_form.column_index(), *solution)


solve = MakespanProgram.solve
solve_by_enumeration = MakespanProgram.solve_by_enumeration
