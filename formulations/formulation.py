"""The base class of all integer programs, and the rules for accepting answers of backends.

A formulation is one package: ``problem.py`` (data, a `ProblemData`), ``program.py`` (the statement
in Pyomo, opened by its mathematics), ``check.py`` (a checker that knows the data only), and
``solver.py``, where a `Formulation` combines them and may write the statement as arrays, for
speed. ``problem.py`` also defines the result, a `ProgramResult`; ``check.py`` also has a
brute-force oracle. Integer bounds may be in ``bound.py``. This module solves by a backend and
decides which claims of a backend are accepted.
"""

import math
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np

from formulations.arrays import FloatArray
from formulations.backends import (
    Outcome,
    SolveLimits,
    WrittenProgram,
    backend,
    check_method,
    run_backend,
)
from formulations.deadline import FIRST_GRACE_S, Deadline, OutOfTime, TimeLimit
from formulations.errors import CapabilityError, InputError
from formulations.problem_data import shown
from formulations.results import BoundKind, ProgramResult, Termination, own_solver
from formulations.statement import P, Statement

#: Solution and result of a formulation.
S = TypeVar("S")
R = TypeVar("R", bound=ProgramResult[Any])

NO_LIMITS = SolveLimits()
#: Terminations that rest on a proof.
_PROVEN = (Termination.OPTIMAL, Termination.INFEASIBLE)


class Formulation(Statement[P], Generic[P, S, R]):
    """The integer program of one problem: statement, standard form, checks and bounds.

    Parameters
    ----------
    problem
        Data.
    """

    #: Class of the answers.
    result: type[R]
    #: Whether every problem has a solution, so that "infeasible" is an error.
    always_feasible = False

    # Required of each formulation.

    @abstractmethod
    def solution_at(self, values: FloatArray) -> S:
        """Return the solution at a point, shape (n,), in the column order of the standard form."""

    @abstractmethod
    def objective_value(self, solution: S) -> int:
        """Return the objective of a solution in integers."""

    @abstractmethod
    def violations(self, solution: S, objective: int | None = None) -> dict[str, int]:
        """Return each constraint that a solution violates, and the amount."""

    # Optional for each formulation.

    def lower_bound(self) -> int:
        """Return an integer bound on the objective of every solution, derived without a solver."""
        raise NotImplementedError

    def point_of(self, solution: S) -> FloatArray | None:
        """Return the point of the standard form for a solution; None if there is no such point."""
        return None

    def brute_force(self) -> tuple[int, S] | None:
        """Return the optimum and an optimal solution by enumeration; None if infeasible."""
        raise CapabilityError(
            "method", "this program has no brute-force solver", 'use method="cp-sat"'
        )

    def settled(self, method: str) -> R | None:
        """Return the result if there is nothing to decide, e.g. no requests; otherwise None."""
        return None

    def fields_of(self, solution: S | None) -> dict[str, Any]:
        """Return the result fields for a solution."""
        return self.result.fields_of(solution)

    # Derived from the methods above.

    @classmethod
    def solve(
        cls,
        problem: P,
        *,
        backend: str = "cp-sat",
        time_limit: TimeLimit = None,
        hint: S | None = None,
        seed: int = 0,
        work_limit: int | None = None,
    ) -> R:
        """Solve the program of a problem with a backend.

        Parameters
        ----------
        problem
            Data.
        backend : str
            ``cp-sat``, ``highs``, ``pyomo``, ``pyomo:SOLVER``, or ``lp`` (the bound of the linear
            relaxation, without a solution).
        time_limit : float or Deadline, optional
            Wall-clock seconds to bound, write and solve the program.
        hint : optional
            A feasible solution to start from; an infeasible one is ignored.
        seed : int
            Random seed of the solver.
        work_limit : int, optional
            Ticks (`formulations.deadline`).

        Returns
        -------
        ProgramResult
            Optimal only if the objective, recomputed in integers, equals a bound derived in
            integers: CP-SAT's, or the program's own `lower_bound`.

        Raises
        ------
        InputError
            If the backend is unknown.
        CapabilityError
            If the program is too large to write, or the solver cannot be limited by work.
        """
        limits = SolveLimits(time_limit, seed, work_limit=work_limit)
        return cls(problem).solved(backend, limits, hint)

    def solved(
        self, method: str = "cp-sat", limits: SolveLimits = NO_LIMITS, hint: S | None = None
    ) -> R:
        """Solve this program with a backend; see `solve`."""
        hint = self._usable(method, limits, hint)
        if (answer := self.settled(method)) is not None:
            proven = "there being nothing to choose" if answer.termination in _PROVEN else None
            return replace(answer, solver=own_solver(), proof=proven)
        is_relaxed = method == "lp"
        solver = backend("highs" if is_relaxed else method)
        deadline, lower, began = limits.deadline, None, time.perf_counter()
        try:
            with deadline.interrupting(0.0 if is_relaxed else FIRST_GRACE_S):
                lower = self.lower_bound()
                if is_relaxed:
                    _ = self.standard_form
            if is_relaxed:
                return self._relaxed(lower, deadline)
            deadline.found(lambda: self._nothing(method, lower))
            found = self._listener(deadline, method, lower)
            outcome, compile_seconds = run_backend(
                solver,
                self,
                replace(limits, time_limit=deadline, found=found),
                lambda: None if hint is None else self.point_of(hint),
            )
            outcome = self._confirmed(outcome, replace(limits, time_limit=deadline))
        except OutOfTime:
            return self._nothing(method, lower, time.perf_counter() - began)
        solution = None if outcome.values is None else self.solution_at(outcome.values)
        objective = None if solution is None else self.objective_value(solution)
        known = (self._checked_value(one) for one in (solution, hint))
        least = min((value for value in known if value is not None), default=None)
        outcome = trusted_outcome(outcome, least)
        bound, kind = trusted_bound(outcome, lower, objective)
        return self.answer(
            solution,
            outcome.termination,
            bound,
            kind,
            objective=objective,
            method=method,
            seconds=outcome.seconds,
            compile_seconds=compile_seconds,
            solver=dict(outcome.details)
            | {"finished": outcome.termination is Termination.OPTIMAL},
            proof=proof_of(outcome, bound, lower),
            ticks=outcome.ticks,
        )

    def _relaxed(self, lower: int, deadline: Deadline) -> R:
        """Return the bound of the linear relaxation: HiGHS's value, rounded up within 1e-6."""
        # If the relaxation is infeasible, so is the program.
        outcome = self._confirmed(self._relaxation(deadline), SolveLimits(deadline))
        if outcome.termination is not Termination.OPTIMAL:
            outcome = trusted_outcome(outcome, None)
            stopped = (Termination.TIME_LIMIT, Termination.INFEASIBLE)
            said = outcome.termination if outcome.termination in stopped else Termination.FAILED
            return self.answer(
                None,
                said,
                lower,
                method="lp",
                seconds=outcome.seconds,
                solver=outcome.details,
                proof=proof_of(outcome, lower, lower),
            )
        bound, kind = trusted_bound(outcome, lower, None)
        return self.answer(
            None,
            Termination.RELAXED,
            bound,
            kind,
            method="lp",
            seconds=outcome.seconds,
            solver=outcome.details,
        )

    def _usable(self, method: str, limits: SolveLimits, hint: S | None) -> S | None:
        """Return the hint if it is feasible; refuse options that the linear relaxation ignores."""
        for where, value in (("hint", hint), ("work_limit", limits.work_limit)):
            if value is not None and method == "lp":
                what = "has no effect on the linear relaxation (lp)"
                raise CapabilityError(where, what, "leave it out")
        return hint if is_feasible(hint, self.violations) else None

    def _checked_value(self, solution: S | None) -> int | None:
        """Return the objective of a solution in integers; None if it is missing or infeasible."""
        if solution is None or self.violations(solution):
            return None
        return self.objective_value(solution)

    def _confirmed(self, outcome: Outcome, limits: SolveLimits) -> Outcome:
        """Solve with CP-SAT if a backend claims infeasibility without an integer proof."""
        unproven = outcome.bound_kind is not BoundKind.INTEGER
        if outcome.termination is not Termination.INFEASIBLE or not unproven:
            return outcome
        form = self.standard_form
        any_point = WrittenProgram(replace(form, objective=np.zeros(form.num_columns)))
        try:
            asked = backend("cp-sat").solve(any_point, replace(limits, found=None), None)
        except CapabilityError:
            return outcome
        if asked.termination is not Termination.INFEASIBLE:
            return outcome
        details = {**outcome.details, "confirmed_by": name_of(asked)}
        return replace(outcome, bound_kind=asked.bound_kind, details=details)

    def _misstated(self, solution: S, objective: int | None) -> dict[str, int]:
        """Return the error of a claimed objective as a violation; empty if it is correct."""
        error = 0 if objective is None else abs(objective - self.objective_value(solution))
        return {"objective": error} if error else {}

    def _listener(
        self, deadline: Deadline, method: str, bound: int | None
    ) -> Callable[[FloatArray], None] | None:
        """Return the callback for improved solutions; None if nobody watches the deadline."""
        if not deadline.is_watched:
            return None

        def found(values: FloatArray) -> None:
            solution = self.solution_at(values)
            deadline.found(
                lambda: self.answer(solution, Termination.TIME_LIMIT, bound, method=method)
            )

        return found

    def _nothing(self, method: str, bound: int | None, seconds: float = 0.0) -> R:
        """Return the result of a solve that reached its time limit without a solution."""
        return self.answer(None, Termination.TIME_LIMIT, bound, method=method, seconds=seconds)

    @classmethod
    def solve_by(
        cls,
        problem: P,
        method: str,
        *,
        time_limit: TimeLimit = None,
        seed: int = 0,
        work_limit: int | None = None,
        own: Mapping[str, Callable[[], R]] | None = None,
    ) -> R:
        """Solve by a backend, by enumeration, or by one of the methods in ``own``.

        Parameters
        ----------
        problem
            Data.
        method : str
            A name in ``own``, ``brute-force`` (tiny problems), ``lp``, or a backend, see `solve`.
        time_limit : float or Deadline, optional
            Seconds for a backend or for enumeration.
        seed : int
            Random seed of a backend.
        work_limit : int, optional
            Ticks for a backend (`formulations.deadline`).
        own : mapping, optional
            The caller's methods by name.

        Raises
        ------
        InputError
            If the method is unknown, or the seed no integer from 0 to 2^31 - 1.
        CapabilityError
            If the problem is too large for a backend or for enumeration.
        """
        cls.check_problem(problem)
        limits = SolveLimits(Deadline.of(time_limit), seed, work_limit=work_limit)
        methods = dict(own or {})
        methods.setdefault(
            "brute-force",
            lambda: cls.solve_by_enumeration(problem, time_limit=limits.time_limit),
        )
        check_method(method, (*methods, "lp"))
        if method in methods:
            return methods[method]()
        return cls(problem).solved(method, limits)

    @classmethod
    def solve_by_enumeration(cls, problem: P, *, time_limit: TimeLimit = None) -> R:
        """Solve a tiny problem by `brute_force`; ties go to the smallest solution."""
        program = cls(problem)
        began = time.perf_counter()
        try:
            with Deadline.of(time_limit).interrupting():
                best = program.brute_force()
        except OutOfTime:
            return program._nothing("brute-force", None, time.perf_counter() - began)
        return program.enumerated(best, time.perf_counter() - began)

    def enumerated(
        self, best: tuple[int, S] | None, seconds: float, method: str = "brute-force"
    ) -> R:
        """Return the result of a complete enumeration that found the optimum ``best``."""
        report: dict[str, Any] = {"method": method, "seconds": seconds, "solver": own_solver()}
        report["proof"] = "enumeration of all solutions"
        if best is None:
            return self.answer(None, Termination.INFEASIBLE, None, **report)
        objective, solution = best
        return self.answer(solution, Termination.OPTIMAL, objective, objective=objective, **report)

    def answer(
        self,
        solution: S | None,
        said: Termination,
        bound: int | None,
        kind: BoundKind = BoundKind.INTEGER,
        *,
        objective: int | None = None,
        proof: str | None = None,
        **report: Any,
    ) -> R:
        """Check a solution and return the result.

        Parameters
        ----------
        solution : optional
            The solution, if any.
        said : Termination
            The termination that its source claims.
        bound : int, optional
            A lower bound.
        kind : BoundKind
            Whether the bound was derived in integers.
        objective : int, optional
            Claimed objective, which the checker verifies; recomputed by default.
        proof : str, optional
            The argument that proves the bound or infeasibility.
        report
            Other fields of the result: ``method``, run times and solver details.

        Returns
        -------
        ProgramResult
            Optimal if the solution meets an integer bound; failed, with the violations named, if
            it is infeasible.
        """
        violations: dict[str, int] = {}
        if solution is not None:
            objective = self.objective_value(solution) if objective is None else objective
            violations = self.violations(solution, objective)
        termination = trusted_termination(
            said,
            proven=bound is not None and is_proven(objective, bound, kind),
            broken=bool(violations),
            always_feasible=self.always_feasible,
        )
        return self.result(
            termination=termination,
            objective=objective,
            bound=None if termination is Termination.INFEASIBLE else bound,
            bound_kind=kind,
            violations=violations,
            proof=proof if termination in _PROVEN else None,
            scale=self.units,
            **self.fields_of(solution),
            **report,
        )


#: Text for results whose optimality is proven by our own `lower_bound`.
COMBINATORIAL = "a combinatorial bound, derived in integers"


def is_feasible(hint: S | None, violated: Callable[[S], object]) -> bool:
    """Return whether a hint of the user is a feasible solution.

    Raises
    ------
    InputError
        If the checker ``violated`` cannot read the hint, e.g. because it has another length.
    """
    if hint is None:
        return False
    try:
        if not isinstance(hint, str):
            return not violated(hint)
    except (AttributeError, IndexError, TypeError, ValueError):
        pass
    what = f"{shown(hint)} is not a solution of this problem"
    raise InputError("hint", what, "give the solution of a result")


def trusted_outcome(outcome: Outcome, known: int | None) -> Outcome:
    """Return a backend's outcome without the claims that a checked solution refutes.

    Parameters
    ----------
    outcome : Outcome
        Outcome of the backend.
    known : int, optional
        Least objective of the checked solutions known so far, from any source.

    Returns
    -------
    Outcome
        A claim of infeasibility is kept only if it is proven and no solution is known. A bound
        above a known objective is dropped, and the details record this.
    """
    in_integers = outcome.bound_kind is BoundKind.INTEGER
    if outcome.termination is Termination.INFEASIBLE and not (in_integers and known is None):
        outcome = replace(outcome, termination=Termination.FAILED, bound=None)
        if known is None:
            return replace(outcome, details={**outcome.details, "claimed": "infeasible"})
    elif not in_integers or known is None or outcome.bound is None or outcome.bound <= known:
        return outcome
    return replace(outcome, bound=None, details={**outcome.details, "refuted": True})


def trusted_bound(outcome: Outcome, own: int, objective: int | None) -> tuple[int, BoundKind]:
    """Return the best known lower bound, and whether it was derived in integers.

    Parameters
    ----------
    outcome : Outcome
        Outcome of the backend.
    own : int
        The bound of this project, derived in integers.
    objective : int, optional
        Objective of the checked solution.

    Returns
    -------
    tuple of int and BoundKind
        The kind is FLOAT only if the backend's bound exceeds every bound derived in integers.
    """
    if outcome.bound is None:
        return own, BoundKind.INTEGER
    if outcome.bound_kind is BoundKind.INTEGER:
        return max(own, int(outcome.bound)), BoundKind.INTEGER
    slack = 1e-6 * max(1.0, abs(outcome.bound))
    claimed = math.ceil(outcome.bound - slack)
    if objective is not None:
        claimed = min(claimed, objective)
    if claimed <= own:
        return own, BoundKind.INTEGER
    return claimed, BoundKind.FLOAT


def proof_of(outcome: Outcome, bound: int, own: int) -> str:
    """Return the text that names the proof of a bound: this project's bound or the backend's.

    Parameters
    ----------
    outcome : Outcome
        Outcome of the backend.
    bound : int
        The best known bound, see `trusted_bound`.
    own : int
        The bound of this project.
    """
    name = str(outcome.details.get("confirmed_by") or name_of(outcome))
    if outcome.termination is Termination.INFEASIBLE:
        return f"{name}, which finds no solution"
    if bound == own:
        return COMBINATORIAL
    return f"the bound of {name}, derived in integers"


def name_of(outcome: Outcome) -> str:
    """Return name and version of the solver that gave an outcome."""
    return f"{outcome.details.get('name')} {outcome.details.get('version')}"


def is_proven(objective: int | None, bound: int, kind: BoundKind) -> bool:
    """Return whether an objective equals a bound derived in integers."""
    return objective is not None and objective == bound and kind is BoundKind.INTEGER


def trusted_termination(
    said: Termination, *, proven: bool, broken: bool, always_feasible: bool = False
) -> Termination:
    """Return the termination that a result may state.

    Parameters
    ----------
    said : Termination
        The termination that the backend claims.
    proven : bool
        Whether the objective equals an integer bound, see `is_proven`.
    broken : bool
        Whether the checker rejected the solution.
    always_feasible : bool
        Whether every problem of the program has a solution, so that "infeasible" is an error.
    """
    if broken or (always_feasible and said is Termination.INFEASIBLE):
        return Termination.FAILED
    if proven:
        return Termination.OPTIMAL
    # A floating-point solver's "optimal" is a claim without proof.
    return Termination.FEASIBLE if said is Termination.OPTIMAL else said
