"""CP-SAT through ortools: integer arithmetic, trusted in the range where enumeration confirms it.

The *reach* of a program is the largest sum of |coefficient| times |value| that a row or the
objective can have. CP-SAT 9.15 calls wrong values optimal, feasible programs infeasible, and gives
bounds above the optimum: its presolve errs on reaches of 1.6 · 2^31 and more (or-tools issue
5293). Two ranges were compared with enumeration (tests/formulations/proofs):

- reach below 2^30: with presolve;
- from there to 2^50: without presolve.

From 2^50 on its word proves nothing, as without presolve it errs from 2^53 on; from 2^62 on the
program is refused. A claim that a checked solution refutes is no proof in any range
(`formulations.formulation`).
"""

import importlib.util
import time
from typing import Any

import numpy as np

from formulations.arrays import FloatArray
from formulations.backends.interface import Outcome, Program, SolveLimits, require_integer_form
from formulations.deadline import Deadline
from formulations.errors import CapabilityError
from formulations.results import BoundKind, Termination
from formulations.standard_form import EXACT_LIMIT, StandardForm
from formulations.work import CP_SAT_SECOND

#: CP-SAT keeps sums in 64-bit integers and refuses models that could leave them.
_MAX_SUM = 2.0**62
#: Presolve is left out from this reach on.
_PRESOLVED_REACH = 2.0**30
#: From this reach on nothing is proven.
_PROVEN_REACH = 2.0**50


class CpSat:
    """The backend ``cp-sat``."""

    name = "cp-sat"
    continuous = False

    def available(self) -> bool:
        """Whether ortools is installed."""
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
            raise CapabilityError(
                "program", "CP-SAT refuses it as invalid", "use smaller loads or weights"
            )
        in_hand = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
        values = np.array([solver.value(v) for v in columns], dtype=np.float64)
        return Outcome(
            termination=_termination(solver.status_name(status), deadline, limits.work_limit),
            values=values if in_hand else None,
            # Without a solution CP-SAT gives 0 where it knows no bound, which says nothing.
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
    """Return whether what `trusted_solver` proves counts for a program of this reach."""
    return reach < _PROVEN_REACH


def trusted_solver(reach: float, limits: SolveLimits) -> Any:
    """Return CP-SAT with the parameters under which its word counts for a program.

    Parameters
    ----------
    reach : float
        What no sum of the program exceeds.
    limits : SolveLimits
        Seed and threads.

    Returns
    -------
    CpSolver
        Without limits of time and work.
    """
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = limits.threads
    solver.parameters.random_seed = limits.seed
    solver.parameters.cp_model_presolve = reach < _PRESOLVED_REACH
    # Ctrl-C is for the caller; CP-SAT would swallow it and return what it has.
    solver.parameters.catch_sigint_signal = False
    return solver


def _listening(columns: list[Any], limits: SolveLimits) -> Any:
    """Return the callback that passes better points on; None if nobody wants them."""
    from ortools.sat.python import cp_model

    if limits.found is None:
        return None
    found = limits.found

    class Listening(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
        """Hears of each better point."""

        def on_solution_callback(self) -> None:
            """Pass it on."""
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
    """Return the reach; refuse a program whose sums overflow CP-SAT's integers."""
    reach = form.reach()
    if reach >= _MAX_SUM:
        raise CapabilityError(
            "program", f"sums could reach {reach:.1e}", "use smaller loads or weights"
        )
    return reach


def _clipped(bound: float) -> int:
    if np.isinf(bound):
        return -(2**62) if bound < 0 else 2**62
    return int(bound)


def _integer_bound(solver: Any, form: StandardForm, proven: bool) -> int | None:
    """Return the lower bound, offset included; only its printing makes CP-SAT's a float."""
    bound = float(solver.objective_value if proven else solver.best_objective_bound)
    # A float64 holds the integer exactly below 2^53; beyond, a claim would rest on rounding.
    if not abs(bound) < EXACT_LIMIT:
        return None
    return round(bound) + int(form.offset)
