"""A plot of the regret over the steps of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.ticker import MaxNLocator

from bfio.common.figure_style import STYLE, ShownFigure
from formulations.scalars import percent

if TYPE_CHECKING:
    from bfio.gap.report import GapReport


def regret_figure(report: GapReport, label: str) -> ShownFigure:
    """Draw the distribution of the regret per step, without the optimal steps."""
    regrets = np.array(report.regrets(), dtype=np.float64) / report.scale
    positive = regrets[regrets > 0]
    with mpl.rc_context(STYLE):
        figure = ShownFigure(figsize=(7, 3.4), layout="constrained")
        axes = figure.subplots()
        if len(positive):
            edges = np.geomspace(positive.min(), positive.max() * 1.0001, 40)
            axes.hist(positive, bins=edges.tolist(), color="C0")
            axes.set_xscale("log")
        share = percent(float(np.mean(regrets == 0)) if len(regrets) else 0.0)
        axes.set_title(
            f"{label}: {share} of {len(regrets)} proven steps decided optimally; the others:"
        )
        axes.set_xlabel("regret: objective minus optimum [tokens]")
        axes.set_ylabel("steps")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    return figure
