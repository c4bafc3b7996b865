"""Draw measured durations and residuals against the peak load."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import StrMethodFormatter

from bfio.common.figure_style import ShownFigure, styled
from bfio.common.statistics import evenly_spaced

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bfio.calibration.fit import StepTimeFit
    from formulations.arrays import FloatArray, IntArray

#: Maximum number of steps drawn, evenly spaced.
_MOST_POINTS = 5000
_COLOURS = 10
#: Steps above the highest fitted duration times this factor are counted instead of drawn.
_TALL = 1.5
#: The residual axis is linear up to this multiple of the median residual, rounded up to a power of
#: ten [%], and logarithmic beyond.
_LINEAR, _LEAST_LINEAR = 3, 0.01


def fit_figure(fit: "StepTimeFit") -> ShownFigure:
    """Draw durations with the fitted line, and residuals in percent, by peak load.

    The term of the mean load is subtracted from durations. If each worker has its own constants,
    the residuals are those of that fit, with one colour per critical worker.
    """
    steps = fit.steps
    fitted = fit.fitted_s if fit.own is None else fit.own.fitted_s
    off = 100 * (steps.duration_s / fitted - 1)
    with styled(7, 5.4, 2, 1, sharex=True, height_ratios=(3, 2)) as (figure, (above, below)):
        _draw_durations(above, fit)
        _scatter(below, fit, off)
        below.axhline(0, color="black", linewidth=0.9)
        linear = max(_LEAST_LINEAR, _LINEAR * float(np.nanmedian(np.abs(off))))
        linear = 10.0 ** np.ceil(np.log10(linear))
        below.set_yscale("symlog", linthresh=linear)
        below.set_ylim(min(-linear, float(np.nanmin(off))), max(linear, float(np.nanmax(off))))
        below.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        below.set(ylabel="measured − fitted [%]", xlabel="load of the fullest worker [tokens]")
        below.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    return figure


def _draw_durations(axes: "Axes", fit: "StepTimeFit") -> None:
    steps = fit.steps
    overhead, token_time, mean_time = (constant.value for constant in fit.constants.values())
    of_mean = 0.0 if steps.mean_load is None else mean_time * steps.mean_load
    durations = 1e3 * (steps.duration_s - of_mean)
    ends = np.array([steps.max_load.min(), steps.max_load.max()])
    line = 1e3 * (overhead + token_time * ends)
    tallest = _TALL * float(line.max())
    _scatter(axes, fit, np.where(durations <= tallest, durations, np.nan))
    axes.plot(ends, line, color="black", linewidth=1.2, label="fit for equal workers")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("step without the mean-load term [ms]" if mean_time else "step [ms]")
    axes.legend(loc="upper left")
    beyond = np.count_nonzero(durations > tallest)
    if beyond:
        text = f"{beyond:,} steps outside the plot"
        axes.text(0.99, 0.97, text, transform=axes.transAxes, ha="right", va="top")


def _scatter(axes: "Axes", fit: "StepTimeFit", up: "FloatArray") -> None:
    """Draw a point per step, coloured by its critical worker."""
    number = len(up)
    chosen = evenly_spaced(number, _MOST_POINTS)
    workers: IntArray = np.zeros(number, dtype=np.int64) if fit.own is None else fit.own.critical
    for g in np.unique(workers[chosen]):
        own = chosen[workers[chosen] == g]
        across = fit.steps.max_load[own]
        axes.plot(across, up[own], ".", markersize=3, alpha=0.5, color=f"C{g % _COLOURS}")
