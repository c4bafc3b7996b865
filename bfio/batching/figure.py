"""Draw the queues of runs over time, and fitted batch times."""

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from bfio.batching.hardware import BatchTimeFit
from bfio.batching.run import BatchRun
from bfio.common.figure_style import STYLE
from formulations.arrays import FloatArray, IntArray


def run_figure(runs: Sequence[BatchRun]) -> Figure:
    """Draw ``|X|`` and the requests at agents over time: a line per run, or per stage of one run.

    Parameters
    ----------
    runs : sequence of BatchRun
        At least one run; all use the same network.
    """
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8, 5), layout="constrained")
        tokens, requests = figure.subplots(2, 1, sharex=True)
        for run in runs:
            time, course = run.course.slot * run.slot, run.course
            stages = run.scenario.network.stages
            if len(runs) == 1 and len(stages) > 1:
                for k, stage in enumerate(stages):
                    tokens.plot(time, course.work[:, k], linewidth=0.9, label=stage.name)
                    requests.plot(time, course.present[:, k], linewidth=0.9, label=stage.name)
            else:
                tokens.plot(time, course.tokens, linewidth=0.9, label=run.policy)
                present = course.present.sum(axis=1)
                requests.plot(time, present, linewidth=0.9, label=run.policy)
        tokens.set_title("unprocessed tokens |X|, without running batches")
        requests.set_title("requests at agents")
        tokens.set_ylabel("tokens")
        requests.set_ylabel("requests")
        requests.set_xlabel(f"time [{runs[0].unit}]")
        for axes in (tokens, requests):
            axes.set_ylim(bottom=0)
        lines = requests.get_lines()
        figure.legend(handles=lines, loc="outside lower center", ncols=min(4, len(lines)))
    return figure


def fit_figure(tokens: IntArray, durations: FloatArray, fit: BatchTimeFit) -> Figure:
    """Draw measured batches and the batch time (2.3) fitted to them.

    Parameters
    ----------
    tokens, durations : IntArray, FloatArray
        Shape (n,) each: tokens and duration [s] of each batch.
    fit : BatchTimeFit
        The fit.
    """
    loads = np.unique(np.concatenate(([1, fit.free_tokens or 1], tokens)))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 4), layout="constrained")
        axes = figure.subplots()
        axes.plot(tokens, 1000 * durations, ".", alpha=0.5, label="measured")
        fitted = [1000 * fit.seconds(int(load)) for load in loads]
        axes.plot(loads, fitted, label="c + a·max(0, b' − b0)")
        axes.set_xlabel("tokens of the batch")
        axes.set_ylabel("time of the batch [ms]")
        axes.set_ylim(bottom=0)
        axes.legend()
    return figure
