"""The best policy per regime: the rows of this study as one figure and one table.

    bfio study export study.toml --output FOLDER
    python map.py FOLDER/rows.csv

writes ``map.png`` and ``map.csv`` next to this file. The best policy of a regime has the best
geometric mean over seeds. It is *ahead* of the runner-up if the 95 % interval of their ratio,
paired by seed, excludes 1.
"""

import csv
import math
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple, TypeAlias

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from bfio.studies.report.statistics import geometric_mean
from formulations.scalars import percent

OUTPUTS = {
    "homogeneous:value=200": "all alike",
    "geometric:mean=200": "geometric",
    "lognormal:median=67:sigma=1.5:maximum=9000": "heavy tail",
}
POLICIES = {
    ("fcfs", "none"): ("FCFS", "#999999"),
    ("jsq-tokens", "none"): ("least tokens", "#d55e00"),
    ("br-0", "none"): ("BR-0", "#009e73"),
    ("br-h:horizon=20", "none"): ("BR-H", "#56b4e9"),
    ("br-h:horizon=20", "oracle"): ("BR-H, ends", "#cc79a7"),
}
LOADS = ("0.7", "0.9", "1.0", "1.2")
#: Value, whether larger is better, and its name.
MEASURES = (
    ("goodput_tokens_per_s", True, "goodput"),
    ("tpot_p95_s", False, "time per token, P95"),
)
#: Information on the ends of active requests, and number of policies to choose from.
CHOICES = (("nothing known", 4), ("ends known", 5))

_Policy: TypeAlias = tuple[str, str]
_Regime: TypeAlias = tuple[str, str, str]


class Best(NamedTuple):
    """Best policy of a regime, and its ratio to the runner-up."""

    policy: _Policy
    runner_up: _Policy
    ratio: float
    is_ahead: bool


def read(path: Path) -> dict[_Regime, list[dict[str, str]]]:
    """Read the rows by outputs, memory (``ample`` or ``half``) and load."""
    rows: dict[_Regime, list[dict[str, str]]] = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            memory = "ample" if float(row["argument.memory"]) > 50_000 else "half"
            rows[row["argument.outputs"], memory, row["argument.load"]].append(row)
    return rows


def best(rows: list[dict[str, str]], value: str, more: bool, policies: list[_Policy]) -> Best:
    """Return the best of the given policies by a value."""
    by_seed = {
        policy: {
            row["argument.seed"]: float(row[f"value.{value}"])
            for row in rows
            if (row["argument.policy"], row["argument.predictor"]) == policy
        }
        for policy in policies
    }
    means = {
        policy: math.fsum(map(math.log, values.values())) / len(values)
        for policy, values in by_seed.items()
    }
    first, second = sorted(policies, key=lambda policy: -means[policy] if more else means[policy])[
        :2
    ]
    seeds = sorted(by_seed[first])
    pair = [[by_seed[policy][seed] for seed in seeds] for policy in (first, second)]
    ratio = geometric_mean(*pair)
    interval = ratio.interval
    ahead = interval is not None and not interval.lower <= 1 <= interval.upper
    return Best(first, second, float(ratio.value or math.nan), ahead)


def main(path: Path) -> None:
    """Write the figure and the table."""
    rows = read(path)
    lines = [(outputs, memory) for outputs in OUTPUTS for memory in ("ample", "half")]
    table = [
        ["outputs", "memory", "load", *(f"{m[2]}, {c[0]}" for m in MEASURES for c in CHOICES)]
    ]
    found = {
        (*line, load, measure[0], choice): best(
            rows[*line, load], measure[0], measure[1], list(POLICIES)[:number]
        )
        for line in lines
        for load in LOADS
        for measure in MEASURES
        for choice, number in CHOICES
    }
    for outputs, memory in lines:
        for load in LOADS:
            cells = [found[outputs, memory, load, m[0], c[0]] for m in MEASURES for c in CHOICES]
            table.append([OUTPUTS[outputs], memory, load, *map(_words, cells)])
    folder = Path(__file__).parent
    with (folder / "map.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows(table)
    _draw(found, lines, folder / "map.png")


def _words(cell: Best) -> str:
    sign = "over" if cell.is_ahead else "level with"
    return f"{POLICIES[cell.policy][0]} {cell.ratio:.3f} {sign} {POLICIES[cell.runner_up][0]}"


def _draw(
    found: dict[tuple[str, str, str, str, str], Best], lines: list[tuple[str, str]], path: Path
) -> None:
    drawing, axes = plt.subplots(2, 2, figsize=(11, 8.5), sharex=True, sharey=True)
    for down, (value, _, title) in enumerate(MEASURES):
        for across, (choice, _) in enumerate(CHOICES):
            ax = axes[down, across]
            ax.set_title(f"best {title}; {choice}", fontsize=10)
            for y, line in enumerate(lines):
                for x, load in enumerate(LOADS):
                    _cell(ax, x, y, found[*line, load, value, choice])
            ax.set_xlim(-0.5, len(LOADS) - 0.5)
            ax.set_ylim(len(lines) - 0.5, -0.5)
            ax.set_xticks(range(len(LOADS)), [f"load {load}" for load in LOADS])
            names = [f"{OUTPUTS[outputs]}\n{memory} memory" for outputs, memory in lines]
            ax.set_yticks(range(len(lines)), names, fontsize=8)
            ax.tick_params(length=0)
    drawing.text(
        0.5, 0.005,
        "colour: best policy over three seeds, and its distance to the runner-up; "
        "pale: the interval of that distance holds 0, either will do",
        ha="center", fontsize=8,
    )  # fmt: skip
    drawing.tight_layout(rect=(0, 0.02, 1, 1))
    drawing.savefig(path, dpi=110)


def _cell(ax: Axes, x: int, y: int, cell: Best) -> None:
    name, colour = POLICIES[cell.policy]
    alpha = 0.75 if cell.is_ahead else 0.2
    ax.add_patch(Rectangle((x - 0.49, y - 0.48), 0.98, 0.96, color=colour, alpha=alpha, lw=0))
    away = abs(cell.ratio - 1)
    text = f"{name}\n{percent(away)} to {POLICIES[cell.runner_up][0]}"
    ax.text(x, y, text, ha="center", va="center", fontsize=7.5)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
