"""HiGHS through highspy: fast, but its floating-point bounds prove nothing by themselves.

Presolve is off. With it HiGHS 1.13.1 called a wrong value optimal on 2 of 1,349 random step
problems, one of them with three requests of at most 8472 tokens; without it on none, for about a
third more time. Tighter tolerances made it worse (10 of 1,349).
"""

import importlib.util
import time
from typing import Any

import numpy as np

from formulations.arrays import FloatArray
from formulations.backends.interface import Limits, Outcome, Program
from formulations.results import BoundKind, Termination
from formulations.standard_form import StandardForm


class Highs:
    """The backend ``highs``."""

    name = "highs"
    proves_integers = False
    continuous = True

    def available(self) -> bool:
        """Whether highspy is installed."""
        return importlib.util.find_spec("highspy") is not None

    def solve(self, program: Program, limits: Limits, hint: FloatArray | None) -> Outcome:
        """Solve the standard form by branch and cut (or simplex, if it is continuous)."""
        import highspy

        form = program.standard_form
        solver = highspy.Highs()
        options = self._options(limits)
        for name, value in options.items():
            solver.setOptionValue(name, value)
        solver.passModel(_model(form))
        if hint is not None:
            start = highspy.HighsSolution()
            start.col_value = hint.tolist()
            solver.setSolution(start)
        began = time.perf_counter()
        solver.run()
        seconds = time.perf_counter() - began
        return self._outcome(solver, form, seconds, options)

    @staticmethod
    def _options(limits: Limits) -> dict[str, Any]:
        options: dict[str, Any] = {
            "output_flag": False,
            "threads": limits.threads,
            "random_seed": limits.seed,
            "presolve": "off",
            # The default gap of 1e-4 would call anything within 0.01 % optimal.
            "mip_rel_gap": 0.0,
        }
        if limits.time_limit is not None:
            options["time_limit"] = limits.time_limit
        return options

    @staticmethod
    def _outcome(
        solver: Any, form: StandardForm, seconds: float, options: dict[str, Any]
    ) -> Outcome:
        import highspy

        status = solver.getModelStatus()
        info = solver.getInfo()
        in_hand = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        # HiGHS reports the dual bound of a continuous program in the objective alone.
        bound = info.mip_dual_bound if form.integral.any() else info.objective_function_value
        proven = status == highspy.HighsModelStatus.kOptimal
        known = np.isfinite(bound) and (proven or form.integral.any())
        return Outcome(
            termination=_TERMINATIONS.get(status.name, Termination.FAILED),
            values=np.array(solver.getSolution().col_value) if in_hand else None,
            bound=float(bound) if known else None,
            bound_kind=BoundKind.FLOAT,
            seconds=seconds,
            details={
                "name": "HiGHS",
                "version": solver.version(),
                "status": solver.modelStatusToString(status),
                "options": options,
            },
        )


_TERMINATIONS = {
    "kOptimal": Termination.OPTIMAL,
    "kInfeasible": Termination.INFEASIBLE,
    "kTimeLimit": Termination.TIME_LIMIT,
}


def _model(form: StandardForm) -> Any:
    import highspy

    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = form.num_columns, form.num_rows
    lp.col_cost_, lp.offset_ = form.objective, form.offset
    lp.col_lower_, lp.col_upper_ = form.lower, form.upper
    lp.row_lower_, lp.row_upper_ = form.row_lower, form.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = form.matrix.indptr
    lp.a_matrix_.index_ = form.matrix.indices
    lp.a_matrix_.value_ = form.matrix.data
    kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    lp.integrality_ = [kinds[int(flag)] for flag in form.integral]
    return lp
