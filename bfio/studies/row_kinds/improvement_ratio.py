"""Rows that measure the improvement ratio of two policies, as in the theorems of BF-IO."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from bfio.common.metrics import Value
from bfio.common.statistics import half_width
from bfio.decode.run import Run
from bfio.studies.row import RowContext, RowResult
from bfio.studies.row_kind import MEASURED_PART, STEADY, Planned, descriptions, planned_kind
from bfio.studies.row_parts.arguments import Arguments, quotient, refused
from bfio.studies.row_parts.runs import (
    MEASURED_ARGUMENTS,
    PARTS,
    RUN_VALUES,
    TIMINGS,
    RunPlan,
    run_plan,
    run_solves,
    run_timings,
    runs_digest,
)

DEFAULT_BASELINE = "fcfs"
_OF = {"baseline.": "of the baseline", "policy.": "of the policy"}
VALUES = descriptions(
    """
    sqrt_b_log_g | 1 | √(B ln G), the growth in theorems 1 and 2 of BF-IO
    iir | 1 | AvgImbalance of the baseline / that of the policy; None if the latter is 0
    iir_over_sqrt_b_log_g | 1 | `iir` / √(B ln G)
    """
)


def plan(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Return the planned computation of a row; see ``docs/row-kinds.md``."""
    given = Arguments(arguments, (*MEASURED_ARGUMENTS, "baseline"))
    baseline = run_plan(given, context, given.text("baseline", DEFAULT_BASELINE))
    policy = run_plan(given, context)
    if policy.cluster.workers < 2:
        raise refused("workers", "one worker is always balanced", "use 2 or more")
    plans = {"baseline": baseline, "policy": policy}
    # Without draws in either run, rows that differ only in the seed are repetitions.
    draws = baseline.draws() or policy.draws()
    return Planned(
        runs_digest(baseline, policy),
        partial(_compute, plans),
        draws,
        policy.setting(baseline),
        *policy.told(baseline),
        (baseline.meaning, policy.meaning),
        # An argument is unread only if neither run reads it.
        {name: error for name, error in policy.unread.items() if name in baseline.unread},
    )


def _compute(plans: Mapping[str, RunPlan]) -> RowResult:
    policy = plans["policy"]
    runs = {role: plan.run() for role, plan in plans.items()}
    measured = {role: plan.measured_run(runs[role]) for role, plan in plans.items()}
    solves = [run_solves(run) for run in measured.values()]
    unproven = sum(count.unproven for count in solves)
    return RowResult(
        values=ratio_values(
            runs["baseline"], runs["policy"], policy.warm_up, tuple(measured.values())
        ),
        timings={
            f"{role}.{name}": seconds
            for role, run in measured.items()
            for name, seconds in run_timings(run).items()
        },
        solves=sum(count.asked for count in solves),
        unproven=unproven,
        violations={
            f"{role}.{rule}": amount
            for role, run in runs.items()
            for rule, amount in plans[role].violations(run, measured[role]).items()
        },
        stopped_by_clock=any(count.clocked for count in solves),
    )


def ratio_values(
    baseline: Run, policy: Run, warm_up: int = 0, measured: Sequence[Run] = ()
) -> dict[str, Value]:
    """Return the improvement ratio IIR of two runs and its parts, also relative to ``√(B ln G)``.

    Parameters
    ----------
    baseline, policy : Run
        Runs on the same requests and machine.
    warm_up : int
        Steps at the beginning that are excluded from the steady part.
    measured : sequence of Run
        The two runs for the measured part, if the requests were repeated for it.

    Returns
    -------
    dict
        ``sqrt_b_log_g``, and for the whole run and under ``measured.`` and ``steady.``: ``iir``
        (AvgImbalance of the baseline over that of the policy, BF-IO, section 5; None if the latter
        is 0 or missing), ``iir_over_sqrt_b_log_g``, and both imbalances [tokens]. Parts also have
        ``iir.half_width``.
    """
    slots = policy.cluster.alike("slots", "improvement-ratio")
    scale = math.sqrt(slots * math.log(policy.cluster.workers))
    values: dict[str, Value] = {"sqrt_b_log_g": scale}
    for prefix in ("", MEASURED_PART, STEADY):
        series = []
        for run in measured if measured and prefix == MEASURED_PART else (baseline, policy):
            steps: Any = slice(None)
            if prefix:
                is_steady = prefix == STEADY
                steps = run.steady_mask(warm_up) if is_steady else run.measured_steps
            series.append(None if steps is None or run.steps == 0 else run.imbalance[steps])
        before, after = (None if part is None else float(part.mean()) for part in series)
        ratio = quotient(before, after)
        values |= {
            f"{prefix}iir": ratio,
            f"{prefix}iir_over_sqrt_b_log_g": quotient(ratio, scale),
            f"{prefix}baseline.avg_imbalance": before,
            f"{prefix}policy.avg_imbalance": after,
        }
        if prefix:
            relative = []
            for part, mean in zip(series, (before, after), strict=True):
                width = None if part is None else half_width(part)
                relative.append(quotient(width, mean))
            # Errors of a ratio of independent means: relative half widths add in squares.
            known = [error for error in relative if error is not None]
            error = None
            if ratio is not None and len(known) == len(relative):
                error = ratio * math.hypot(*known)
            values[f"{prefix}iir.half_width"] = error
    return values


KIND = planned_kind(
    "improvement-ratio",
    "ratio of a baseline's imbalance to a policy's, and its growth in theory",
    plan,
    [*VALUES, *(entry for entry in RUN_VALUES if entry.name == "avg_imbalance"), *TIMINGS],
    PARTS | _OF,
)
