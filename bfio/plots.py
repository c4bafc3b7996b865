"""Plots of runs: load trajectories, idle fractions, regrets; matplotlib without a screen."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from formulations.arrays import FloatArray
from formulations.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bfio.comparison import Comparison
    from bfio.decode.run import Run
    from bfio.gap import GapReport

#: Most points drawn along a trajectory; more cannot be seen.
_MAX_POINTS = 1500
_STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "font.size": 9,
    "axes.titlesize": 10,
    "legend.frameon": False,
}


def save(figure: Figure, path: Path) -> Path:
    """Write a figure (the suffix chooses the format) and return its path.

    Raises
    ------
    InputError
        If the place cannot be written.
    """
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise InputError(
            str(path), f"cannot be written ({error.strerror})", "choose another --output"
        ) from None
    return path


def folder_for(name: str) -> Path:
    """Return the folder of that name, made if it is not there.

    Raises
    ------
    InputError
        If it cannot be made.
    """
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            name, f"no folder can be made there ({error.strerror})", "choose another --output"
        ) from None
    return folder


def trajectory_figure(comparison: "Comparison") -> Figure:
    """Draw the load of every worker over the steps, one panel per policy (paper A, fig. 6)."""
    num_panels = len(comparison.runs)
    columns = min(3, num_panels)
    rows = math.ceil(num_panels / columns)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.2 * columns, 2.6 * rows + 0.4), layout="constrained")
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat
        for panel, label, run in zip(panels, comparison.labels, comparison.runs, strict=False):
            _draw_trajectory(panel, label, run)
        for panel in list(panels)[num_panels:]:
            panel.set_visible(False)
        figure.supxlabel("step")
        figure.supylabel("load of each worker [tokens]")
    return figure


def idle_fraction_figure(comparison: "Comparison") -> Figure:
    """Draw the idle fraction of each step and its distribution (paper A, fig. 1)."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(10, 3.6), layout="constrained")
        over_time, spread = figure.subplots(1, 2, width_ratios=(2, 1), sharey=True)
        for label, run in zip(comparison.labels, comparison.runs, strict=True):
            _draw_idle(over_time, label, run)
        idle = [100 * _idle_fractions(run) for run in comparison.runs]
        spread.boxplot(idle, tick_labels=comparison.labels, showfliers=False)
        spread.tick_params(axis="x", labelrotation=30)
        spread.set_title("distribution over steps (whiskers 1.5 IQR)")
        over_time.set_title("share of worker time lost at the barrier (mean of 1 % of the run)")
        over_time.set_xlabel("step")
        over_time.set_ylabel("idle [%]")
        over_time.set_ylim(bottom=0)
        over_time.legend(loc="upper left", ncols=3)
    return figure


def regret_figure(report: "GapReport", label: str) -> Figure:
    """Draw the distribution of the regret per step, optimal steps apart."""
    regrets = np.array(report.regrets(), dtype=np.float64) / report.scale
    positive = regrets[regrets > 0]
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(7, 3.4), layout="constrained")
        axes = figure.subplots()
        if len(positive):
            edges = np.geomspace(positive.min(), positive.max() * 1.0001, 40)
            axes.hist(positive, bins=edges.tolist(), color="C0")
            axes.set_xscale("log")
        share = 100 * np.mean(regrets == 0)
        axes.set_title(
            f"{label}: {share:.1f} % of {len(regrets)} proven steps decided optimally; the others:"
        )
        axes.set_xlabel("regret: objective minus optimum [tokens]")
        axes.set_ylabel("steps")
    return figure


def _draw_trajectory(panel: "Axes", label: str, run: "Run") -> None:
    assert run.loads is not None
    chosen = _chosen_steps(run.steps)
    panel.plot(chosen, run.loads[chosen], linewidth=0.5, alpha=0.6)
    panel.plot(chosen, run.max_load[chosen], color="black", linewidth=0.9, label="maximum")
    panel.set_title(label)
    panel.set_ylim(bottom=0)
    panel.legend(loc="lower left")


def _draw_idle(axes: "Axes", label: str, run: "Run") -> None:
    idle = 100 * _idle_fractions(run)
    window = max(1, run.steps // 100)
    smooth = np.convolve(idle, np.ones(window) / window, mode="valid")
    chosen = _chosen_steps(len(smooth))
    axes.plot(chosen + window // 2, smooth[chosen], linewidth=1.2, label=label)


def _idle_fractions(run: "Run") -> FloatArray:
    fractions: FloatArray = 1 - run.total_load / (run.cluster.workers * run.max_load)
    return fractions


def _chosen_steps(count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.unique(np.linspace(0, max(count - 1, 0), min(count, _MAX_POINTS)).astype(np.int64))
