"""Figures of evaluations (ROC, calibration, errors by age) and of geometric fits.

A geometric figure has a row of panels per trace: survival, hazard and mean residual life.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import NullFormatter, StrMethodFormatter

from bfio.common.figure_style import ShownFigure, styled
from bfio.prediction.geometric import GeometricFit

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bfio.prediction.report import PredictorReport
    from formulations.arrays import FloatArray, IntArray

#: Calibration bins with a smaller share of the points have small markers.
_RARE = 0.01


def evaluation_figure(reports: "Sequence[PredictorReport]") -> ShownFigure:
    """Draw ROC curves, calibration and stage-2 error by age: a row of panels per window."""
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
    axes.set(xlim=(0, None), ylim=(0, None), xlabel="age [tokens]", ylabel="error [steps]")
    axes.set_title("Stage-2 MAE (line: of a constant)")


_PLAIN = StrMethodFormatter("{x:g}")
_LAW, _DATA = "0.5", "C0"


def geometric_figure(traces: "Mapping[str, tuple[IntArray, GeometricFit]]") -> ShownFigure:
    """Draw survival, hazard and mean residual life by age, each with that of the geometric law.

    Parameters
    ----------
    traces : mapping
        Lengths and their fit, by name of the trace.
    """
    rows = len(traces)
    with styled(10, 1.9 * rows + 0.5, rows, 3, squeeze=False) as (figure, grid):
        for row, (name, (lengths, fit)) in zip(grid, traces.items(), strict=True):
            _draw_survival(row[0], name, lengths, fit)
            _draw_hazard(row[1], fit)
            _draw_residual(row[2], fit)
        for axes in grid[-1]:
            axes.set_xlabel("age [tokens]")
    return figure


def _draw_survival(axes: "Axes", name: str, lengths: "IntArray", fit: GeometricFit) -> None:
    values, counts = np.unique(lengths, return_counts=True)
    alive = 1 - np.cumsum(counts) / len(lengths)
    axes.step(values[:-1], alive[:-1], where="post", color=_DATA)
    ages = np.array([0, values[-1]])
    axes.plot(ages, np.exp(ages * np.log1p(-fit.p)), color=_LAW, linestyle="--")
    axes.set_yscale("log")
    axes.set_ylim(max(0.5 / len(lengths), 1e-4), 1.5)
    axes.set_title(name, loc="left")
    word = "not geometric" if fit.is_rejected else "geometric not rejected"
    axes.text(0.98, 0.95, word, transform=axes.transAxes, ha="right", va="top")
    axes.set_ylabel("share longer")


def _draw_hazard(axes: "Axes", fit: GeometricFit) -> None:
    edges = [entry.lower for entry in fit.ages] + [fit.ages[-1].upper]
    found = np.array([[e.hazard, e.hazard_lower, e.hazard_upper] for e in fit.ages]) / fit.p
    axes.stairs(found[:, 0], edges, color=_DATA)
    axes.fill_between(edges, _ends(found[:, 1]), _ends(found[:, 2]), step="post", alpha=0.25)
    axes.axhline(1, color=_LAW, linestyle="--")
    axes.set_xscale("symlog", linthresh=10)
    axes.set_xlim(0, edges[-1])
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(_PLAIN)
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(min([0.1, *found[found > 0]]), max(10, found.max()))
    axes.set_title("hazard · mean", loc="left")


def _draw_residual(axes: "Axes", fit: GeometricFit) -> None:
    ages = [entry.lower for entry in fit.ages]
    found = np.array([[e.residual, e.residual_lower, e.residual_upper] for e in fit.ages])
    found = np.maximum(found * fit.p, 0)
    axes.plot(ages, found[:, 0], color=_DATA, marker=".")
    axes.fill_between(ages, found[:, 1], found[:, 2], alpha=0.25)
    axes.axhline(1, color=_LAW, linestyle="--")
    axes.set_ylim(bottom=0)
    axes.set_title("mean residual life / mean", loc="left")


def _ends(values: "FloatArray") -> "FloatArray":
    """Return the heights of steps, with the last one repeated at its right end."""
    return np.append(values, values[-1])
