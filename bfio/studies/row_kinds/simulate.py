"""Rows that simulate one policy on one workload."""

import json
from collections.abc import Mapping
from typing import Any

from bfio.decode.replay import run_violations
from bfio.studies.row import Context, RowResult
from bfio.studies.row_kind import RowKind
from bfio.studies.row_kinds.arguments import Arguments
from bfio.studies.row_kinds.row_instance import row_instance
from bfio.studies.row_kinds.run_arguments import (
    MACHINE_ARGUMENTS,
    POLICY_ARGUMENTS,
    RUN_ARGUMENTS,
    run_plan,
)
from bfio.studies.row_kinds.run_values import run_series, run_solves, run_timings, run_values
from bfio.studies.row_kinds.workload_arguments import (
    WORKLOAD_ARGUMENTS,
    chosen_workload,
    workload_choice,
)

#: Arguments of a row.
ARGUMENTS = (*WORKLOAD_ARGUMENTS, *MACHINE_ARGUMENTS, *RUN_ARGUMENTS, *POLICY_ARGUMENTS)


def compute(arguments: Mapping[str, Any], context: Context) -> RowResult:
    """Run the engine; see ``docs/row-kinds.md`` for arguments and values."""
    given = Arguments(arguments, ARGUMENTS)
    plan = run_plan(given)
    workload = chosen_workload(workload_choice(given, plan.cluster.total_slots, context))
    run = plan.run(workload)
    solves = run_solves(run)
    return RowResult(
        values=run_values(run, plan.energy, plan.warm_up),
        series=run_series(run),
        timings=run_timings(run),
        solves=solves.asked,
        unproven=solves.unproven,
        violations=run_violations(run, workload, plan.cluster),
        stopped_by_clock=solves.unproven > 0,
        log=json.dumps(dict(run.statistics)) if context.want_log else "",
    )


def instance(arguments: Mapping[str, Any], context: Context) -> str:
    """Check all arguments and return the digest of the requests."""
    given = Arguments(arguments, ARGUMENTS)
    plan = run_plan(given)
    return row_instance(given, [plan], context)


KIND = RowKind(
    name="simulate",
    summary="one policy on one workload: every metric, whole and steady",
    compute=compute,
    instance=instance,
)
