"""The figure of the step cases: which share of the instances is finished within a given time."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.case import Row
from benchmarks.figures import draw_shares, panels
from benchmarks.summary import grouped

_COLORS = {
    "exact": "tab:blue",
    "br-0": "tab:green",
    "cp-sat": "tab:orange",
    "highs": "tab:red",
    "highs-challenged": "tab:brown",
}


def solve_time_figure(rows: Sequence[Row]) -> Figure | None:
    """Draw one panel per window and kind, one line per method."""
    measured = [row for row in rows if row["measured"] is not None]
    if not measured:
        return None
    kinds = sorted({row["parameters"]["kind"] for row in measured})
    horizons = sorted({row["parameters"]["horizon"] for row in measured})
    figure, grid = panels(len(kinds), len(horizons))
    by_panel = grouped(measured, lambda r: (r["parameters"]["kind"], r["parameters"]["horizon"]))
    for line, kind in zip(grid, kinds, strict=True):
        for axes, horizon in zip(line, horizons, strict=True):
            _draw_panel(axes, by_panel.get((kind, horizon), []))
            axes.set_title(f"{kind}, H = {horizon}")
            axes.legend(loc="lower right", fontsize=7, frameon=False)
    figure.suptitle(str(measured[0]["case"]))
    figure.supxlabel("time [s] (dashed: limit)")
    figure.supylabel("share of instances finished")
    return figure


def _draw_panel(axes: Axes, rows: Sequence[Row]) -> None:
    axes.set_xscale("log")
    axes.set_ylim(0, 1.02)
    for limit in sorted({row["parameters"]["time_limit"] for row in rows}):
        axes.axvline(limit, color="gray", linestyle="--", linewidth=1)
    for method, own in grouped(rows, lambda row: str(row["method"])).items():
        times = [r["measured"]["solve_s"] for r in own if r["measured"]["finished"]]
        draw_shares(axes, times, len(own), method, _COLORS[method])
