"""Figure of the memory and the queue of runs over time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from bfio.common.figure_style import label_pair, styled
from bfio.wait.run import StageRun
from formulations.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Maximum number of points per line; more are not visible.
_MAX_POINTS = 1000


def run_figure(runs: Sequence[StageRun]) -> Figure:
    """Draw the memory of each batch, and the requests waiting for stage 0 at its start.

    While the engine is idle, the memory is drawn as 0 and the queue is not drawn.

    Parameters
    ----------
    runs : sequence of StageRun
        At least one run; all of the same instance, with one line each.
    """
    with styled(8, 5, 2, 1, sharex=True) as (figure, (memory, queue)):
        for run in runs:
            _draw(memory, run, run.batches.memory, 0.0)
            _draw(queue, run, run.batches.waiting, np.nan)
        memory.axhline(runs[0].instance.memory, color="black", linestyle="--", linewidth=0.8)
        held = "memory of the batch and of paused requests; 0: engine idle; dashed: capacity"
        before = (
            "requests before stage 0 at the start of a batch, including its own; idle: no line"
        )
        labels = (held, "memory [tokens]"), (before, "before stage 0 [requests]")
        label_pair(figure, (memory, queue), "time [s]", *labels)
    return figure


def _draw(axes: "Axes", run: StageRun, values: IntArray, idle: float) -> None:
    seconds, drawn = thinned(*line_of(run, values, idle))
    axes.step(seconds, drawn, where="post", linewidth=0.9, label=run.policy)


def line_of(run: StageRun, values: IntArray, idle: float) -> tuple[FloatArray, FloatArray]:
    """Return the times of changes [s] and the values: of a batch while it runs, else ``idle``."""
    batches = run.batches
    # One value at each start and each end; if a batch starts at the end of another, its value
    # counts.
    clock = np.concatenate(([0], np.stack((batches.start, batches.end), axis=1).ravel()))
    levels = np.full(len(clock), idle)
    levels[1::2] = values
    clock = np.append(clock, max(int(clock[-1]), run.observed))
    last = np.append(np.diff(clock) > 0, True)
    return clock[last] / run.instance.clock.units_per_second, np.append(levels, idle)[last]


def thinned(seconds: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the maximum in each of equal time intervals, so that peaks stay visible."""
    if len(values) <= 2 * _MAX_POINTS:
        return seconds, values
    edges = np.linspace(seconds[0], seconds[-1], _MAX_POINTS, endpoint=False)
    # An interval starts with the value that holds at its left edge.
    held = values[np.searchsorted(seconds, edges, side="right") - 1]
    order = np.argsort(np.concatenate((edges, seconds)), kind="stable")
    first = np.flatnonzero(order < _MAX_POINTS)
    largest = np.fmax.reduceat(np.concatenate((held, values))[order], first)
    return np.append(edges, seconds[-1]), np.append(largest, values[-1])
