"""Plots of runs with matplotlib, without a display: load trajectories, idle fractions, regrets."""

import math
import textwrap
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from bfio.common.figure_style import ShownFigure, styled
from bfio.common.statistics import evenly_spaced
from bfio.decode.energy import power_over_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bfio.decode.comparison import Comparison
    from bfio.decode.run import Run

#: Most points drawn along a trajectory; more are not visible.
_MAX_POINTS = 1500
#: Colour and line style of each policy; Matplotlib has ten colours.
_LOOKS = [
    {"color": f"C{colour}", "linestyle": dashes}
    for dashes in ("-", "--", ":", "-.")
    for colour in range(10)
]


def trajectory_figure(comparison: "Comparison") -> ShownFigure:
    """Draw the load of every worker over the steps, one panel per policy (BF-IO, fig. 6)."""
    num_panels = len(comparison.runs)
    columns = min(num_panels, 2 if num_panels == 4 else 3)
    rows = math.ceil(num_panels / columns)
    shared: dict[str, Any] = {"sharex": True, "sharey": True, "squeeze": False}
    size = (max(4.2 * columns, 7), 2.6 * rows + 0.6)
    with styled(*size, rows, columns, **shared) as (figure, grid):
        panels = list(grid.flat)
        for panel, label, run in zip(panels, comparison.labels, comparison.measured, strict=False):
            _draw_trajectory(panel, label, run)
        # The panels share their axes, so set the bound after the last panel is drawn.
        panels[0].set_ylim(bottom=0)
        panels[0].legend(loc="upper right")
        for panel in panels[num_panels:]:
            panel.set_visible(False)
        figure.suptitle(
            "Load of each worker; black: the largest load, which sets the step's duration"
        )
        figure.supxlabel(f"step (shaded: measured part)\n{_caption(comparison, figure, 11)}")
        figure.supylabel("load [tokens]")
    return figure


def run_figure(run: "Run") -> ShownFigure:
    """Draw the load of every worker over the steps of one run (BF-IO, fig. 6)."""
    with styled(7, 3.2) as (figure, axes):
        _draw_trajectory(axes, run.policy, run)
        axes.legend(loc="upper right")
        axes.set(xlabel="step (shaded: measured part)", ylabel="load of each worker [tokens]")
        axes.set_ylim(bottom=0)
    return figure


def idle_fraction_figure(comparison: "Comparison") -> Figure:
    """Draw the idle fraction of each step and its distribution (BF-IO, fig. 1)."""
    with styled(10, 3.8, 1, 2, width_ratios=(2, 1), sharey=True) as (figure, pair):
        over_time, spread = pair
        for look, label, run in zip(cycle(_LOOKS), comparison.labels, comparison.measured):
            _draw_idle(over_time, run, label=label, **look)
        _shade_measured(over_time, comparison.measured[0])
        parts = [run.measured_steps for run in comparison.measured]
        is_whole = any(steps is None for steps in parts)
        idle = [100 * run.idle_fractions() for run in comparison.measured]
        if not is_whole:
            idle = [each[steps] for each, steps in zip(idle, parts, strict=True)]
        figure.suptitle(_caption(comparison, figure, 14), fontsize="small")
        spread.boxplot(idle, tick_labels=comparison.labels, showfliers=False)
        spread.tick_params(axis="x", labelrotation=30 if len(idle) <= 5 else 90)
        spread.set_title(f"{'whole run' if is_whole else 'measured part'}: quartiles over steps")
        over_time.set_title("idle fraction: 1 − mean load / max load (running mean)")
        over_time.set(xlabel="step (shaded: measured part)", ylabel="idle [%]", ylim=(0, None))
        over_time.legend(loc="upper left", ncols=3)
    return figure


def power_figure(comparison: "Comparison") -> ShownFigure:
    """Draw the power of all workers over time, a line per policy (BF-IO, figs. 2 and 7).

    Only for runs that have an energy (`bfio.decode.energy.has_energy`).
    """
    with styled(8, 3.8) as (figure, axes):
        for look, label, run in zip(cycle(_LOOKS), comparison.labels, comparison.measured):
            curve = power_over_time(run, comparison.energy_model)
            assert curve is not None
            named = f"{label}: {curve.energy_j / 1e3:,.4g} kJ"
            axes.stairs(curve.power_w, curve.edges_s, linewidth=1.1, label=named, **look)
        axes.set_title("power of all workers; the area below is energy")
        time = f"time [s]\n{_caption(comparison, figure, 13)}"
        axes.set(xlabel=time, ylabel="power [W]", ylim=(0, None))
        axes.legend(loc="lower left", ncols=3)
    return figure


def _caption(comparison: "Comparison", figure: Figure, letters: int) -> str:
    """Return settings and repetition in lines that fit a figure with so many letters an inch."""
    repeat = comparison.measured[0].num_requests // max(comparison.runs[0].num_requests, 1)
    repeated = f"requests repeated {repeat} times" if comparison.repeated else ""
    told = "; ".join(filter(None, (comparison.settings, repeated)))
    return textwrap.fill(told, int(letters * figure.get_figwidth()))


def _draw_trajectory(panel: "Axes", label: str, run: "Run") -> None:
    assert run.loads is not None
    chosen = evenly_spaced(run.steps, _MAX_POINTS)
    panel.plot(chosen, run.loads[chosen], linewidth=0.5, alpha=0.6)
    panel.plot(chosen, run.max_load[chosen], color="black", linewidth=0.9, label="maximum")
    panel.set_title(label)
    panel.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    _shade_measured(panel, run)


def _shade_measured(panel: "Axes", run: "Run") -> None:
    steps = run.measured_steps
    if steps is not None:
        panel.axvspan(float(steps[0]), float(steps[-1]), color="0.92", zorder=0)


def _draw_idle(axes: "Axes", run: "Run", **look: Any) -> None:
    idle = 100 * run.idle_fractions()
    window = max(1, run.steps // 100)
    # A run may end before its first step.
    smooth = np.convolve(idle, np.ones(window) / window, mode="valid") if run.steps else idle
    chosen = evenly_spaced(len(smooth), _MAX_POINTS)
    axes.plot(chosen + window // 2, smooth[chosen], linewidth=1.2, **look)
