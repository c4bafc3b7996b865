"""The tables of BF-IO from run documents."""

from collections.abc import Mapping, Sequence
from typing import Any

from bfio.cli.output import console, number, percent, print_table

_COLUMNS = (
    "policy",
    "AvgImbalance\n[tokens]",
    "÷",
    "AvgGap\n[tokens]",
    "idle",
    "barrier",
    "throughput\n[tokens/s]",
    "TPOT mean\n[ms]",
    "TPOT P95\n[ms]",
    "energy\n[kJ]",
    "averaged\n[kJ]",
    "steps",
    "proven",
)

#: Width that a table with one policy per row needs; below it policies become columns.
_WIDE = 135
_NAMES_WIDTH, _COLUMN_WIDTH = 28, 13


def print_comparison(documents: Sequence[Mapping[str, Any]]) -> None:
    """Print the steady table, if any run has a steady part, and the whole-run table."""
    steady = [{"policy": d["policy"]} | dict(d["steady"] or {}) for d in documents]
    shares = [d["proven_share"] for d in documents]
    if any(d["steady"] for d in documents):
        rows = [row[:-1] for row in _rows(steady, shares)]
        title = "Steady part (from the first full cluster on, while requests wait)"
        _print_fitting(title, _COLUMNS[:-1], rows)
    _print_fitting("Whole run", _COLUMNS, _rows(documents, shares))
    first = documents[0]["policy"]
    print(
        f"÷: times less imbalance than {first}. idle: mean over steps of 1 - mean/max load.\n"
        "barrier: share of worker time spent waiting at the barrier. energy: two-phase\n"
        "reading, then averaged. proven: share of the run's solved steps whose optimum\n"
        "was proven."
    )


def _print_fitting(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print one policy per row, or, where that is too wide, one per column, a few at a time."""
    width = console().width
    if width >= _WIDE:
        print_table(title, columns, rows)
        return
    together = max(1, (width - _NAMES_WIDTH) // _COLUMN_WIDTH)
    names = [name.replace("\n", " ") for name in columns]
    for k in range(0, len(rows), together):
        shown = rows[k : k + together]
        cells = [list(row) for row in zip(names[1:], *(r[1:] for r in shown), strict=True)]
        print_table(title, [names[0], *(row[0] for row in shown)], cells)


def _rows(
    documents: Sequence[Mapping[str, Any]], shares: Sequence[float | None]
) -> list[list[str]]:
    reference = documents[0].get("avg_imbalance")
    return [
        [
            document["policy"],
            number(document.get("avg_imbalance")),
            _ratio(reference, document.get("avg_imbalance")),
            number(document.get("avg_gap")),
            percent(document.get("idle_fraction")),
            percent(document.get("barrier_loss")),
            number(document.get("throughput_tokens_per_s")),
            _scaled(document.get("tpot_mean_s"), 1e3),
            _scaled(document.get("tpot_p95_s"), 1e3),
            _scaled(document.get("energy_j"), 1e-3),
            _scaled(document.get("energy_averaged_j"), 1e-3),
            number(document.get("steps")),
            percent(share),
        ]
        for document, share in zip(documents, shares, strict=True)
    ]


def _scaled(value: float | None, factor: float) -> str:
    return number(None if value is None else value * factor)


def _ratio(reference: float | None, value: float | None) -> str:
    if reference is None or value is None:
        return "–"
    if value == 0:
        return "1" if reference == 0 else "∞"
    return f"{reference / value:.3g}"
