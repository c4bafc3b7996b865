"""The step program with one variable per class of equal requests, for CP-SAT.

CP-SAT solves the problems that the exact method leaves open. Requests with the same contribution
form a class, with one integer variable per open worker. Workers without free slots are a constant
in each peak. The objective is that of the program (IO):

    min  Σ_h w_h (G·M_h − Σ_g b_g(h) − Σ_k Σ_g r_k(h) y_kg) − Σ_k Σ_g c_kg y_kg
    s.t. M_h ≥ b_g(h) + Σ_k r_k(h) y_kg,  Σ_g y_kg ≤ n_k,  Σ_k y_kg ≤ cap_g,  Σ y = U.

With benefits, requests of a class also have the same benefit c. Token capacities are additional
constraints. Required requests form separate classes, and all of them start.
"""

import time
from collections import Counter
from typing import Any

import numpy as np

from bfio.step.exact.effort import Effort
from bfio.step.exact.result import ExactResult, Seconds
from formulations.backends import SolveLimits, backend
from formulations.backends.cp_sat import is_trusted, trusted_solver
from formulations.deadline import CP_SAT_SECOND, OPERATIONS
from formulations.step.problem import Objective, StepProblem


def is_compact(problem: StepProblem) -> bool:
    """Return whether the problem minimises imbalance without further constraints."""
    waiting = problem.num_requests > problem.num_admitted
    return (
        can_be_compact(problem)
        and problem.token_capacity is None
        and (problem.required is None or not problem.required.any() or not waiting)
    )


def can_be_compact(problem: StepProblem) -> bool:
    """Return whether `solve_compact` supports the problem: imbalance, equal speeds."""
    times = problem.time_weights
    return problem.objective is Objective.IMBALANCE and not (times != times[0]).any()


def solve_compact(
    problem: StepProblem,
    start: ExactResult,
    effort: Effort,
    *,
    first_peak: tuple[int, int] | None = None,
    least_of_loads: int | None = None,
) -> ExactResult:
    """Close the gap of an imbalance problem with CP-SAT on one thread.

    Parameters
    ----------
    problem : StepProblem
        A problem for which `can_be_compact` is true.
    start : ExactResult
        The best assignment and bound so far.
    first_peak : tuple of int, optional
        Range of the first step's peak that contains whatever beats the assignment.
    least_of_loads : int, optional
        Proven lower bound on the scaled objective without benefits.

    Returns
    -------
    ExactResult
        Its bound holds for assignments that beat the one in hand.
    """
    with effort.clock.stopped():
        backend("cp-sat").load()
    from ortools.sat.python import cp_model

    began = time.perf_counter()
    lower = 0 if start.bound is None else start.bound
    program = _Program(problem)
    model = program.model
    if first_peak is not None:
        model.add_linear_constraint(program.peaks[0], *first_peak)
    model.add(program.objective >= lower)
    if least_of_loads is not None:
        model.add(program.of_loads >= least_of_loads)
    if start.assignment is not None:
        program.add_hint(start.assignment)
    reach = program.reach()
    solver = trusted_solver(reach, SolveLimits())
    # The clock also ran while the program was written.
    if (left := effort.clock.left_or_none) is not None:
        solver.parameters.max_time_in_seconds = left
    if (ticks := effort.ticks_left) is not None:
        solver.parameters.max_deterministic_time = ticks / CP_SAT_SECOND
    status = solver.solve(model)
    used = round(solver.response_proto.deterministic_time * CP_SAT_SECOND)
    effort.spend(used * OPERATIONS)
    if status in (cp_model.UNKNOWN, cp_model.FEASIBLE):
        late = ticks is None or effort.clock.is_over
        effort.stopped_by_time |= late
        effort.stopped_by_work |= not late
    # Without a solution CP-SAT gives 0 where it knows no bound, which says nothing.
    assignment, value, claimed = None, None, lower
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        assignment = program.assignment(solver)
        value = problem.objective_value(assignment)
        # The bound is stored as a double.
        if abs(solver.best_objective_bound) < 2.0**53:
            claimed = max(lower, round(solver.best_objective_bound))
    is_infeasible = status == cp_model.INFEASIBLE
    known = start.objective
    if first_peak is not None and start.assignment is not None:
        low, high = first_peak
        if not low <= int(problem.loads(start.assignment)[:, 0].max()) <= high:
            known = None
    bound: int | None = claimed
    if not is_trusted(reach) or (known is not None and (is_infeasible or claimed > known)):
        # Its word is no proof here, or the assignment in hand refutes it.
        bound = lower
    elif is_infeasible:
        # Nothing in the range of peaks, so nothing beats the start.
        bound = start.objective
    elif status == cp_model.OPTIMAL:
        bound = value
    seconds = Seconds(fallback=time.perf_counter() - began)
    return ExactResult("cp-sat", assignment, value, bound, seconds=seconds)


class _Program:
    """Variables and constraints of the CP-SAT model; ``take[k][p]`` is y of class k, worker p."""

    def __init__(self, problem: StepProblem) -> None:
        from ortools.sat.python import cp_model

        self.problem = problem
        self.workers = np.flatnonzero(problem.capacity > 0).tolist()
        rows = problem.contribution
        if problem.benefit is not None:
            rows = np.hstack([rows, problem.benefit[:, self.workers]])
        required = np.zeros(len(rows)) if problem.required is None else problem.required
        rows = np.hstack([rows, required[:, None].astype(np.int64)])
        self.rows, self.classes, self.counts = np.unique(
            rows, axis=0, return_inverse=True, return_counts=True
        )
        self.model: Any = cp_model.CpModel()
        capacity = problem.capacity[self.workers].tolist()
        self.take: list[list[Any]] = [
            [self.model.new_int_var(0, min(n, c), "") for c in capacity]
            for n in self.counts.tolist()
        ]
        self._of_worker = [list(column) for column in zip(*self.take, strict=True)]
        self._admit(capacity)
        self.peaks = self._peaks()
        self.of_loads = self._of_loads()
        benefit: Any = 0
        if problem.benefit is not None:
            columns = enumerate(self._of_worker, problem.num_steps)
            benefit = sum(self._weighted(taken, column) for column, taken in columns)
        self.objective = self.of_loads - benefit
        self.model.minimize(self.objective)

    def _admit(self, capacity: list[int]) -> None:
        must = self.rows[:, -1].tolist()
        for row, n, all_start in zip(self.take, self.counts.tolist(), must, strict=True):
            self.model.add(sum(row) == n if all_start else sum(row) <= n)
        for taken, most in zip(self._of_worker, capacity, strict=True):
            self.model.add(sum(taken) <= most)
        self.model.add(sum(sum(row) for row in self.take) == self.problem.num_admitted)

    def _peaks(self) -> list[Any]:
        """Return the peaks M_h, constrained to be at least every load."""
        low = self.problem.base.max(axis=0).tolist()
        admitted = np.sort(self.problem.contribution, axis=0)[::-1].cumsum(axis=0)
        most = admitted[int(self.problem.capacity.max()) - 1].tolist()
        limits = self.problem.token_capacity
        peaks = []
        for h, floor in enumerate(low):
            peak = self.model.new_int_var(floor, floor + most[h], "")
            for g, taken in zip(self.workers, self._of_worker, strict=True):
                load = self._weighted(taken, h)
                self.model.add(peak >= load + int(self.problem.base[g, h]))
                if limits is not None:
                    self.model.add(load <= int(limits[g] - self.problem.base[g, h]))
            peaks.append(peak)
        return peaks

    def _weighted(self, variables: list[Any], column: int) -> Any:
        """Return a weighted sum of one variable per class; weights are a column of the classes."""
        from ortools.sat.python import cp_model

        return cp_model.LinearExpr.weighted_sum(variables, self.rows[:, column].tolist())

    def _of_loads(self) -> Any:
        problem = self.problem
        admitted = [sum(row) for row in self.take]
        value = 0
        for h, weight in enumerate(problem.weights):
            base = int(problem.base[:, h].sum())
            total = self._weighted(admitted, h)
            value += weight * (problem.num_workers * self.peaks[h] - base - total)
        return int(problem.time_weights[0]) * value

    def reach(self) -> float:
        """Return an upper bound on the absolute value of every row's sum and the objective."""
        problem = self.problem
        counts, capacity = self.counts[:, None], problem.capacity[self.workers]
        most = np.minimum(counts, capacity).sum(axis=1).astype(np.float64)
        admitted = most @ self.rows
        steps = problem.num_steps
        peaks = problem.base.max(axis=0) + admitted[:steps]
        each = problem.num_workers * peaks + problem.base.sum(axis=0) + admitted[:steps]
        of_loads = float(each @ np.array(problem.weights, dtype=np.float64))
        rows = float((peaks + admitted[:steps]).max())
        return max(rows, float(problem.time_weights[0]) * of_loads + float(admitted[steps:].sum()))

    def add_hint(self, assignment: tuple[int | None, ...]) -> None:
        """Give CP-SAT an assignment as a hint."""
        given = Counter(zip(self.classes.tolist(), assignment, strict=True))
        for k, variables in enumerate(self.take):
            for g, variable in zip(self.workers, variables, strict=True):
                self.model.add_hint(variable, given[k, g])

    def assignment(self, solver: Any) -> tuple[int | None, ...]:
        """Assign the requests of each class, oldest first, to the workers that take some."""
        answer: list[int | None] = [None] * self.problem.num_requests
        for k, row in enumerate(self.take):
            members = np.flatnonzero(self.classes == k).tolist()
            takers = np.repeat(self.workers, [solver.value(v) for v in row]).tolist()
            for i, g in zip(members, takers, strict=False):
                answer[i] = g
        return tuple(answer)
