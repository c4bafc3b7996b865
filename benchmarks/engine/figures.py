"""Figures of the engine cases: speed by policy, time over the number of requests."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from benchmarks.case import Row
from benchmarks.engine.tables import growth_exponent, growth_points
from benchmarks.figures import panels
from benchmarks.summary import plain


def speed_figure(rows: Sequence[Row]) -> Figure | None:
    """Draw the steps per second of every simulation as a bar."""
    measured = [row for row in rows if row["measured"] is not None]
    if not measured:
        return None
    figure, [[axes]] = panels(1, 1)
    figure.set_size_inches(7.5, 1.0 + 0.22 * len(measured))
    labels = [f"{row['method']}  {row['instance']}" for row in measured]
    axes.barh(np.arange(len(measured)), [row["measured"]["steps_per_s"] for row in measured])
    axes.set_yticks(np.arange(len(measured)), labels, fontsize=7)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("steps per second, whole run")
    axes.set_title(str(measured[0]["case"]))
    return figure


def growth_figure(rows: Sequence[Row]) -> Figure | None:
    """Draw time over requests, both logarithmic, with the fitted exponents."""
    series = growth_points(rows)
    if not series:
        return None
    figure, [[axes]] = panels(1, 1)
    for (policy, engine), points in series.items():
        label = f"{policy}/{engine}: exponent {plain(growth_exponent(points))}"
        axes.plot(*zip(*points, strict=True), "o-", label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("requests")
    axes.set_ylabel("time [s]")
    axes.legend()
    return figure
