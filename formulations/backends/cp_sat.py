"""CP-SAT through ortools: integer arithmetic throughout, so its optimum is a proof."""

import importlib.util
import time
from typing import Any

import numpy as np

from formulations.arrays import FloatArray
from formulations.backends.interface import Outcome, Program, SolveLimits, require_integer_form
from formulations.deadline import Deadline
from formulations.errors import CapabilityError
from formulations.results import BoundKind, Termination
from formulations.standard_form import StandardForm
from formulations.work import CP_SAT_SECOND

#: CP-SAT keeps sums in 64-bit integers and refuses models that could leave them.
_MAX_SUM = 2.0**62
#: From here on a verdict of presolve is checked: CP-SAT 9.15 calls programs of sums from 10^13 on
#: infeasible that are not.
_LARGE_SUM = 2.0**40
#: Deterministic time of that check: without presolve a search may not end.
_CHECKED = 1.0


class CpSat:
    """The backend ``cp-sat``."""

    name = "cp-sat"
    proves_integers = True
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
            largest = _largest_sum(form)
            model, columns = _build(form)
            if hint is not None:
                for variable, value in zip(columns, hint.tolist(), strict=True):
                    model.add_hint(variable, round(value))
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = limits.threads
        solver.parameters.random_seed = limits.seed
        # Ctrl-C is for the caller; CP-SAT would swallow it and return what it has.
        solver.parameters.catch_sigint_signal = False
        if deadline.left_or_none is not None:
            solver.parameters.max_time_in_seconds = deadline.left
        if limits.work_limit is not None:
            solver.parameters.max_deterministic_time = limits.work_limit / CP_SAT_SECOND
        began = time.perf_counter()
        status = checked_solve(solver, model, largest, _listening(columns, limits))
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
            bound=_integer_bound(solver, form, status == cp_model.OPTIMAL),
            bound_kind=BoundKind.INTEGER,
            seconds=seconds,
            details={
                "name": "CP-SAT",
                "version": __version__,
                "status": solver.status_name(status),
                "options": {"num_workers": limits.threads, "random_seed": limits.seed},
            },
            ticks=round(solver.response_proto.deterministic_time * CP_SAT_SECOND),
        )


def checked_solve(solver: Any, model: Any, largest: float, listening: Any = None) -> Any:
    """Solve a model; if it is said to be infeasible and its sums are large, without presolve too.

    Parameters
    ----------
    solver, model
        Of CP-SAT.
    largest : float
        What no sum of the model exceeds.
    listening : optional
        Callback that hears of solutions.

    Returns
    -------
    CpSolverStatus
        The status that counts; unknown where the check does not end.
    """
    from ortools.sat.python import cp_model

    status = solver.solve(model, listening)
    if status == cp_model.INFEASIBLE and largest >= _LARGE_SUM:
        limit = solver.parameters.max_deterministic_time
        solver.parameters.max_deterministic_time = min(limit, _CHECKED)
        solver.parameters.cp_model_presolve = False
        status = solver.solve(model, listening)
    return status


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
    if deadline.left_or_none is None and work_limit is None:
        # The check of a doubtful verdict did not end.
        return Termination.FAILED
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


def _largest_sum(form: StandardForm) -> float:
    """Return what no row's sum exceeds; refuse a program whose sums overflow CP-SAT's integers."""
    reach = np.maximum(np.abs(form.lower), np.abs(form.upper))
    rows = abs(form.matrix) @ reach
    largest = max(float(rows.max(initial=0.0)), float(np.abs(form.objective) @ reach))
    if largest >= _MAX_SUM:
        raise CapabilityError(
            "program", f"sums could reach {largest:.1e}", "use smaller loads or weights"
        )
    return largest


def _clipped(bound: float) -> int:
    if np.isinf(bound):
        return -(2**62) if bound < 0 else 2**62
    return int(bound)


def _integer_bound(solver: Any, form: StandardForm, proven: bool) -> int | None:
    """Return the lower bound, offset included; only its printing makes CP-SAT's a float."""
    bound = float(solver.objective_value if proven else solver.best_objective_bound)
    # A float64 holds the integer exactly below 2^53; beyond, a claim would rest on rounding.
    if not np.isfinite(bound) or abs(bound) >= 2.0**53:
        return None
    return round(bound) + int(form.offset)
