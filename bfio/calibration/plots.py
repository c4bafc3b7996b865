"""Draw measured durations and residuals against the peak load."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import StrMethodFormatter

from bfio.common.figure_style import ShownFigure, styled
from bfio.common.statistics import evenly_spaced
from formulations.words import counted

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
#: The axis extends this far beyond the outermost residual.
_BEYOND = 1.3


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
        ends = min(-linear, float(np.nanmin(off))), max(linear, float(np.nanmax(off)))
        # Points at the ends are not cut by the edge.
        below.set_ylim(_BEYOND * ends[0], _BEYOND * ends[1])
        below.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        below.set(ylabel="measured − fitted [%]", xlabel="load of the fullest worker [tokens]")
        below.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        # Above the panels, so that it covers no point.
        handles, labels = above.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=3, markerscale=3)
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
    beyond = int(np.count_nonzero(durations > tallest))
    if beyond:
        text = f"{counted(beyond, 'step')} above the plot"
        axes.set_title(text, loc="right", fontsize="medium")


def _scatter(axes: "Axes", fit: "StepTimeFit", up: "FloatArray") -> None:
    """Draw a point per step, coloured by its critical worker; ten colours recur."""
    number = len(up)
    chosen = evenly_spaced(number, _MOST_POINTS)
    workers: IntArray = np.zeros(number, dtype=np.int64) if fit.own is None else fit.own.critical
    shown = np.unique(workers[chosen])
    for place, g in enumerate(shown):
        own = chosen[workers[chosen] == g]
        across = fit.steps.max_load[own]
        more = ", …" if place + _COLOURS < len(shown) else ""
        label = f"worker {g}{more} slowest" if fit.own is not None and place < _COLOURS else None
        colour = f"C{place % _COLOURS}"
        axes.plot(across, up[own], ".", markersize=3, alpha=0.5, color=colour, label=label)
