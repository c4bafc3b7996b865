"""What the figures of all cases share: a style without a screen, and empirical laws."""

from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from bfio.decode.plots import STYLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes


def panels(rows: int, columns: int) -> "tuple[Figure, list[list[Axes]]]":
    """Return a figure of equal panels that share their axes."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(max(3.4 * columns, 5.0), 2.5 * rows + 0.8), layout="constrained")
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    return figure, grid.tolist()


def draw_shares(
    axes: "Axes", values: "Sequence[float]", total: int, label: str, color: str
) -> None:
    """Draw which share of ``total`` attempts took at most x; those without a value took more."""
    ordered = np.sort(np.array(values, dtype=np.float64))
    shares = np.arange(1, len(ordered) + 1) / total
    # A first point on the axis (if there is any), so that the curve starts at 0.
    places = np.concatenate((ordered[:1], ordered))
    heights = np.concatenate((0.0 * shares[:1], shares))
    name = f"{label} ({len(ordered)}/{total})"
    axes.step(places, heights, where="post", label=name, color=color)
    axes.plot(ordered[-1:], shares[-1:], "o", markersize=3, color=color)
