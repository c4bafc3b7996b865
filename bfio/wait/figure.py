"""Memory and queue of runs over time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from bfio.common.figure_style import STYLE
from bfio.wait.run import StageRun
from formulations.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Most points drawn along a line; more cannot be seen.
_MAX_POINTS = 1000


def run_figure(runs: Sequence[StageRun]) -> Figure:
    """Draw the memory that batches take, and who waits for stage 0 when they start.

    While the engine is idle the memory is drawn as 0 and the queue not at all.

    Parameters
    ----------
    runs : sequence of StageRun
        At least one, all of the same instance; one line each.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8, 5), layout="constrained")
        memory, queue = figure.subplots(2, 1, sharex=True)
        for run in runs:
            _draw(memory, run, run.batches.memory, 0.0)
            _draw(queue, run, run.batches.waiting, np.nan)
        memory.axhline(runs[0].instance.memory, color="black", linestyle="--", linewidth=0.8)
        memory.set_title(
            "memory of the batch and of paused requests; 0: engine idle; dashed: capacity"
        )
        queue.set_title(
            "requests before stage 0 as the batch starts, those it takes included; idle: no line"
        )
        memory.set_ylabel("memory [tokens]")
        queue.set_ylabel("before stage 0 [requests]")
        queue.set_xlabel("time [s]")
        for axes in (memory, queue):
            axes.set_ylim(bottom=0)
        # Below both panels, where it covers no line.
        lines = queue.get_lines()
        figure.legend(handles=lines, loc="outside lower center", ncols=min(3, len(lines)))
    return figure


def _draw(axes: "Axes", run: StageRun, values: IntArray, idle: float) -> None:
    seconds, drawn = thinned(*line_of(run, values, idle))
    axes.step(seconds, drawn, where="post", linewidth=0.9, label=run.policy)


def line_of(run: StageRun, values: IntArray, idle: float) -> tuple[FloatArray, FloatArray]:
    """Return when a line changes [s] and to what: each batch's value while it runs, or idle."""
    batches = run.batches
    # A value at each start and at each end; where the next batch starts at once, its own counts.
    clock = np.concatenate(([0], np.stack((batches.start, batches.end), axis=1).ravel()))
    levels = np.full(len(clock), idle)
    levels[1::2] = values
    clock = np.append(clock, max(int(clock[-1]), run.observed))
    last = np.append(np.diff(clock) > 0, True)
    return clock[last] / run.instance.clock.units_per_second, np.append(levels, idle)[last]


def thinned(seconds: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the largest value in each of equal parts of the time: peaks are not to be missed."""
    if len(values) <= 2 * _MAX_POINTS:
        return seconds, values
    edges = np.linspace(seconds[0], seconds[-1], _MAX_POINTS, endpoint=False)
    # A part begins with what holds then.
    held = values[np.searchsorted(seconds, edges, side="right") - 1]
    order = np.argsort(np.concatenate((edges, seconds)), kind="stable")
    first = np.flatnonzero(order < _MAX_POINTS)
    largest = np.fmax.reduceat(np.concatenate((held, values))[order], first)
    return np.append(edges, seconds[-1]), np.append(largest, values[-1])
