"""The result of the exact step solver."""

from dataclasses import dataclass

from formulations.results import BoundKind, Termination, TieRule, own_solver
from formulations.step.certificate import Certificate
from formulations.step.check import violations
from formulations.step.problem import StepProblem, StepResult

#: What each method of the exact solver proves by.
_PROOFS = {
    "closed-form": "a closed-form bound",
    "bound": "reachable or priced sums",
    "columns": "a search to its end",
    "enumeration": "a search to its end",
    "brute-force": "enumeration of all solutions",
    "cp-sat": "the bound of CP-SAT",
}


@dataclass(frozen=True)
class Seconds:
    """Wall-clock time of each phase, and of compiling the kernels [s]."""

    bound: float = 0.0
    search: float = 0.0
    fallback: float = 0.0
    compile: float = 0.0

    @property
    def total(self) -> float:
        """Time of the solve, without ``compile`` [s]."""
        return self.bound + self.search + self.fallback


@dataclass(frozen=True)
class ExactResult:
    """An assignment, a bound, and whether they prove optimality.

    Parameters
    ----------
    method : str
        ``closed-form`` (bound met at once), ``bound`` (met by reachable or priced sums),
        ``columns`` (search through cases exhausted), ``enumeration``
        (search through all placements exhausted), ``brute-force`` (a tiny problem that was left
        open), or the fallback's name.
    assignment : tuple of (int or None), optional
        Worker of each request; None if no assignment was found.
    objective : int, optional
        Scaled objective of the assignment, recomputed from the problem in integers.
    bound : int, optional
        Lower bound on the scaled objective of every assignment, valid in integers.
    certificate : Certificate, optional
        Certificate from which `formulations.step.certificate.certified_bound` derives ``bound``
        again.
    seconds : Seconds
        Time by phase.
    nodes : int
        Nodes of the search tree.
    tie_rule : TieRule
        Rule that selects one of several optima.
    stopped_by_time, stopped_by_work : bool
        Whether the time limit, or the work limit, has ended a phase. If the time limit has, the
        assignment may depend on the machine.
    infeasible : bool
        Whether there is no assignment.
    ticks : int
        Ticks used (`formulations.deadline`).
    """

    method: str
    assignment: tuple[int | None, ...] | None
    objective: int | None
    bound: int | None
    certificate: Certificate | None = None
    seconds: Seconds = Seconds()
    nodes: int = 0
    tie_rule: TieRule = TieRule.BACKEND
    stopped_by_time: bool = False
    stopped_by_work: bool = False
    infeasible: bool = False
    ticks: int = 0

    @property
    def proven(self) -> bool:
        """Whether the objective equals the integer bound."""
        return self.objective is not None and self.objective == self.bound

    def to_step_result(self, problem: StepProblem) -> StepResult:
        """Return the result common to all solvers, checked against ``problem``."""
        found = self.assignment
        return StepResult(
            method="exact",
            termination=self._termination(),
            objective=self.objective,
            bound=None if self.infeasible else self.bound,
            bound_kind=BoundKind.INTEGER,
            assignment=found,
            violations={} if found is None else violations(problem, found, self.objective),
            seconds=self.seconds.total,
            compile_seconds=self.seconds.compile,
            tie_rule=self.tie_rule,
            scale=problem.scale,
            solver=own_solver(
                proof=self.method, nodes=self.nodes, stopped_by_time=self.stopped_by_time
            ),
            proof=self._proof(),
            ticks=self.ticks,
        )

    def _proof(self) -> str | None:
        """Return in words how optimality is proven, or None if it is not."""
        if not (self.proven or self.infeasible):
            return None
        is_bare = self.infeasible or self.certificate is None
        certified = "" if is_bare else ", which a certificate re-derives"
        return f"{_PROOFS.get(self.method, self.method)}, in integers{certified}"

    def _termination(self) -> Termination:
        if self.proven:
            return Termination.OPTIMAL
        if self.infeasible:
            return Termination.INFEASIBLE
        if self.stopped_by_time:
            return Termination.TIME_LIMIT
        if self.stopped_by_work:
            return Termination.WORK_LIMIT
        return Termination.FAILED if self.assignment is None else Termination.FEASIBLE
