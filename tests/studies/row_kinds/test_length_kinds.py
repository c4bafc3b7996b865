"""Rows about lengths: predictors and geometric outputs, against what Python gives."""

from pathlib import Path
from typing import Any

import pytest

import bfio
from bfio.prediction.geometric import geometric_fit
from bfio.studies import kinds
from bfio.studies.row import RowContext
from formulations.errors import InputError
from tests.studies.here import compute_row

HERE = RowContext(Path())
SMALL: dict[str, Any] = {"synthetic": "demo", "requests": 200}


def test_a_predictor_row_is_its_report() -> None:
    """Values of the evaluation; what a clock measures is apart."""
    row = compute_row("predictor", **SMALL, predictor="noisy-oracle:0.3", horizon=8, every=5)
    load = bfio.synthetic("demo", 200, 0)
    report = bfio.evaluate_predictor(load, "noisy-oracle:0.3", 8, every=5)
    assert {name: getattr(report, name) for name in row.values} == row.values
    assert row.values["auc"] is not None
    assert row.violations == {}
    halved = compute_row("predictor", **SMALL, predictor="none", train_share=0.25)
    assert (halved.values["trained_on"], halved.values["evaluated_on"]) == (50, 150)
    assert set(row.timings) == {"call_s", "request_s"}
    assert sum(row.series["stated"]) > 0


def test_a_geometric_row_is_its_fit() -> None:
    """With the verdict in words."""
    row = compute_row("geometric-outputs", **SMALL)
    fit = geometric_fit(bfio.synthetic("demo", 200, 0).output_tokens)
    assert row.values["distance"] == fit.distance
    assert row.values["verdict"] == fit.verdict
    assert row.values["residual_mean"] == fit.residuals[1]
    assert row.values["most_hazard"] == max(e.hazard for e in fit.ages) / fit.p


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("predictor", {"predictor": "orcle"}, "'orcle' is unknown; did you mean oracle"),
        ("predictor", {"horizon": 0}, "argument horizon: 0 is out of range"),
        ("predictor", {"train_share": 2}, "argument train_share: 2 is out of range"),
        ("predictor", {"evry": 2}, "argument evry: unknown; did you mean every"),
        ("geometric-outputs", {"horizon": 3}, "argument horizon: unknown"),
    ],
)
def test_slips_stop_a_study_before_its_first_row(
    kind: str, arguments: dict[str, Any], message: str
) -> None:
    """While it is planned."""
    with pytest.raises(InputError, match=message):
        kinds.find(kind).instance({**SMALL, **arguments}, HERE)
