"""The backend CP-SAT (ortools): integer arithmetic, trusted up to a tested size of numbers.

The *reach* of a program is the largest sum of |coefficient| times |value| that a row or the
objective can have. At reaches of 1.6 · 2^31 and more, the presolve of CP-SAT 9.15 has errors
(or-tools issue 5293): it reports wrong optima, false infeasibility and bounds above the optimum.
Two ranges were compared with enumeration (tests/formulations/proofs):

- reach below 2^30: with presolve;
- from there to 2^50: without presolve.

For a reach of 2^50 or more, claims of CP-SAT prove nothing: it errs from 2^53 on even without
presolve. A program with a reach of 2^62 or more is refused. A claim that a checked solution
refutes is rejected for every reach (`formulations.formulation`).
"""

import importlib.util
import time
from typing import Any

import numpy as np

from formulations.arrays import FloatArray
from formulations.backends.interface import Outcome, Program, SolveLimits, require_integer_form
from formulations.deadline import CP_SAT_SECOND, Deadline
from formulations.errors import CapabilityError
from formulations.results import BoundKind, Termination
from formulations.standard_form import EXACT_LIMIT, StandardForm

#: CP-SAT keeps sums in 64-bit integers and refuses models that could overflow.
_MAX_SUM = 2.0**62
#: Presolve is off from this reach on.
_PRESOLVED_REACH = 2.0**30
#: From this reach on, claims of CP-SAT prove nothing.
_PROVEN_REACH = 2.0**50


class CpSat:
    """The backend ``cp-sat``."""

    name = "cp-sat"
    continuous = False

    def available(self) -> bool:
        """Return whether ortools is installed."""
        return importlib.util.find_spec("ortools") is not None

    def load(self) -> None:
        """Import ortools."""
        from ortools.sat.python import cp_model  # noqa: F401

    def solve(self, program: Program, limits: SolveLimits, hint: FloatArray | None) -> Outcome:
        """Solve the standard form; every variable must be an integer with finite bounds."""
        from ortools import __version__
        from ortools.sat.python import cp_model

        deadline = limits.deadline
        form = program.standard_form
        with deadline.interrupting():
            require_integer_form(form, self.name)
            reach = _reach(form)
            model, columns = _build(form)
            if hint is not None:
                for variable, value in zip(columns, hint.tolist(), strict=True):
                    model.add_hint(variable, round(value))
        solver = trusted_solver(reach, limits)
        if deadline.left_or_none is not None:
            solver.parameters.max_time_in_seconds = deadline.left
        if limits.work_limit is not None:
            solver.parameters.max_deterministic_time = limits.work_limit / CP_SAT_SECOND
        began = time.perf_counter()
        status = solver.solve(model, _listening(columns, limits))
        seconds = time.perf_counter() - began
        if status == cp_model.MODEL_INVALID:
            what = "CP-SAT rejects it, probably because its numbers are too large"
            raise CapabilityError("program", what, "use smaller loads or weights")
        in_hand = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
        values = np.array([solver.value(v) for v in columns], dtype=np.float64)
        return Outcome(
            termination=_termination(solver.status_name(status), deadline, limits.work_limit),
            values=values if in_hand else None,
            # Without a solution, CP-SAT reports 0 for an unknown bound, so it is ignored.
            bound=_integer_bound(solver, form, status == cp_model.OPTIMAL) if in_hand else None,
            bound_kind=BoundKind.INTEGER if is_trusted(reach) else BoundKind.FLOAT,
            seconds=seconds,
            details={
                "name": "CP-SAT",
                "version": __version__,
                "status": solver.status_name(status),
                "options": {
                    "num_workers": limits.threads,
                    "random_seed": limits.seed,
                    "cp_model_presolve": solver.parameters.cp_model_presolve,
                },
            },
            ticks=round(solver.response_proto.deterministic_time * CP_SAT_SECOND),
        )


def is_trusted(reach: float) -> bool:
    """Return whether claims of `trusted_solver` count as proven for a program of this reach."""
    return reach < _PROVEN_REACH


def trusted_solver(reach: float, limits: SolveLimits) -> Any:
    """Return CP-SAT with the parameters under which its claims are trusted.

    Parameters
    ----------
    reach : float
        Upper bound on the absolute value of every row sum and of the objective.
    limits : SolveLimits
        Seed and threads.

    Returns
    -------
    CpSolver
        The solver, with no time or work limit set.
    """
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = limits.threads
    solver.parameters.random_seed = limits.seed
    solver.parameters.cp_model_presolve = reach < _PRESOLVED_REACH
    # Leave Ctrl-C to the caller; CP-SAT would catch it and return its current solution.
    solver.parameters.catch_sigint_signal = False
    return solver


def _listening(columns: list[Any], limits: SolveLimits) -> Any:
    """Return the solver callback that passes improved solutions to ``limits.found``, if any."""
    from ortools.sat.python import cp_model

    if limits.found is None:
        return None
    found = limits.found

    class Listening(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
        """Callback that passes each improved solution to ``limits.found``."""

        def on_solution_callback(self) -> None:
            """Pass the current solution to ``limits.found``."""
            found(np.array([self.value(v) for v in columns], dtype=np.float64))

    return Listening()


def _termination(status: str, deadline: Deadline, work_limit: int | None) -> Termination:
    if status == "OPTIMAL":
        return Termination.OPTIMAL
    if status == "INFEASIBLE":
        return Termination.INFEASIBLE
    late = work_limit is None or deadline.is_over
    return Termination.TIME_LIMIT if late else Termination.WORK_LIMIT


def _build(form: StandardForm) -> tuple[Any, list[Any]]:
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    bounds = zip(form.lower, form.upper, form.column_names, strict=True)
    columns = [model.new_int_var(int(lo), int(up), name) for lo, up, name in bounds]
    matrix = form.matrix
    for r in range(form.num_rows):
        cells = slice(matrix.indptr[r], matrix.indptr[r + 1])
        variables = [columns[j] for j in matrix.indices[cells]]
        coefficients = [int(a) for a in matrix.data[cells]]
        row = cp_model.LinearExpr.weighted_sum(variables, coefficients)
        model.add_linear_expression_in_domain(
            row, cp_model.Domain(_clipped(form.row_lower[r]), _clipped(form.row_upper[r]))
        )
    used = np.flatnonzero(form.objective)
    model.minimize(
        cp_model.LinearExpr.weighted_sum(
            [columns[j] for j in used], [int(form.objective[j]) for j in used]
        )
    )
    return model, columns


def _reach(form: StandardForm) -> float:
    """Return the reach of a program; raise if its sums overflow CP-SAT's 64-bit integers."""
    reach = form.reach()
    if reach >= _MAX_SUM:
        what = f"row sums could reach {reach:.1e}, above 2^62"
        raise CapabilityError("program", what, "use smaller loads or weights")
    return reach


def _clipped(bound: float) -> int:
    if np.isinf(bound):
        return -(2**62) if bound < 0 else 2**62
    return int(bound)


def _integer_bound(solver: Any, form: StandardForm, proven: bool) -> int | None:
    """Return CP-SAT's lower bound plus the offset, as an integer; None if unusable."""
    bound = float(solver.objective_value if proven else solver.best_objective_bound)
    # float64 represents integers exactly only below 2^53; larger bounds may be rounded.
    if not abs(bound) < EXACT_LIMIT:
        return None
    return round(bound) + int(form.offset)
