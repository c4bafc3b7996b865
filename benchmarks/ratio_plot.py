"""``python -m benchmarks.ratio_plot``: `adaptive` relative to the best fixed setting per trace.

The figure is drawn from the committed results of study 22. No row is recomputed.
"""

from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bfio.studies.report.markdown import Record, read_records
from bfio.studies.study_file import read_study

STUDY = Path(__file__).parent / "studies" / "22-adaptive" / "study"
#: Tolerance of 3 %: an upper limit for imbalance and time per token; its inverse for throughput.
WITHIN = 1.03
#: Traces used in the design of the policy.
DESIGN = ("azure_conv_2023.csv.gz", "sharegpt_8k_untimed.csv.gz", "mooncake_conversation.csv.gz")
#: Metrics with titles and the limit of the tolerance.
PANELS = {
    "measured.avg_imbalance": ("AvgImbalance", WITHIN),
    "measured.throughput_tokens_per_s": ("throughput", 1 / WITHIN),
    "measured.tpot_p95_s": ("P95 TPOT", WITHIN),
}

#: Workers with colour, marker and vertical offset from the line of the trace.
LOOKS = ((16, "#0072B2", "o", -0.15), (32, "#D55E00", "s", 0.15))


class Ratio(NamedTuple):
    """Ratio of a metric of `adaptive` to that of the best fixed setting, with a 95 % interval."""

    trace: str
    workers: int
    mean: float
    lower: float
    upper: float


def ratios(records: list[Record], metric: str) -> list[Ratio]:
    """Return the ratios by trace and machine, from a table of ratios to `adaptive`."""
    return [
        Ratio(
            record["argument.trace"],
            int(record["argument.workers"]),
            *(1 / float(record[part]) for part in ("ratio", "ratio_upper", "ratio_lower")),
        )
        for record in records
        if record["table"] == "fixed"
        and record["value"] == metric
        and record["argument.policy"].startswith("br-h")
    ]


def draw(records: list[Record], labels: dict[str, str]) -> Figure:
    """Return the figure, with a panel per metric and a line per trace."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, len(PANELS), sharey=True)
    for axes, (metric, (title, within)) in zip(panels, PANELS.items(), strict=True):
        _panel(axes, ratios(records, metric), labels)
        axes.axvline(within, color="0.4", linewidth=0.8, linestyle="--")
        axes.set_title(title, fontsize=10)
    panels[0].invert_yaxis()
    panels[1].set_xlabel("adaptive / best fixed setting, 95 % intervals over the seeds")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=2, fontsize=8
    )
    return figure


def _panel(axes: Axes, shown: list[Ratio], labels: dict[str, str]) -> None:
    traces = list(dict.fromkeys(ratio.trace for ratio in shown))
    for workers, colour, marker, offset in LOOKS:
        of_machine = [ratio for ratio in shown if ratio.workers == workers]
        means = [ratio.mean for ratio in of_machine]
        axes.errorbar(
            means,
            [traces.index(ratio.trace) + offset for ratio in of_machine],
            xerr=[
                [ratio.mean - ratio.lower for ratio in of_machine],
                [ratio.upper - ratio.mean for ratio in of_machine],
            ],
            fmt=marker, color=colour, capsize=2, markersize=4, linewidth=1.2,
            label=f"{workers} workers",
        )  # fmt: skip
    axes.axvline(1, color="0.4", linewidth=0.8)
    names = [labels.get(t, t) + (" (design)" if t in DESIGN else "") for t in traces]
    axes.set_yticks(range(len(traces)), names, fontsize=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.grid(axis="x", color="0.9")


def main() -> None:
    """Draw the figure and write it for the README."""
    labels = dict(read_study(STUDY.with_suffix(".toml")).report.tables[0].labels)
    figure = draw(read_records(STUDY.with_suffix(".csv")), labels)
    figure.savefig(STUDY.parent / "ratios.png", dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    main()
