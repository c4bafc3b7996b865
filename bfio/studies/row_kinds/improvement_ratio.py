"""Rows that set the imbalance of two policies against each other, as theorems on BF-IO do."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from bfio.decode.batch_means import half_widths
from bfio.decode.metrics import Value, measure, measure_steady
from bfio.decode.replay import run_violations
from bfio.decode.run import Run
from bfio.decode.saturated import measure_saturated, saturated_mask
from bfio.studies.row import Context, RowResult
from bfio.studies.row_kind import RowKind
from bfio.studies.row_kinds.arguments import Arguments
from bfio.studies.row_kinds.row_instance import row_instance
from bfio.studies.row_kinds.run_arguments import RunPlan, run_plan
from bfio.studies.row_kinds.run_values import run_solves, run_timings
from bfio.studies.row_kinds.simulate import ARGUMENTS as RUN_OF_A_POLICY
from bfio.studies.row_kinds.workload_arguments import chosen_workload, workload_choice
from formulations.arrays import BoolArray
from formulations.errors import InputError

Measure: TypeAlias = Callable[[Run], Mapping[str, Value] | None]
Mask: TypeAlias = Callable[[Run], BoolArray | None]

DEFAULT_BASELINE = "fcfs"
#: Arguments of a row.
ARGUMENTS = (*RUN_OF_A_POLICY, "baseline")


def compute(arguments: Mapping[str, Any], context: Context) -> RowResult:
    """Run both policies on the same requests; see ``docs/row-kinds.md``."""
    given = Arguments(arguments, ARGUMENTS)
    plans = _plans(given)
    cluster = plans["policy"].cluster
    workload = chosen_workload(workload_choice(given, cluster.total_slots, context))
    runs = {role: plan.run(workload) for role, plan in plans.items()}
    solves = [run_solves(run) for run in runs.values()]
    unproven = sum(count.unproven for count in solves)
    return RowResult(
        values=ratio_values(runs["baseline"], runs["policy"], plans["policy"].warm_up),
        timings={
            f"{role}.{name}": seconds
            for role, run in runs.items()
            for name, seconds in run_timings(run).items()
        },
        solves=sum(count.asked for count in solves),
        unproven=unproven,
        violations={
            f"{role}.{rule}": amount
            for role, run in runs.items()
            for rule, amount in run_violations(run, workload, cluster).items()
        },
        stopped_by_clock=unproven > 0,
    )


def ratio_values(baseline: Run, policy: Run, warm_up: int = 0) -> dict[str, Value]:
    """Return the improvement ratio IIR of two runs, whole and in parts, against ``√(B log G)``.

    Parameters
    ----------
    baseline, policy : Run
        Runs on the same requests and machine.
    warm_up : int
        Steps at the beginning that the saturated part leaves out.

    Returns
    -------
    dict
        ``sqrt_b_log_g``, and for the whole run and under ``steady.`` and ``saturated.``:
        ``iir`` (AvgImbalance of the baseline over that of the policy, BF-IO, section 5; None if
        the latter is 0 or missing), ``iir_over_sqrt_b_log_g``, its inverse
        ``relative_imbalance``, 0 for perfect balance, and both imbalances [tokens]; for the parts
        also ``iir.half_width``.
    """
    scale = math.sqrt(policy.cluster.slots * math.log(policy.cluster.workers))
    values: dict[str, Value] = {"sqrt_b_log_g": scale}
    for prefix, (part, mask) in _parts(warm_up).items():
        before, after = (_imbalance(part(run)) for run in (baseline, policy))
        ratio = _quotient(before, after)
        values |= {
            f"{prefix}iir": ratio,
            f"{prefix}iir_over_sqrt_b_log_g": _quotient(ratio, scale),
            f"{prefix}relative_imbalance": _quotient(after, before),
            f"{prefix}baseline.avg_imbalance": before,
            f"{prefix}policy.avg_imbalance": after,
        }
        if mask is not None:
            values[f"{prefix}iir.half_width"] = _half_width(ratio, (baseline, policy), mask)
    return values


def _parts(warm_up: int) -> Mapping[str, tuple[Measure, Mask | None]]:
    """Return the parts of a run by prefix of their values: how to measure and to find them."""
    return {
        "": (measure, None),
        "steady.": (measure_steady, Run.steady_mask),
        "saturated.": (
            partial(measure_saturated, warm_up=warm_up),
            partial(saturated_mask, warm_up=warm_up),
        ),
    }


def _half_width(ratio: Value, runs: Sequence[Run], mask: Mask) -> float | None:
    """Propagate the intervals of two means to their ratio: relative errors add as squares.

    That takes the runs as independent. They serve the same requests, so it errs on the wide side.
    """
    relative = []
    for run in runs:
        steps = mask(run)
        width = half_widths(run, steps)["avg_imbalance"]
        if width is None or steps is None:
            return None
        imbalance = run.cluster.workers * run.max_load[steps] - run.total_load[steps]
        if not imbalance.any():
            return None
        relative.append(width / float(imbalance.mean()))
    return None if ratio is None else ratio * math.hypot(*relative)


def _imbalance(metrics: Mapping[str, Value] | None) -> Value:
    return None if metrics is None else metrics["avg_imbalance"]


def _quotient(numerator: Value, denominator: Value) -> float | None:
    return None if numerator is None or not denominator else numerator / denominator


def _plans(given: Arguments) -> dict[str, RunPlan]:
    return {
        "baseline": run_plan(given, given.text("baseline", DEFAULT_BASELINE)),
        "policy": run_plan(given),
    }


def instance(arguments: Mapping[str, Any], context: Context) -> str:
    """Check all arguments and return the digest of the requests."""
    given = Arguments(arguments, ARGUMENTS)
    plans = list(_plans(given).values())
    if plans[0].cluster.workers < 2:
        raise InputError("argument workers", "one worker is always balanced", "use 2 or more")
    return row_instance(given, plans, context)


KIND = RowKind(
    name="improvement-ratio",
    summary="imbalance of a baseline over that of a policy, and what theory says of it",
    compute=compute,
    instance=instance,
)
