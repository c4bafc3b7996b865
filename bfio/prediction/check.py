"""An independent look at reports: what is asked is counted anew, and parts must make the whole."""

from collections.abc import Iterable
from math import isclose

from bfio.prediction.report import PredictorReport
from formulations.arrays import IntArray

#: Differences of floating-point sums.
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12


def report_violations(report: PredictorReport, outputs: IntArray) -> dict[str, int]:
    """Return which rules a report breaks: name to 1, empty if none.

    Counts of points and of ends are counted request by request; totals must be the means of the
    bins of ages and of probabilities; the constants and the composite must keep their bounds.

    Parameters
    ----------
    report : PredictorReport
        The report.
    outputs : IntArray
        Shape (n,), outputs of the requests that were asked about [tokens].
    """
    points, ends = _counted(outputs.tolist(), report)
    ages, bins = report.by_age, report.calibration
    positive = [(e.points * e.base_rate, e.conditional_mae or 0.0) for e in ages]
    rules = {
        "points": report.points == points == sum(e.points for e in ages),
        "points_of_bins": sum(e.count for e in bins) == points,
        "base_rate": _same(report.base_rate * points, ends),
        "base_rate_by_age": _same(sum(weight for weight, _ in positive), ends),
        "base_rate_of_bins": _same(sum(e.count * e.share_positive for e in bins), ends),
        "conditional_mae": _same(
            (report.conditional_mae or 0.0) * ends, sum(weight * mean for weight, mean in positive)
        ),
        "composite_mae": _same(
            report.composite_mae * points, sum(e.points * e.composite_mae for e in ages)
        ),
        "squares": report.composite_rmse >= report.composite_mae * (1 - _RELATIVE),
        "within_window": report.composite_mae <= report.look_ahead - 1 + _ABSOLUTE,
        "auc": (report.auc is None) == (ends in (0, points)),
    }
    return {name: 1 for name, holds in rules.items() if not holds}


def _counted(outputs: Iterable[int], report: PredictorReport) -> tuple[int, int]:
    """Return how many ages are asked about, and at how many of them a request ends in time."""
    every, last = report.options.every, report.options.max_age
    points = ends = 0
    for output in outputs:
        top = output - 1 if last is None else min(output - 1, last)
        points += top // every + 1
        # Multiples of K from output - H on.
        first = max(0, -(-(output - report.look_ahead) // every))
        ends += max(0, top // every - first + 1)
    return points, ends


def _same(one: float, other: float) -> bool:
    return isclose(one, other, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
