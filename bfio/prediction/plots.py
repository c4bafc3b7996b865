"""Plots of evaluations: ROC, calibration, errors by age."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import matplotlib as mpl

from bfio.common.figure_style import STYLE
from bfio.decode.plots import ShownFigure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bfio.prediction.report import PredictorReport

#: Calibration bins with fewer points than this share of all are drawn small.
_RARE = 0.01


def evaluation_figure(reports: "Sequence[PredictorReport]") -> ShownFigure:
    """Draw ROC curves, calibration and stage-2 error by age: a row of panels for each window."""
    horizons = list(dict.fromkeys(report.look_ahead for report in reports))
    with mpl.rc_context(STYLE):
        size = (10.5, 3.2 * len(horizons) + 0.4)
        figure = ShownFigure(figsize=size, layout="constrained")
        grid = figure.subplots(len(horizons), 3, squeeze=False)
        for row, look_ahead in zip(grid, horizons, strict=True):
            own = [report for report in reports if report.look_ahead == look_ahead]
            _draw_roc(row[0], own)
            _draw_calibration(row[1], own)
            _draw_by_age(row[2], own)
        figure.suptitle(reports[0].settings, fontsize=7)
    return figure


def _draw_roc(axes: "Axes", reports: "Sequence[PredictorReport]") -> None:
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


def _draw_calibration(axes: "Axes", reports: "Sequence[PredictorReport]") -> None:
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


def _draw_by_age(axes: "Axes", reports: "Sequence[PredictorReport]") -> None:
    for report in reports:
        errors = {
            e.lower: error for e in report.by_age if (error := e.conditional_mae) is not None
        }
        axes.plot(list(errors), list(errors.values()), marker=".")
    if (constant := reports[0].conditional_mae_constant) is not None:
        axes.axhline(constant, color="0.7", linewidth=0.8)
    axes.set_xscale("symlog", linthresh=10)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set(
        title="Stage-2 MAE (line: of a constant)", xlabel="age [tokens]", ylabel="error [steps]"
    )
