"""The backend HiGHS (highspy), whose floating-point bounds do not prove an integer optimum.

HiGHS 1.13.1 reports a false optimum on about 2 of 1,000 random step problems, some with two
requests (tests/formulations/test_false_optimum.py). Without presolve other problems fail; tighter
tolerances give more false optima. A claimed optimum z of an integer program is therefore
challenged: runs without presolve search for a point of cost at most z − 1 until none is found. The
challenge is no proof, so the bound counts as a float.
"""

import importlib.util
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from formulations.arrays import FloatArray
from formulations.backends.interface import Outcome, Program, SolveLimits, require_float_range
from formulations.deadline import ITERATION, NODE, count_within
from formulations.results import BoundKind, Termination
from formulations.standard_form import StandardForm

#: Time limit of a challenge, unless there is a work limit, which also applies to challenges: this
#: multiple of the time of the challenged run, but at least the second constant [s].
_CHALLENGE_RATIO = 5.0
_CHALLENGE_SECONDS = 1.0
#: Time per step of dual fixing [s], and the share of the time limit that presolve may take.
_SECONDS_PER_ENTRY = 2.5e-8
_PRESOLVE_SHARE = 0.5


class Highs:
    """The backend ``highs``.

    Parameters
    ----------
    challenge : bool
        Whether to challenge claimed optima; False, for measurements, accepts the first run.
    """

    name = "highs"
    continuous = True

    def __init__(self, *, challenge: bool = True) -> None:
        self._challenges = challenge

    def available(self) -> bool:
        """Return whether highspy is installed."""
        return importlib.util.find_spec("highspy") is not None

    def load(self) -> None:
        """Import highspy."""
        import highspy  # noqa: F401

    def solve(self, program: Program, limits: SolveLimits, hint: FloatArray | None) -> Outcome:
        """Solve the standard form by branch and cut (or simplex, if it is continuous)."""
        form = program.standard_form
        require_float_range(form, "HiGHS")
        limits = replace(limits, time_limit=limits.deadline)
        options = _options(limits)
        if _presolve_seconds(form) > _PRESOLVE_SHARE * limits.deadline.left:
            # Presolve ignores the time limit and would exceed it by far.
            options["presolve"] = "off"
        outcome = _run(form, options, hint, limits.found)
        if self._challenges and form.is_integer:
            return _challenged(form, outcome, limits)
        return outcome


def _presolve_seconds(form: StandardForm) -> float:
    """Estimate the time of dual fixing in presolve [s].

    For each column without cost, dual fixing scans all rows of the column in full.
    """
    entries = np.diff(form.matrix.indptr)
    free = form.objective[form.matrix.indices] == 0
    return _SECONDS_PER_ENTRY * float(np.repeat(entries, entries)[free].sum())


def _challenged(form: StandardForm, outcome: Outcome, limits: SolveLimits) -> Outcome:
    """Challenge a claimed optimum until no better point is found; count the refuted claims."""
    refuted = 0
    while outcome.termination is Termination.OPTIMAL:
        better = _better(form, outcome, limits)
        if better.values is None:
            # A challenge that ran out of time has not confirmed the claim.
            stands = better.termination is Termination.INFEASIBLE
            details = {**outcome.details, "refuted_claims": refuted, "challenged": stands}
            return replace(_after(better, outcome, outcome), details=details)
        refuted += 1
        outcome = _after(better, outcome, better)
    return outcome


def _after(second: Outcome, first: Outcome, kept: Outcome) -> Outcome:
    """Return the outcome ``kept`` with the seconds and ticks of both runs added up."""
    ticks = (first.ticks or 0) + (second.ticks or 0)
    return replace(kept, seconds=first.seconds + second.seconds, ticks=ticks)


def _better(form: StandardForm, outcome: Outcome, limits: SolveLimits) -> Outcome:
    """Search for a point whose cost is at least 1 below the claimed optimum."""
    assert outcome.values is not None
    claimed = round(float(form.objective @ np.round(outcome.values)))
    left = limits.deadline.left
    if limits.work_limit is None:
        left = min(left, max(_CHALLENGE_SECONDS, _CHALLENGE_RATIO * outcome.seconds))
    options = _options(replace(limits, time_limit=left)) | {"presolve": "off"}
    return _run(_with_cutoff(form, claimed - 1.0), options, None)


def _with_cutoff(form: StandardForm, most: float) -> StandardForm:
    """Return the form with the row ``objective · x <= most``."""
    from scipy.sparse import csr_array, vstack

    return replace(
        form,
        matrix=csr_array(vstack([form.matrix, csr_array(form.objective[None, :])])),
        row_lower=np.append(form.row_lower, -np.inf),
        row_upper=np.append(form.row_upper, most),
        row_names=(*form.row_names, "cutoff"),
    )


def _options(limits: SolveLimits) -> dict[str, Any]:
    options: dict[str, Any] = {
        "output_flag": False,
        "threads": limits.threads,
        "random_seed": limits.seed,
        # With the default gap of 1e-4, any point within 0.01 % would count as optimal.
        "mip_rel_gap": 0.0,
    }
    if (left := limits.deadline.left_or_none) is not None:
        options["time_limit"] = left
    if limits.work_limit is not None:
        options["mip_max_nodes"] = count_within(limits.work_limit, NODE)
        options["simplex_iteration_limit"] = count_within(limits.work_limit, ITERATION)
    return options


def _run(
    form: StandardForm,
    options: dict[str, Any],
    hint: FloatArray | None,
    found: Callable[[FloatArray], None] | None = None,
) -> Outcome:
    import highspy

    solver = highspy.Highs()
    for name, value in options.items():
        solver.setOptionValue(name, value)
    solver.passModel(_model(form))
    if hint is not None:
        start = highspy.HighsSolution()
        start.col_value = hint.tolist()
        solver.setSolution(start)
    if found is not None:
        solver.cbMipImprovingSolution.subscribe(
            lambda event: found(np.array(event.data_out.mip_solution))
        )
    began = time.perf_counter()
    solver.run()
    return _outcome(solver, form, time.perf_counter() - began, options)


def _outcome(solver: Any, form: StandardForm, seconds: float, options: dict[str, Any]) -> Outcome:
    import highspy

    status = solver.getModelStatus()
    info = solver.getInfo()
    in_hand = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    # For a continuous program, HiGHS reports the bound only as the objective.
    discrete = bool(form.integral.any())
    bound = info.mip_dual_bound if discrete else info.objective_function_value
    known = np.isfinite(bound) and (discrete or status == highspy.HighsModelStatus.kOptimal)
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
        ticks=_ticks(info, discrete),
    )


def _ticks(info: Any, discrete: bool) -> int:
    # HiGHS reports a count of -1 if it did nothing.
    if discrete:
        return NODE * max(0, int(info.mip_node_count))
    return ITERATION * max(0, int(info.simplex_iteration_count))


_TERMINATIONS = {
    "kOptimal": Termination.OPTIMAL,
    "kInfeasible": Termination.INFEASIBLE,
    "kTimeLimit": Termination.TIME_LIMIT,
    "kIterationLimit": Termination.WORK_LIMIT,
    "kSolutionLimit": Termination.WORK_LIMIT,
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
