"""Tables of runs from their documents: the columns that metrics ask for."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from bfio.cli.output import console, number, percent, print_table
from bfio.common.metrics import Column, MetricTable
from bfio.decode.metrics import METRICS

Document: TypeAlias = Mapping[str, Any]
#: Heading and cells of a column.
Cells: TypeAlias = tuple[str, Sequence[str]]

#: Width that a table with one policy per row needs; below it policies become columns.
_WIDE = 135
_NAMES_WIDTH, _COLUMN_WIDTH = 28, 13


def print_comparison(documents: Sequence[Document]) -> None:
    """Print the steady table, if any run has a steady part, and the whole-run table."""
    steady = [{"policy": d["policy"]} | dict(d["steady"] or {}) for d in documents]
    if any(d["steady"] for d in documents):
        title = "Steady part (from the first full cluster on, while requests wait)"
        _print_fitting(title, _columns(steady))
    proven = ("proven", [percent(d["proven_share"]) for d in documents])
    _print_fitting("Whole run", [*_columns(documents), proven])
    first = documents[0]["policy"]
    print(
        f"÷: times less imbalance than {first}. idle: mean over steps of 1 - mean/max load.\n"
        "barrier: share of worker time spent waiting at the barrier. energy: two-phase\n"
        "reading, then averaged. proven: share of the run's solved steps whose optimum\n"
        "was proven."
    )


def run_cells(name: str, documents: Sequence[Document]) -> Cells:
    """Return a column of texts, such as the names of policies."""
    return name, [str(document[name]) for document in documents]


def metric_cells(table: MetricTable[Any], documents: Sequence[Document]) -> list[Cells]:
    """Return the columns of a table of metrics, one line per document of a run."""
    return [
        (column.heading, [_cell(column, document.get(name)) for document in documents])
        for name, column in table.columns()
    ]


def _cell(column: Column, value: float | None) -> str:
    if column.is_share:
        return percent(value)
    return number(value if value is None or column.factor == 1 else value * column.factor)


def _columns(documents: Sequence[Document]) -> list[Cells]:
    columns = [run_cells("policy", documents), *metric_cells(METRICS, documents)]
    imbalances = [document.get("avg_imbalance") for document in documents]
    columns.insert(2, ("÷", [_ratio(imbalances[0], value) for value in imbalances]))
    return columns


def _print_fitting(title: str, columns: Sequence[Cells]) -> None:
    """Print one policy per row, or, where that is too wide, one per column, a few at a time."""
    headings, cells = zip(*columns, strict=True)
    width = console().width
    if width >= _WIDE:
        print_table(title, headings, list(zip(*cells, strict=True)))
        return
    together = max(1, (width - _NAMES_WIDTH) // _COLUMN_WIDTH)
    names = [heading.replace("\n", " ") for heading in headings]
    for k in range(0, len(cells[0]), together):
        rows = [[name, *own[k : k + together]] for name, own in zip(names, cells, strict=True)]
        print_table(title, rows[0], rows[1:])


def _ratio(reference: float | None, value: float | None) -> str:
    if reference is None or value is None:
        return "–"
    if value == 0:
        return "1" if reference == 0 else "∞"
    return f"{reference / value:.3g}"
