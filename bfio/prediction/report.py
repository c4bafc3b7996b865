"""The report of an evaluation: one predictor, one look-ahead window, one trace.

The measures (ROC, Brier score, calibration) are implemented here, because scikit-learn is
optional; tests compare with it.

`report_violations` checks a report independently: it recounts the points and compares each total
with the sum over bins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isclose
from typing import TYPE_CHECKING, Any

import numpy as np

from bfio.common.options import LOOK_AHEAD
from bfio.common.provenance import version_and_commit
from bfio.common.text import number
from bfio.prediction.options import EvaluationOptions
from formulations.arrays import BoolArray, FloatArray, IntArray
from formulations.results import data_frame, html_paragraphs, html_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bfio.common.figure_style import ShownFigure

#: Number of calibration bins of equal width.
CALIBRATION_BINS = 10


def roc_auc(scores: FloatArray, positive: BoolArray) -> float | None:
    """Return the area under the ROC curve; None if only one class occurs.

    It is the share of (positive, negative) pairs in which the positive has the higher score; ties
    count one half. It is computed by ranks, exactly except for the last division.

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
        As in `roc_auc`; both classes must occur.
    most : int
        Maximum number of points, evenly spaced.
    """
    _, level = np.unique(-scores, return_inverse=True)
    hits = np.cumsum(np.bincount(level[positive], minlength=level.max() + 1))
    alarms = np.cumsum(np.bincount(level[~positive], minlength=level.max() + 1))
    kept = np.unique(np.linspace(0, len(hits) - 1, most - 1).round().astype(np.int64))
    return _from_zero(alarms[kept]), _from_zero(hits[kept])


def _from_zero(counts: IntArray) -> FloatArray:
    return np.append(0.0, counts / counts[-1])


def brier_score(probabilities: FloatArray, positive: BoolArray) -> float:
    """Return the mean of ``(p - [positive])²``; the constant base rate c gives ``c(1 - c)``."""
    return float(np.mean((probabilities - positive) ** 2))


@dataclass(frozen=True)
class CalibrationBin:
    """Points whose probability is in a bin.

    Parameters
    ----------
    lower, upper : float
        Range of the bin; only the last bin includes its upper end.
    count : int
        Number of points in the bin.
    mean_probability, share_positive : float
        Mean predicted probability, and observed frequency.
    """

    lower: float
    upper: float
    count: int
    mean_probability: float
    share_positive: float


def calibration(
    probabilities: FloatArray, positive: BoolArray, bins: int = CALIBRATION_BINS
) -> list[CalibrationBin]:
    """Return predicted and observed frequencies by bins of equal width, without empty bins."""
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
    """Return the mean absolute error of the predicted frequencies, weighted by points."""
    total = sum(entry.count for entry in curve)
    off = (entry.count * abs(entry.mean_probability - entry.share_positive) for entry in curve)
    return sum(off) / total


#: Fields whose key in JSON is the name of the option that sets them.
_KEYS = {"look_ahead": LOOK_AHEAD}
#: Columns of tables: field and heading.
COLUMNS = {
    "points": "points",
    "base_rate": "base\nrate",
    "auc": "AUC",
    "brier": "Brier",
    "brier_base_rate": "of base\nrate",
    "calibration_error": "calib.\nerror",
    "conditional_mae": "stage-2\nMAE",
    "conditional_mae_constant": "of a\nconstant",
    "composite_mae": "comp.\nMAE",
    "composite_mae_none": "MAE of\nH always",
    "composite_rmse": "comp.\nRMSE",
    "composite_rmse_none": "RMSE of\nH always",
    "gate_open_share": "gate\nopen",
    "call_us": "call\n[µs]",
    "request_us": "of 64\n[µs]",
}


@dataclass(frozen=True)
class AgeBin:
    """Points of an evaluation whose age is in a bin; see `PredictorReport`.

    Parameters
    ----------
    lower, upper : int
        Ages ``lower <= a < upper`` [tokens].
    points : int
        Number of points in the bin.
    base_rate : float
        Share of the points that end within the window.
    auc, conditional_mae : float, optional
        As for all points; None where undefined.
    composite_mae : float
        As for all points.
    """

    lower: int
    upper: int
    points: int
    base_rate: float
    auc: float | None
    conditional_mae: float | None
    composite_mae: float


@dataclass(frozen=True, repr=False)
class PredictorReport:
    """Quality of a predictor on a trace.

    A point is a request at an age, with r remaining steps. It is positive if ``r <= H``.

    Parameters
    ----------
    predictor : str
        Name of the predictor.
    look_ahead : int
        ``H``.
    requests : str
        Description of the requests.
    options : EvaluationOptions
        Options of the evaluation.
    trained_on, evaluated_on : int
        Number of requests in the history and in the evaluation.
    points : int
        Number of points of the evaluation.
    base_rate : float
        Share of positive points, c.
    auc : float, optional
        Stage 1: area under the ROC curve of p̂; None if only one class occurs.
    brier, brier_base_rate : float
        Stage 1: mean ``(p̂ - [r <= H])²``, and that of the constant c, ``c(1 - c)``.
    calibration_error : float
        Mean absolute error of the predicted frequencies over the bins of ``calibration``.
    conditional_mae, conditional_mae_constant : float, optional
        Stage 2: mean ``|μ̂ - r|`` over the positive points, where ``μ̂`` is H if p̂ = 0, and its
        minimum over constant predictions [steps]; None without positive points.
    composite_mae, composite_mae_none : float
        Mean ``|ŷ - min(r, H)|`` of the composite ``ŷ`` (eq. 6), and that of ``ŷ = H`` [steps].
    composite_rmse, composite_rmse_none : float
        Root mean squares of the same errors [steps]. ``ŷ`` estimates a mean, which minimises the
        squared error. The median minimises the absolute error, and is H if few requests end.
    gated_mae : float
        Mean absolute error of the engine's values, which are gated and rounded up.
    gate_open_share : float
        Share of points with ``p̂ >= 1/2``.
    call_us, request_us : float
        Median time of a call for one request, and per request for calls with about 64 [µs].
    calibration : sequence of CalibrationBin
        Predicted and observed frequencies.
    by_age : sequence of AgeBin
        Results by bins of age.
    roc : tuple of FloatArray, optional
        False and true positive rates, see `bfio.prediction.report.roc_curve`.
    """

    predictor: str
    look_ahead: int
    requests: str
    options: EvaluationOptions
    trained_on: int
    evaluated_on: int
    points: int
    base_rate: float
    auc: float | None
    brier: float
    brier_base_rate: float
    calibration_error: float
    conditional_mae: float | None
    conditional_mae_constant: float | None
    composite_mae: float
    composite_mae_none: float
    composite_rmse: float
    composite_rmse_none: float
    gated_mae: float
    gate_open_share: float
    call_us: float
    request_us: float
    calibration: Sequence[CalibrationBin]
    by_age: Sequence[AgeBin]
    roc: tuple[FloatArray, FloatArray] | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        auc = "undefined" if self.auc is None else number(self.auc)
        return (
            f"<PredictorReport of {self.predictor}, H = {self.look_ahead}: AUC {auc}, "
            f"conditional MAE {number(self.conditional_mae)}, {self.points:,} points>"
        )

    def to_mapping(self) -> dict[str, Any]:
        """Return the report as a JSON object, without the ROC curve."""
        options = {name: _plain(value) for name, value in asdict(self.options).items()}
        own = {_KEYS.get(k, k): v for k, v in vars(self).items() if k not in ("options", "roc")}
        bins = {k: [asdict(entry) for entry in own[k]] for k in ("calibration", "by_age")}
        return own | options | bins | {"remarks": self.remarks()}

    def to_frame(self) -> Any:
        """Return the results by age as a pandas data frame, one row per bin.

        Raises
        ------
        InputError
            If pandas is not installed.
        """
        own = {"predictor": self.predictor, LOOK_AHEAD: self.look_ahead}
        return data_frame([own | asdict(entry) for entry in self.by_age])

    def plot(self) -> ShownFigure:
        """Draw ROC curve, calibration and errors by age."""
        return evaluation_figure([self])

    def _repr_html_(self) -> str:
        line = [self.predictor, *cells(self.to_mapping())]
        heading = [f"predictor (H = {self.look_ahead})", *COLUMNS.values()]
        return html_table(heading, [line], self.settings) + html_paragraphs(self.remarks())

    @property
    def settings(self) -> str:
        """The settings in one line: requests, split, ages, online lengths, version."""
        told = self.options
        parts = [
            self.requests,
            f"{self.trained_on:,} for training, {self.evaluated_on:,} evaluated",
            f"outputs {_range(told)}" if told.min_output or told.max_output else "",
            f"predicted every {told.every} tokens",
            "" if told.max_age is None else f"up to age {told.max_age:,}",
            f"revealed {told.online:,} lengths at once" if told.online else "no lengths revealed",
            version_and_commit(),
        ]
        return ", ".join(filter(None, parts))

    def remarks(self) -> list[str]:
        """Return remarks on undefined numbers, one sentence each."""
        if self.auc is not None:
            return []
        which = "every point ends" if self.base_rate else "no point ends"
        return [
            f"{self.predictor}, H = {self.look_ahead}: the AUC is undefined, as {which} within "
            f"the window; use another --{LOOK_AHEAD} or more varied outputs."
        ]


def cells(document: Mapping[str, Any]) -> list[str]:
    """Return the texts of the columns `COLUMNS`."""
    return [number(document[name], 3 if name != "points" else 4) for name in COLUMNS]


def _range(told: EvaluationOptions) -> str:
    most = "" if told.max_output is None else f" to {told.max_output:,}"
    return f"{told.min_output or 1:,}{most or ' or more'}"


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, int) else float(value)


#: Tolerances for floating-point sums.
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12


def report_violations(report: PredictorReport, outputs: IntArray) -> dict[str, int]:
    """Return the violated rules of a report, each with value 1; empty if there are none.

    Points and positive points are recounted request by request. Totals must equal the means over
    bins of age and of probability. The constants and the composite must respect their bounds.

    Parameters
    ----------
    report : PredictorReport
        The report.
    outputs : IntArray
        Shape (n,), outputs of the evaluated requests [tokens].
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
    """Return the number of points, and the number of positive ones."""
    every, last = report.options.every, report.options.max_age
    points = ends = 0
    for output in outputs:
        top = output - 1 if last is None else min(output - 1, last)
        points += top // every + 1
        # Multiples of ``every`` from output - H on.
        first = max(0, -(-(output - report.look_ahead) // every))
        ends += max(0, top // every - first + 1)
    return points, ends


def _same(one: float, other: float) -> bool:
    return isclose(one, other, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)


#: Calibration bins with a smaller share of the points have small markers.
_RARE = 0.01


def evaluation_figure(reports: Sequence[PredictorReport]) -> ShownFigure:
    """Draw ROC curves, calibration and stage-2 error by age: a row of panels per window."""
    from bfio.common.figure_style import styled

    horizons = list(dict.fromkeys(report.look_ahead for report in reports))
    rows = len(horizons)
    with styled(10.5, 3.2 * rows + 0.4, rows, 3, squeeze=False) as (figure, grid):
        for row, look_ahead in zip(grid, horizons, strict=True):
            own = [report for report in reports if report.look_ahead == look_ahead]
            _draw_roc(row[0], own)
            _draw_calibration(row[1], own)
            _draw_by_age(row[2], own)
        figure.suptitle(reports[0].settings, fontsize=7)
    return figure


def _draw_roc(axes: Axes, reports: Sequence[PredictorReport]) -> None:
    axes.plot([0, 1], [0, 1], color="0.7", linestyle=":")
    for report in reports:
        if report.roc is None:
            axes.plot([], [], label=f"{report.predictor} (undefined)")
        else:
            axes.plot(*report.roc, label=f"{report.predictor} ({report.auc:.3f})")
    axes.set(
        title=f"H = {reports[0].look_ahead}: ROC (AUC)",
        xlabel="false positive rate",
        ylabel="true positive rate",
    )
    axes.legend(loc="lower right")


def _draw_calibration(axes: Axes, reports: Sequence[PredictorReport]) -> None:
    axes.plot([0, 1], [0, 1], color="0.7", linestyle=":")
    for report in reports:
        stated = [entry.mean_probability for entry in report.calibration]
        true = [entry.share_positive for entry in report.calibration]
        sizes = [30 if e.count >= _RARE * report.points else 6 for e in report.calibration]
        (line,) = axes.plot(stated, true, linewidth=0.8)
        axes.scatter(stated, true, sizes, color=line.get_color())
    base_rate = reports[0].base_rate
    axes.axhline(base_rate, color="0.7", linewidth=0.8)
    axes.set(
        title=f"Calibration (line: base rate {base_rate:.3f})",
        xlabel="stated probability (small: < 1 % of points)",
        ylabel="share that ends within H",
        xlim=(-0.02, 1.02),
        ylim=(-0.02, 1.02),
    )


def _draw_by_age(axes: Axes, reports: Sequence[PredictorReport]) -> None:
    for report in reports:
        errors = {
            e.lower: error for e in report.by_age if (error := e.conditional_mae) is not None
        }
        axes.plot(list(errors), list(errors.values()), marker=".")
    if (constant := reports[0].conditional_mae_constant) is not None:
        axes.axhline(constant, color="0.7", linewidth=0.8)
    axes.set_xscale("symlog", linthresh=10)
    axes.set(xlim=(0, None), ylim=(0, None), xlabel="age [tokens]", ylabel="error [steps]")
    axes.set_title("Stage-2 MAE (line: of a constant)")
