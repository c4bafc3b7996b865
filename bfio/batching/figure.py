"""Unprocessed tokens and requests of runs over time."""

from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.figure import Figure

from bfio.batching.run import BatchRun
from bfio.decode.plots import STYLE


def run_figure(runs: Sequence[BatchRun]) -> Figure:
    """Draw ``|X|`` and the requests at agents over time: a line per run, or per stage of one run.

    Parameters
    ----------
    runs : sequence of BatchRun
        At least one, all of the same network.
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
        tokens.set_title("unprocessed tokens |X|, those of running batches left out")
        requests.set_title("requests at agents")
        tokens.set_ylabel("tokens")
        requests.set_ylabel("requests")
        requests.set_xlabel(f"time [{runs[0].unit}]")
        for axes in (tokens, requests):
            axes.set_ylim(bottom=0)
        lines = requests.get_lines()
        figure.legend(handles=lines, loc="outside lower center", ncols=min(4, len(lines)))
    return figure
