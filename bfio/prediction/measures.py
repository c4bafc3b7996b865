"""Measures of probabilities against what happened: ROC, Brier score, calibration.

They are written here, since scikit-learn is an extra; tests compare.
"""

from dataclasses import dataclass

import numpy as np

from formulations.arrays import BoolArray, FloatArray, IntArray

#: Bins of calibration curves, equally wide.
CALIBRATION_BINS = 10


def roc_auc(scores: FloatArray, positive: BoolArray) -> float | None:
    """Return the area under the ROC curve; None if only one class occurs.

    It is the share of pairs of a positive and a negative in which the positive has the higher
    score, equal scores counting one half; computed by ranks, exactly but for the last division.

    Parameters
    ----------
    scores : FloatArray
        Shape (n,).
    positive : BoolArray
        Shape (n,).
    """
    positives = int(np.count_nonzero(positive))
    negatives = len(positive) - positives
    if not positives or not negatives:
        return None
    _, level, counts = np.unique(scores, return_inverse=True, return_counts=True)
    # Twice the mean rank of equal scores: first rank plus last rank.
    doubled = 2 * np.cumsum(counts) - counts + 1
    doubled_sum = int(doubled[level[positive]].sum())
    return (doubled_sum - positives * (positives + 1)) / (2 * positives * negatives)


def roc_curve(
    scores: FloatArray, positive: BoolArray, most: int = 400
) -> tuple[FloatArray, FloatArray]:
    """Return false and true positive rates as the threshold falls, from (0, 0) to (1, 1).

    Parameters
    ----------
    scores, positive
        As in `roc_auc`, both classes among them.
    most : int
        Points returned at most; of more, evenly spaced ones.
    """
    _, level = np.unique(-scores, return_inverse=True)
    hits = np.cumsum(np.bincount(level[positive], minlength=level.max() + 1))
    alarms = np.cumsum(np.bincount(level[~positive], minlength=level.max() + 1))
    kept = np.unique(np.linspace(0, len(hits) - 1, most - 1).round().astype(np.int64))
    return _from_zero(alarms[kept]), _from_zero(hits[kept])


def _from_zero(counts: IntArray) -> FloatArray:
    rates: FloatArray = np.append(0.0, counts / counts[-1])
    return rates


def brier_score(probabilities: FloatArray, positive: BoolArray) -> float:
    """Return the mean of ``(p - [positive])²``; the base rate c alone scores ``c(1 - c)``."""
    return float(np.mean((probabilities - positive) ** 2))


@dataclass(frozen=True)
class CalibrationBin:
    """Points whose probability lies in a bin.

    Parameters
    ----------
    lower, upper : float
        The bin, its upper end only in the last one.
    count : int
        Points in it.
    mean_probability, share_positive : float
        What was stated of them on average, and what came true.
    """

    lower: float
    upper: float
    count: int
    mean_probability: float
    share_positive: float


def calibration(
    probabilities: FloatArray, positive: BoolArray, bins: int = CALIBRATION_BINS
) -> list[CalibrationBin]:
    """Return stated and true frequencies by equally wide bins; empty bins are left out."""
    place = np.minimum((probabilities * bins).astype(np.int64), bins - 1)
    counts = np.bincount(place, minlength=bins)
    stated = np.bincount(place, probabilities, minlength=bins)
    true = np.bincount(place, positive, minlength=bins)
    return [
        CalibrationBin(k / bins, (k + 1) / bins, count, stated[k] / count, true[k] / count)
        for k, count in enumerate(counts.tolist())
        if count
    ]


def calibration_error(curve: list[CalibrationBin]) -> float:
    """Return the mean distance of stated and true frequencies, each bin by its points."""
    total = sum(entry.count for entry in curve)
    off = (entry.count * abs(entry.mean_probability - entry.share_positive) for entry in curve)
    return sum(off) / total
