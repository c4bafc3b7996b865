"""Rows that measure a predictor of output lengths on a trace: BalanceRoute, Table 3."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from bfio.common.options import LOOK_AHEAD, MAX_SHOWN, from_mapping, names_of
from bfio.common.plugins import users_digest
from bfio.prediction import registry as predictors
from bfio.prediction.evaluation import evaluate_predictor, split
from bfio.prediction.options import EvaluationOptions
from bfio.prediction.report import report_violations
from bfio.studies.row import RowContext, RowResult
from bfio.studies.row_kind import Described, Planned, descriptions, planned_kind
from bfio.studies.row_parts.arguments import Arguments, digest_of
from bfio.studies.row_parts.workload_arguments import (
    WORKLOAD_ARGUMENTS,
    WorkloadChoice,
    chosen_workload,
    request_facts,
    workload_choice,
)

#: Arguments of a row: those of requests, except multiples of slots, and of the evaluation.
ARGUMENTS = (
    *(name for name in WORKLOAD_ARGUMENTS if name not in ("requests_per_slot", "train_share")),
    *names_of(EvaluationOptions),
    "predictor",
    LOOK_AHEAD,
)
#: Values that are copied from the report under the same name.
VALUES = descriptions(
    """
    trained_on | requests | requests of the history
    evaluated_on | requests | requests of the evaluation
    points | | evaluated pairs of request and age
    base_rate | share | share of the points that end within the window
    auc | share | area under the ROC curve of the probability; None if there is one class only
    brier | share | mean squared error of the probability
    brier_base_rate | share | mean squared error of the base rate
    calibration_error | share | mean distance of stated and true frequencies over ten bins
    conditional_mae | steps | mean error of the conditional mean over points that end; None: none
    conditional_mae_constant | steps | least `conditional_mae` of a constant
    composite_mae | steps | mean error of the composite, against min(remaining, H)
    composite_mae_none | steps | `composite_mae` of the constant H
    composite_rmse | steps | root of the mean squared error of the composite
    composite_rmse_none | steps | `composite_rmse` of the constant H
    gated_mae | steps | mean error of the estimate used by the engine: gated, rounded up
    gate_open_share | share | share of the points whose probability is 1/2 or more
    """
)
_SERIES = descriptions(
    """
    stated | share | mean probability of each bin of the calibration curve, a series
    true | share | share of points of each bin that end within the window, a series
    mae_by_age | steps | conditional_mae by age where some end: 0 to 9, 10 to 19, ..., a series
    """
)
_TIMINGS = [
    Described("call_s", "s", "median time of a prediction for one request, a timing"),
    Described(
        "request_s", "s", "median time per request of a prediction for 64 requests, a timing"
    ),
]


def plan(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Return the planned computation of a row; see ``docs/row-kinds.md``."""
    given = Arguments(arguments, ARGUMENTS)
    # The evaluation splits the trace itself, after leaving out the excluded requests.
    whole = {name: value for name, value in given.given.items() if name != "train_share"}
    choice = workload_choice(replace(given, given=whole), 1, context)
    how = from_mapping(EvaluationOptions, given.given, seed=given.whole("seed", 0))
    predictor = given.text("predictor", "none")
    predictors.find(predictor)
    look_ahead = given.whole(LOOK_AHEAD, 20, minimum=1, maximum=MAX_SHOWN)
    facts = request_facts(choice)
    told = {LOOK_AHEAD: look_ahead} | {n: getattr(how, n) for n in names_of(EvaluationOptions)}
    own = users_digest(predictor) if predictors.is_own(predictor) else ""
    return Planned(
        digest_of(facts.digest, own) if own else facts.digest,
        partial(_compute, choice, predictor, look_ahead, how),
        draws=predictors.draws(predictor),
        setting={"requests": facts.used, "predictor": f"predictor {predictor}"}
        | {name: f"{name} {value}" for name, value in told.items() if value},
        meaning=(predictors.spelt_out(predictor), choice, how, look_ahead),
    )


def _compute(
    choice: WorkloadChoice, predictor: str, look_ahead: int, how: EvaluationOptions
) -> RowResult:
    requests = chosen_workload(choice)
    report = evaluate_predictor(requests, predictor, look_ahead, options=how)
    _, evaluated = split(requests, how)
    errors = [entry.conditional_mae for entry in report.by_age]
    return RowResult(
        {entry.name: getattr(report, entry.name) for entry in VALUES},
        {
            "stated": [entry.mean_probability for entry in report.calibration],
            "true": [entry.share_positive for entry in report.calibration],
            "mae_by_age": [error for error in errors if error is not None],
        },
        {"call_s": report.call_us * 1e-6, "request_s": report.request_us * 1e-6},
        violations=report_violations(report, evaluated.output_tokens),
    )


KIND = planned_kind(
    "predictor",
    "accuracy of an output-length predictor on a trace, in both stages",
    plan,
    [*VALUES, *_SERIES, *_TIMINGS],
)
