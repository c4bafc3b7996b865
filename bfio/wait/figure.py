"""Memory and queue of runs over time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from bfio.plots import STYLE
from bfio.wait.run import StageRun
from formulations.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Most points drawn along a line; more cannot be seen.
_MAX_POINTS = 1000


def run_figure(runs: Sequence[StageRun]) -> Figure:
    """Draw the memory of each batch, and who waits for stage 0 when it starts.

    Parameters
    ----------
    runs : sequence of StageRun
        At least one, all of the same instance; one line each.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8, 5), layout="constrained")
        memory, queue = figure.subplots(2, 1, sharex=True)
        for run in runs:
            _draw(memory, run, run.batches.memory)
            _draw(queue, run, run.batches.waiting)
        memory.axhline(runs[0].instance.memory, color="black", linestyle="--", linewidth=0.8)
        memory.set_title("memory of each batch (dashed: capacity), and who waits for stage 0")
        memory.set_ylabel("memory [tokens]")
        queue.set_ylabel("waiting [requests]")
        queue.set_xlabel("time [s]")
        for axes in (memory, queue):
            axes.set_ylim(bottom=0)
        queue.legend(loc="upper left", fontsize="small")
    return figure


def _draw(axes: "Axes", run: StageRun, values: IntArray) -> None:
    seconds, largest = _thinned(run.batches.start / run.instance.clock.units_per_second, values)
    axes.step(seconds, largest, where="post", linewidth=0.9, label=run.policy)


def _thinned(seconds: FloatArray, values: IntArray) -> tuple[FloatArray, IntArray]:
    """Return the largest of every few values in a row: peaks are not to be missed."""
    if not len(values):
        return seconds, values
    first = np.arange(0, len(values), -(-len(values) // _MAX_POINTS))
    return seconds[first], np.maximum.reduceat(values, first)
