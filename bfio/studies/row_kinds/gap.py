"""Rows that solve the steps of a run and compare the policy's decisions with the optima."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from bfio.common.options import from_mapping
from bfio.decode.option_kinds import MAX_HORIZON
from bfio.decode.policies.bf_io import BFIOOptions
from bfio.decode.replay import run_violations
from bfio.gap import GapObserver, GapReport, StepRegret, observed_run
from bfio.step.exact import prepare
from bfio.studies.row import RowContext, RowResult, Value
from bfio.studies.row_kind import Planned, descriptions, planned_kind
from bfio.studies.row_parts.arguments import Arguments
from bfio.studies.row_parts.runs import (
    ARGUMENTS,
    PARTS,
    TIMINGS,
    RunPlan,
    run_plan,
    run_solves,
    runs_digest,
)
from formulations.arrays import BoolArray, IntArray
from formulations.scalars import exact_rational

#: Options of the step program, shared with the policy `bf-io`.
_OF_PROGRAM = ("objective", "work_limit", "time_limit")
VALUES = descriptions(
    """
    decisions | decisions | decisions of the policy in the run
    solved | decisions | decisions solved
    proven | decisions | decisions solved with a proof
    unproven | decisions | decisions solved without a proof
    proven_share | share | share of the solved decisions whose optimum was proven
    proven_decisions | decisions | proven decisions except the first; the next values cover these
    share_optimal | share | share of proven decisions that were optimal
    regret_mean | tokens | mean regret: objective minus optimum for as many admitted requests
    regret_median | tokens | median regret
    regret_p99 | tokens | 99th percentile of the regret
    regret_max | tokens | largest regret
    optimum_mean | tokens | mean optimum per step
    relative_regret | 1 | sum of regrets over sum of optima
    regret | tokens | objective minus optimum for as many admitted requests (under `cold.`)
    regret_at_most | tokens | objective minus the best bound of the optimum (under `cold.`)
    objective | tokens | objective of the decision (under `cold.`)
    is_proven | | whether the optimum was proven (under `cold.`)
    certified_gap_mean | tokens | mean of objective minus the best proven bound, over all solved
    certified_gap_max | tokens | largest difference of objective and best proven bound
    relative_certified_gap | 1 | sum of certified gaps over sum of objectives, over all solved
    regrets | tokens | regret of each proven decision, a series
    """
)


def plan(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Return the planned computation of a row; see ``docs/row-kinds.md``."""
    given = Arguments(arguments, (*ARGUMENTS, "method", "gap_horizon", "gap_gamma", "every"))
    run = run_plan(given, context, reads=_OF_PROGRAM)
    make = partial(_observer, given)
    look_ahead = make().horizon
    return Planned(
        runs_digest(run),
        lambda: _compute(run, make(), context.want_log),
        run.draws(look_ahead),
        run.setting(),
        *run.told(look_ahead=look_ahead),
        unread=run.unread,
    )


def _compute(plan: RunPlan, observer: GapObserver, want_log: bool) -> RowResult:
    # Load the kernels first, so that their loading does not count as solve time.
    prepare()
    run = observed_run(
        plan.workload,
        plan.policy.text,
        plan.cluster,
        [observer],
        observer.horizon,
        policy_options=plan.policy_options,
        engine=plan.engine,
        options=plan.found_options,
    )
    report, own = observer.report(), run_solves(run)
    unproven = sum(row.optimum is None for row in report.rows)
    lines = (
        f"step {row.step}: {row.admitted} of {row.waiting} admitted, objective {row.objective}, "
        f"optimum {row.optimum}, bound {row.bound}, {row.seconds * 1e3:.3f} ms"
        for row in report.rows
    )
    return RowResult(
        values=gap_values(report, run.steady_mask(plan.warm_up), run.measured_steps),
        series={"regrets": [regret / report.scale for regret in report.regrets()]},
        timings={"wall_s": run.wall_s, "solve_s": sum(row.seconds for row in report.rows)},
        solves=len(report.rows) + own.asked,
        unproven=unproven + own.unproven,
        violations=run_violations(run, plan.workload, plan.cluster),
        stopped_by_clock=own.clocked > 0 or any(row.is_clocked for row in report.rows),
        log="\n".join(lines) if want_log else "",
    )


def gap_values(
    report: GapReport,
    steady_steps: BoolArray | None = None,
    measured_steps: IntArray | None = None,
) -> dict[str, Value]:
    """Return counts and distributions of the regret.

    Parameters
    ----------
    report : GapReport
        Every solved decision of a run.
    steady_steps : BoolArray, optional
        Shape (K,): whether each step of the run is steady, `Run.steady_mask`; None for none.
    measured_steps : IntArray, optional
        Indices of the measured steps of the run (`bfio.decode.measured`); None for none.

    Returns
    -------
    dict
        ``decisions``, ``solved``, ``proven``, ``unproven``, ``proven_share`` and certified gaps
        over all decisions. Values of the first decision, with all slots free, have the prefix
        ``cold.``; statistics over all later decisions have no prefix, over measured steps
        ``measured.``, over steady steps ``steady.``. Regrets and optima are in tokens.
    """
    cold: dict[str, Value] = dict.fromkeys(("is_proven", "regret", "regret_at_most", "objective"))
    for row in report.rows[:1]:
        cold |= {"is_proven": row.optimum is not None, "objective": row.objective / report.scale}
        if row.regret is not None:
            cold["regret"] = row.regret / report.scale
        if row.bound is not None:
            cold["regret_at_most"] = (row.objective - row.bound) / report.scale
    later = [row for row in report.rows[1:] if row.optimum is not None]
    measured = set() if measured_steps is None else set(measured_steps.tolist())
    parts = {
        "measured.": [row for row in later if row.step in measured],
        "steady.": [row for row in later if steady_steps is not None and steady_steps[row.step]],
    }
    proven = len(report.regrets())
    gaps = [gap / report.scale for gap in report.certified_gaps()]
    return {
        "decisions": report.num_decisions,
        "solved": len(report.rows),
        "proven": proven,
        "unproven": len(report.rows) - proven,
        "proven_share": proven / len(report.rows) if report.rows else None,
        "certified_gap_mean": sum(gaps) / len(gaps) if gaps else None,
        "certified_gap_max": max(gaps, default=None),
        "relative_certified_gap": report.relative_certified_gap(),
        **_distribution(later, report.scale),
        **{
            f"{prefix}{name}": value
            for prefix, rows in parts.items()
            for name, value in _distribution(rows, report.scale).items()
        },
        **{f"cold.{name}": value for name, value in cold.items()},
    }


def _distribution(rows: Sequence[StepRegret], scale: int) -> dict[str, Value]:
    """Summarise the regrets of proven decisions; all values are None without one."""
    names = ("share_optimal", "regret_mean", "regret_median", "regret_p99", "regret_max")
    if not rows:
        empty = dict.fromkeys((*names, "optimum_mean", "relative_regret"))
        return {"proven_decisions": 0, **empty}
    regrets = [(row.regret or 0) / scale for row in rows]
    regret, optimum = sum(regrets), sum((row.optimum or 0) / scale for row in rows)
    return {
        "proven_decisions": len(rows),
        "share_optimal": sum(value == 0 for value in regrets) / len(rows),
        "regret_mean": regret / len(rows),
        "regret_median": float(np.median(regrets)),
        "regret_p99": float(np.percentile(regrets, 99)),
        "regret_max": max(regrets),
        "optimum_mean": optimum / len(rows),
        "relative_regret": regret / optimum if optimum else None,
    }


def _observer(given: Arguments) -> GapObserver:
    own = {name: given.given[name] for name in _OF_PROGRAM if given.has(name)}
    options = from_mapping(BFIOOptions, own)
    return GapObserver(
        method=given.text("method", "exact"),
        horizon=given.whole("gap_horizon", 0, maximum=MAX_HORIZON),
        gamma=exact_rational(given.rational("gap_gamma", "1"), "argument gap_gamma"),
        every=given.whole("every", 1, minimum=1),
        **{name: getattr(options, name) for name in _OF_PROGRAM},
    )


KIND = planned_kind(
    "gap",
    "decisions of a policy against the proven optimum of each step",
    plan,
    [*VALUES, *TIMINGS],
    {
        **PARTS,
        "cold.": "of the first decision, with all slots free",
    },
)
