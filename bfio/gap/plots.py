"""A plot of the regret over the steps of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import MaxNLocator

from bfio.common.figure_style import ShownFigure, styled
from formulations.scalars import percent

if TYPE_CHECKING:
    from bfio.gap.report import GapReport


def regret_figure(report: GapReport, label: str) -> ShownFigure:
    """Draw the distribution of the regret per step, without the optimal steps."""
    regrets = np.array(report.regrets(), dtype=np.float64) / report.scale
    positive = regrets[regrets > 0]
    with styled(7, 3.4) as (figure, axes):
        if len(positive):
            edges = np.geomspace(positive.min(), positive.max() * 1.0001, 40)
            axes.hist(positive, bins=edges.tolist(), color="C0")
            axes.set_xscale("log")
        share = percent(float(np.mean(regrets == 0)) if len(regrets) else 0.0)
        title = f"{label}: {share} of {len(regrets)} proven steps decided optimally; the others:"
        axes.set(title=title, xlabel="regret: objective minus optimum [tokens]", ylabel="steps")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    return figure
