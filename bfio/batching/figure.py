"""Draw the queues of runs over time, and fitted batch times."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from bfio.batching.hardware import BatchTimeFit
from bfio.batching.run import BatchRun
from bfio.common.figure_style import label_pair, styled
from formulations.arrays import FloatArray, IntArray


def run_figure(runs: Sequence[BatchRun]) -> Figure:
    """Draw ``|X|`` and the requests at agents over time: a line per run, or per stage of one run.

    Parameters
    ----------
    runs : sequence of BatchRun
        At least one run; all use the same network.
    """
    with styled(8, 5, 2, 1, sharex=True) as (figure, (tokens, requests)):
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
        of_tokens = "unprocessed tokens |X|, without running batches", "tokens"
        of_requests, along = ("requests at agents", "requests"), f"time [{runs[0].unit}]"
        label_pair(figure, (tokens, requests), along, of_tokens, of_requests)
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
    with styled(7, 4) as (figure, axes):
        axes.plot(tokens, 1000 * durations, ".", alpha=0.5, label="measured")
        fitted = [1000 * fit.seconds(int(load)) for load in loads]
        axes.plot(loads, fitted, label="c + a·max(0, b' − b0)")
        axes.set(xlabel="tokens of the batch", ylabel="time of the batch [ms]", ylim=(0, None))
        axes.legend()
    return figure
