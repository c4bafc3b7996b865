"""Imbalance and prefix hits as a function of the benefit: the results of this study as a figure.

    python frontier.py

reads ``study.csv`` and writes ``frontier.png``, both next to this file.
"""

from pathlib import Path
from typing import TypeAlias

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from bfio.studies.report.markdown import SETTINGS, read_records

#: Policies by label: name, values of μ if it varies, and colour.
LINES = {
    "BR-0": ("br-0", ("0", "1/10", "1", "10", "100"), "#009e73"),
    "BR-H": ("br-h:horizon=20", ("0", "1", "10", "100"), "#0072b2"),
    "least tokens": ("jsq-tokens", (), "#d55e00"),
    "prefix affinity": ("prefix-affinity", (), "#cc79a7"),
    "without its guard": ("prefix-affinity:max-load-skew=0", (), "#e69f00"),
    "consistent hashing": ("consistent-hash:key-blocks=3", (), "#999999"),
}
PANELS = {"pool": "never out of work", "timed": "load 0.7, bound at arrival"}


#: By arrivals, policy and value: an estimate and the two ends of its 95 % interval.
Means: TypeAlias = dict[tuple[str, str, str], list[float]]


def read(path: Path) -> tuple[Means, str]:
    """Return the means by arrivals, policy and value, and the settings."""
    rows = [row for row in read_records(path) if row["table"] == "runs"]
    found = {
        (row["argument.arrivals"], row["argument.policy"], row["value"]): [
            float(row[name]) for name in ("estimate", "lower", "upper")
        ]
        for row in rows
        if row["argument.policy"]
    }
    return found, next(row["words"] for row in rows if row["value"] == SETTINGS)


def draw(ax: Axes, found: Means, arrivals: str) -> None:
    """Draw the policies for one kind of arrivals."""
    for name, (policy, benefits, colour) in LINES.items():
        texts = [policy if mu == "0" else f"{policy}:benefit={mu}" for mu in benefits or "0"]
        hits, imbalance = (
            np.array([found[arrivals, text, value] for text in texts]).T
            for value in ("prefix_hit_rate", "avg_imbalance")
        )
        ax.errorbar(
            hits[0],
            imbalance[0],
            xerr=np.abs(hits[1:] - hits[0]),
            yerr=np.abs(imbalance[1:] - imbalance[0]),
            color=colour,
            marker="o",
            markersize=4,
            linewidth=1,
            elinewidth=0.6,
            label=name,
        )
        for mu, x, y in zip(benefits, hits[0], imbalance[0], strict=False):
            # Labels of BR-H go below, those of BR-0 above: at small μ the points are close.
            offset = (-8, 6) if name == "BR-0" else (2, -11)
            ax.annotate(mu, (x, y), offset, textcoords="offset points", fontsize=8, color=colour)
    ax.set_yscale("log")
    ax.set_title(f"{PANELS[arrivals]}; numbers: μ", fontsize=10)
    ax.set_xlabel("share of prompt tokens found in a cache")
    ax.grid(visible=True, alpha=0.3)


def main() -> None:
    """Draw the figure and write it."""
    folder = Path(__file__).parent
    found, settings = read(folder / "study.csv")
    drawing, axes = plt.subplots(1, 2, figsize=(11, 5))
    for ax, arrivals in zip(axes, PANELS, strict=True):
        draw(ax, found, arrivals)
    axes[0].set_ylabel("AvgImbalance [tokens]")
    axes[1].legend(fontsize=8)
    drawing.text(0.01, 0.005, settings.split("; varies")[0], fontsize=6, color="#555555")
    drawing.tight_layout(rect=(0, 0.02, 1, 1))
    drawing.savefig(folder / "frontier.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
