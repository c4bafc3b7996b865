"""Rows that simulate one policy on one workload."""

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from bfio.decode.metrics import chosen_metrics, named_metrics
from bfio.studies.row import RowContext, RowResult
from bfio.studies.row_kind import Planned, descriptions, planned_kind
from bfio.studies.row_parts.arguments import Arguments
from bfio.studies.row_parts.runs import (
    MEASURED_ARGUMENTS,
    PARTS,
    RUN_VALUES,
    TIMINGS,
    RunPlan,
    run_plan,
    run_series,
    run_solves,
    run_timings,
    run_values,
    runs_digest,
)

VALUES = descriptions(
    """
    is_drained | | whether every request completed
    proven_share | share | share of the solved steps whose optimum was proven; None: no solve
    second_proven_share | share | share of the solved steps with a proven second optimum, if sought
    imbalance | tokens | G·max load - total load of each step (BF-IO eq. 2), a series
    max_load | tokens | load of the fullest worker in each step, a series
    mean_load | tokens | mean load of the workers in each step, a series
    """
)


def plan(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Return the planned computation of a row; see ``docs/row-kinds.md``."""
    given = Arguments(arguments, (*MEASURED_ARGUMENTS, "metrics"))
    names = named_metrics(given.optional_text("metrics")) or []
    run = replace(run_plan(given, context), metrics=tuple(names))
    if names:
        chosen_metrics(names, run.options.arrivals)
    return Planned(
        runs_digest(run),
        partial(_compute, run, context.want_log),
        run.draws(),
        run.setting(),
        *run.told(),
        run.meaning,
        run.unread,
    )


def _compute(plan: RunPlan, want_log: bool) -> RowResult:
    run = plan.run()
    measured = plan.measured_run(run)
    solves = run_solves(measured)
    # Built-in metrics are always measured.
    table = chosen_metrics(plan.metrics or None, plan.options.arrivals).table
    return RowResult(
        values=run_values(run, plan.energy, plan.warm_up, table, measured),
        series=run_series(run),
        timings=run_timings(measured),
        solves=solves.asked,
        unproven=solves.unproven,
        violations=plan.violations(run, measured),
        stopped_by_clock=solves.clocked > 0,
        log=json.dumps(dict(run.statistics)) if want_log else "",
    )


KIND = planned_kind(
    "simulate",
    "simulation of one policy: all metrics of the whole run and of the measured part",
    plan,
    [*VALUES, *TIMINGS],
    PARTS,
    RUN_VALUES,
)
