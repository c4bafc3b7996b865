"""Minimise the second objective of a step: search, our exact method, CP-SAT, and proofs."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bfio.step.exact import solve_exact
from bfio.step.exact.effort import CALL, Effort
from bfio.step.interval_bound import interval_bound
from bfio.step.second.one_program import one_program
from bfio.step.second.search import improved, prepare_second, settled
from formulations.backends import backend
from formulations.deadline import OPERATIONS, TimeLimit, checked_work_limit
from formulations.errors import CapabilityError
from formulations.formulation import COMBINATORIAL
from formulations.results import BoundKind, Termination, own_solver
from formulations.second import (
    SecondProblem,
    SecondProgram,
    SecondResult,
    second_value,
    solve,
    violations,
    without_idle_steps,
)
from formulations.second.solver import lower_bound
from formulations.step.certificate import Certificate
from formulations.step.problem import Assignment, StepProblem

#: Largest factor for our own method; larger ones could overflow 64 bits.
_MOST_FACTOR = 1 << 40


@dataclass(frozen=True)
class Proof:
    """Proof of a second bound: a certificate of the step program ``problem``.

    The second bound is the certificate's less ``factor`` times the limit on the first objective
        (`bfio.step.second.one_program`).
    """

    problem: StepProblem
    certificate: Certificate
    factor: int


@dataclass(frozen=True, kw_only=True)
class Chosen(SecondResult):
    """The result of a second program, and its proof.

    Parameters
    ----------
    certified : Proof, optional
        Proof of the bound, if our own method found it.
    stopped_by_time : bool
        Whether the time limit stopped a part, so that the answer may depend on the machine.
    """

    certified: Proof | None = None
    stopped_by_time: bool = False


def solve_second(
    problem: SecondProblem,
    start: Sequence[int | None],
    *,
    prove: bool = True,
    time_limit: TimeLimit = None,
    work_limit: int | None = None,
) -> Chosen:
    """Minimise the second objective of a step within a limit of the first.

    Our search runs first. If both objectives form one step program, our exact method follows.
    CP-SAT closes a remaining gap. The answer is deterministic unless the time limit is reached.
    Ties between interchangeable requests: the cheapest start, then the oldest, in order of worker
    index. Other ties in the second objective depend on the search order, which has a fixed seed.

    Parameters
    ----------
    problem : SecondProblem
        The second program of a step.
    start : sequence of int or None
        A feasible assignment within the limit.
    prove : bool
        Whether CP-SAT may close a remaining gap.
    time_limit : float or Deadline, optional
        Wall-clock seconds.
    work_limit : int, optional
        Ticks (`formulations.deadline`).

    Returns
    -------
    Chosen
        Objective and bound are of the second objective; optimal only with a proof in integers.
    """
    effort = Effort(time_limit, checked_work_limit(work_limit))
    with effort.clock.stopped():
        prepare_second()
    began = time.perf_counter()
    effort.spend(CALL)
    state = _State(problem, tuple(start), effort)
    state.search()
    state.solve_as_one()
    if prove:
        state.ask_cp_sat()
    return state.answer(time.perf_counter() - began)


class _State:
    """The best assignment and bound so far."""

    def __init__(self, problem: SecondProblem, start: Assignment, effort: Effort) -> None:
        self._problem = problem
        self._lean = without_idle_steps(problem)
        self._effort = effort
        self._has_slack = problem.step.objective_value(start) < problem.most
        self._take(start)
        self._bound = lower_bound(problem)
        if problem.window is not None:
            alone = replace(problem, window=None)
            self._bound = max(self._bound, lower_bound(alone) + interval_bound(problem.window))
        self._method, self._proof = "search", COMBINATORIAL
        self._certified: Proof | None = None
        self._loading = 0.0

    @property
    def _is_open(self) -> bool:
        return self._value > self._bound and not self._effort.is_over

    def _take(self, assignment: Assignment) -> None:
        self._assignment = settled(self._lean, assignment)
        self._value = second_value(self._problem, self._assignment)

    def _offer(self, assignment: Assignment | None) -> None:
        """Keep an assignment if it is feasible and better."""
        if assignment is None or violations(self._problem, assignment):
            return
        if second_value(self._problem, assignment) < self._value:
            self._take(assignment)

    def search(self) -> None:
        """Improve the assignment by random exchanges."""
        if self._is_open:
            self._offer(improved(self._lean, self._assignment, self._effort, self._bound))

    def solve_as_one(self) -> None:
        """Solve both objectives as one step program, if they form one.

        Skipped if the first objective has slack below the limit: the optimum of one program would
        then not have the least second objective.
        """
        factor = self._value - self._bound + 1
        if self._has_slack or not self._is_open or factor > _MOST_FACTOR:
            return
        one = one_program(self._problem, factor)
        if one is None:
            return
        found = solve_exact(
            one,
            time_limit=self._effort.clock,
            work_limit=self._effort.ticks_left,
            hint=self._assignment,
            fallback=None,
        )
        self._effort.spend(found.ticks * OPERATIONS)
        self._effort.stopped_by_time |= found.stopped_by_time
        self._effort.stopped_by_work |= found.stopped_by_work
        self._offer(found.assignment)
        if found.bound is None or found.bound - factor * self._problem.most <= self._bound:
            return
        self._bound = found.bound - factor * self._problem.most
        self._method, self._proof = "exact", "the bound of one program for both objectives"
        if found.certificate is not None and found.certificate.bound == found.bound:
            self._certified = Proof(one, found.certificate, factor)

    def ask_cp_sat(self) -> None:
        """Close a remaining gap with CP-SAT."""
        if not self._is_open:
            return
        began = time.perf_counter()
        with self._effort.clock.stopped():
            backend("cp-sat").load()
        self._loading = time.perf_counter() - began
        try:
            found = solve(
                self._lean,
                time_limit=self._effort.clock,
                work_limit=self._effort.ticks_left,
                hint=self._assignment,
            )
        except CapabilityError:
            # The numbers are too large for CP-SAT: keep our own answer.
            return
        self._effort.spend((found.ticks or 0) * OPERATIONS)
        self._effort.stopped_by_time |= found.termination is Termination.TIME_LIMIT
        self._effort.stopped_by_work |= found.termination is Termination.WORK_LIMIT
        self._offer(found.assignment)
        if found.bound is None or found.bound_kind is not BoundKind.INTEGER:
            return
        if found.bound > self._bound:
            self._bound = found.bound
            self._method, self._proof = "cp-sat", "the bound of CP-SAT, derived in integers"
            self._certified = None

    def answer(self, seconds: float) -> Chosen:
        """Return the best assignment as a checked result."""
        said = Termination.FEASIBLE
        if self._effort.stopped_by_time:
            said = Termination.TIME_LIMIT
        elif self._effort.stopped_by_work:
            said = Termination.WORK_LIMIT
        checked = SecondProgram(self._problem).answer(
            self._assignment,
            said,
            self._bound,
            method=self._method,
            seconds=seconds - self._loading,
            solver=own_solver(),
            proof=self._proof,
            ticks=self._effort.ticks,
        )
        return Chosen(
            **vars(checked),
            certified=self._certified,
            stopped_by_time=self._effort.stopped_by_time,
        )
