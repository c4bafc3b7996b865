"""Rows that test whether output lengths are geometric."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from bfio.prediction.geometric import geometric_fit
from bfio.studies.row import RowContext, RowResult, Value
from bfio.studies.row_kind import Planned, descriptions, planned_kind
from bfio.studies.row_parts.arguments import Arguments
from bfio.studies.row_parts.workload_arguments import (
    WORKLOAD_ARGUMENTS,
    WorkloadChoice,
    chosen_workload,
    request_facts,
    workload_choice,
)

#: Arguments of a row: those of requests, except multiples of slots and a training share.
ARGUMENTS = tuple(
    name for name in WORKLOAD_ARGUMENTS if name not in ("requests_per_slot", "train_share")
)
VALUES = descriptions(
    """
    lengths | | number of fitted output lengths
    output_mean | tokens | mean output length, 1/p of the fit
    distance | share | Kolmogorov-Smirnov distance to the geometric law of that mean
    critical | share | distance exceeded by 5 % of geometric samples of this size, each fitted
    p_value | share | probability that such a sample has at least this distance, 1/400 at least
    rejected | | whether the distance exceeds the critical value
    trend | | change of the hazard with age: rises, (mostly) falls, rises and falls, flat
    verdict | | summary in one sentence
    least_hazard | 1 | least hazard of a bin of ages times the mean; 1 at all ages if geometric
    most_hazard | 1 | greatest hazard of a bin of ages times the mean
    residual_half | 1 | mean residual life at half the mean length over the mean; 1 if geometric
    residual_mean | 1 | `residual_half` at the mean length instead of half of it
    residual_twice | 1 | `residual_half` at twice the mean length
    """
)
#: Values that are fields of the fit.
_OF_THE_FIT = ("distance", "critical", "p_value", "trend", "verdict")


def plan(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Return the planned computation of a row; see ``docs/row-kinds.md``."""
    choice = workload_choice(Arguments(arguments, ARGUMENTS), 1, context)
    facts = request_facts(choice)
    setting = {"requests": facts.used}
    return Planned(facts.digest, partial(_compute, choice), draws=False, setting=setting)


def _compute(choice: WorkloadChoice) -> RowResult:
    fit = geometric_fit(chosen_workload(choice).output_tokens, "outputs")
    hazards = [entry.hazard / fit.p for entry in fit.ages]
    half, mean, twice = fit.residuals
    values: dict[str, Value] = {
        "lengths": fit.count,
        "output_mean": 1 / fit.p,
        **{name: getattr(fit, name) for name in _OF_THE_FIT},
        "rejected": fit.is_rejected,
        "least_hazard": min(hazards),
        "most_hazard": max(hazards),
        "residual_half": half,
        "residual_mean": mean,
        "residual_twice": twice,
    }
    return RowResult(values)


KIND = planned_kind(
    "geometric-outputs",
    "test of geometric output lengths; hazard and residual life by age",
    plan,
    VALUES,
)
