"""The hindsight latency program as a standard form, and its solver."""

from functools import cached_property
from typing import Any

import numpy as np

from formulations.arrays import FloatArray
from formulations.formulation import Formulation
from formulations.hindsight_latency.check import (
    brute_force,
    lower_bound,
    total_latency,
    violations,
)
from formulations.hindsight_latency.problem import (
    WORDS,
    LatencyProblem,
    LatencyResult,
    Starts,
    kinds,
)
from formulations.request_table import RequestKind
from formulations.results import Termination
from formulations.standard_form import FormWriter, StandardForm, check_size
from formulations.words import listed

#: Largest number of nonzeros written.
_MAX_NONZEROS = 50_000_000


def build_standard_form(problem: LatencyProblem, groups: tuple[RequestKind, ...]) -> StandardForm:
    """Write the standard form of a problem with at least one request.

    Columns are ``x[c,k]`` (c slow, k fast); rows are ``start_once[c]``, then ``memory[τ]``.

    Raises
    ------
    CapabilityError
        If the standard form would have too many nonzeros.
    """
    first_age, last_age = problem.convention.first_age, problem.convention.last_age
    nonzeros = sum(len(group.starts) * (last_age(group.output) + 2) for group in groups)
    remedy = "use fewer requests or shorter outputs, or the exact method"
    check_size(nonzeros, "problem", remedy, _MAX_NONZEROS)
    kind = np.repeat(np.arange(len(groups)), [len(group.starts) for group in groups])
    start = np.concatenate([np.array(group.starts) for group in groups])
    arrival = np.array([group.first_start for group in groups])[kind]
    column = np.arange(len(kind))
    sizes = np.array([len(group.members) for group in groups])
    writer = FormWriter()
    names = (f"x[{c},{k}]" for c, k in zip(kind.tolist(), start.tolist(), strict=True))
    writer.columns(names, upper=sizes[kind], cost=start - arrival)
    names = (f"start_once[{c}]" for c in range(len(groups)))
    writer.constraints(names, kind, column, 1, lower=sizes, upper=sizes)
    # A start occupies one round per age, and holds prompt plus age tokens there.
    lengths = np.array([last_age(group.output) - first_age + 1 for group in groups])[kind]
    prompts = np.array([group.prompt for group in groups])[kind]
    column = np.repeat(column, lengths)
    age = np.arange(len(column)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + first_age
    rounds, row = np.unique(start[column] + age, return_inverse=True)
    names = (f"memory[{t}]" for t in rounds.tolist())
    writer.constraints(names, row, column, prompts[column] + age, upper=problem.memory)
    return writer.form(sum(problem.output.tolist()))


class LatencyProgram(Formulation[LatencyProblem, Starts, LatencyResult]):
    """States, builds and checks the program of a `LatencyProblem`; `bfio.build` returns its model.

    Parameters
    ----------
    problem : LatencyProblem
        Data.
    aggregate : bool
        Whether identical requests form one kind of integer variables.
    """

    result = LatencyResult
    words = WORDS
    # Running one request after the other is always feasible.
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
        """Return the lower bound on total latency of `check.lower_bound` [rounds]."""
        return lower_bound(self.problem)

    def objective_value(self, solution: Starts) -> int:
        """Return the total latency of a schedule [rounds]."""
        return total_latency(self.problem, solution)

    def violations(self, solution: Starts, objective: int | None = None) -> dict[str, int]:
        """Return each violated constraint of a schedule and the amount."""
        return violations(self.problem, solution, objective)

    def brute_force(self) -> tuple[int, Starts]:
        """Return the minimum total latency and the lexicographically smallest optimal starts."""
        objective, starts = brute_force(self.problem)
        return objective, tuple(starts)

    def settled(self, method: str) -> LatencyResult | None:
        """Return the empty schedule for a problem without requests, else None."""
        if self.problem.num_requests:
            return None
        return self.answer((), Termination.OPTIMAL, 0, method=method)

    def groups(self) -> list[str]:
        """Return one text per request kind, which lists its requests."""
        return [listed(kind.members) for kind in self.kinds]

    def solution_at(self, values: FloatArray) -> Starts:
        """Return the starts at a point of the standard form; members of a kind start in order."""
        counts = np.maximum(np.round(values).astype(np.int64), 0)
        starts: list[int] = self.problem.arrival.tolist()
        offset = 0
        for kind in self.kinds:
            of_kind = counts[offset : offset + len(kind.starts)]
            rounds = np.repeat(np.array(kind.starts), of_kind).tolist()
            # If a point starts too few or too many, its objective or bound will not match.
            for member, start in zip(kind.members, rounds, strict=False):
                starts[member] = start
            offset += len(kind.starts)
        return tuple(starts)

    def point_of(self, solution: Starts) -> FloatArray | None:
        """Return the point of the standard form for starts; None if one is outside its window."""
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
