"""Measures of probabilities: against brute force, and against scikit-learn where it is."""

from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.prediction.report import (
    brier_score,
    calibration,
    calibration_error,
    roc_auc,
    roc_curve,
)
from formulations.arrays import BoolArray, FloatArray

# Few levels, so that ties are the rule.
POINTS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0]), st.booleans()),
    min_size=1,
    max_size=40,
)


def _arrays(points: list[tuple[float, bool]]) -> tuple[FloatArray, BoolArray]:
    scores, positive = zip(*points, strict=True)
    return np.array(scores), np.array(positive)


@given(POINTS)
def test_the_area_is_the_share_of_pairs_in_order(points: list[tuple[float, bool]]) -> None:
    """Over all pairs of a positive and a negative, ties as one half; None without a pair."""
    scores, positive = _arrays(points)
    pairs = [(p, n) for p in scores[positive] for n in scores[~positive]]
    found = roc_auc(scores, positive)
    if not pairs:
        assert found is None
        return
    halves = sum(2 * (p > n) + (p == n) for p, n in pairs)
    assert found == halves / (2 * len(pairs))


@given(POINTS)
def test_the_area_is_that_below_the_curve(points: list[tuple[float, bool]]) -> None:
    """By trapezoids; the curve goes up from (0, 0) to (1, 1)."""
    scores, positive = _arrays(points)
    if len(set(positive.tolist())) < 2:
        return
    false, true = roc_curve(scores, positive)
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)
    assert np.all(np.diff(false) >= 0)
    assert np.all(np.diff(true) >= 0)
    assert np.trapezoid(true, false) == pytest.approx(roc_auc(scores, positive))
    assert len(roc_curve(scores, positive, 3)[0]) <= 3


@pytest.mark.skipif(find_spec("sklearn") is None, reason="scikit-learn is not installed")
@given(POINTS)
def test_area_and_score_are_those_of_scikit_learn(points: list[tuple[float, bool]]) -> None:
    """Where both classes occur."""
    from sklearn.metrics import brier_score_loss, roc_auc_score

    scores, positive = _arrays(points)
    assert brier_score(scores, positive) == pytest.approx(
        brier_score_loss(positive, scores, pos_label=True)
    )
    if len(set(positive.tolist())) == 2:
        assert roc_auc(scores, positive) == pytest.approx(roc_auc_score(positive, scores))


def test_calibration_by_hand() -> None:
    """0.1 is in the second bin and 1 in the last; the error weighs bins by points."""
    stated = np.array([0.0, 0.1, 0.15, 1.0])
    curve = calibration(stated, np.array([False, True, False, True]))
    assert [(e.lower, e.count, e.share_positive) for e in curve] == [
        (0.0, 1, 0.0),
        (0.1, 2, 0.5),
        (0.9, 1, 1.0),
    ]
    assert curve[1].mean_probability == pytest.approx(0.125)
    # (1·0 + 2·0.375 + 1·0) / 4.
    assert calibration_error(curve) == pytest.approx(0.1875)
