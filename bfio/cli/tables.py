"""Print tables of runs, with the columns of the metrics."""

import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from math import hypot
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from bfio.cli.command import with_flags
from bfio.cli.output import console, print_table
from bfio.cli.so_far import note
from bfio.common.text import TableForm, TextTable, joined_csv, number
from formulations.scalars import percent

if TYPE_CHECKING:
    from bfio.decode.metrics import MetricChoice

Document: TypeAlias = Mapping[str, Any]
#: Heading and cells of a column.
Cells: TypeAlias = tuple[str, Sequence[str]]

#: Explanations of columns whose headings are not self-explanatory.
_LEGEND = {
    "idle_fraction": "idle: mean over steps of 1 - mean/max load.",
    "barrier_loss": "barrier: share of worker time spent waiting at the barrier for the most "
    "loaded worker.",
    "energy_per_token_j": "energy: two-phase reading, divided by the tokens of the part.",
    "ttft_mean_s": "TTFT: time to the first token.",
}
_PROSE_WIDTH = 88
#: Minimum width for a table with one policy per row. Below it, policies become columns.
_WIDE = 135
_NAMES_WIDTH, _COLUMN_WIDTH = 28, 13


def print_for_papers(tables: Iterable[TextTable], form: TableForm, remarks: Iterable[str]) -> None:
    """Print tables as Markdown, LaTeX or CSV, with remarks below the last one.

    CSV has no place for sentences, so remarks go to stderr.
    """
    *others, last = tables
    remarks = list(map(with_flags, remarks))
    if form is TableForm.CSV:
        print(joined_csv([*others, last]), end="")
        for remark in remarks:
            note(f"note: {remark}")
        return
    last = replace(last, notes=[*last.notes, *remarks])
    for k, table in enumerate((*others, last)):
        # LaTeX has the title in the caption.
        title = f"**{table.title}**\n\n" if form is TableForm.MARKDOWN else ""
        print("\n" * (k > 0) + title + table.written(form), end="")


def comparison_tables(
    documents: Sequence[Document], metrics: "MetricChoice", settings: str
) -> list[TextTable]:
    """Return the tables that `print_comparison` prints."""
    tables = []
    for title, columns in _tables(documents, metrics):
        heading, cells = zip(*columns, strict=True)
        lines = list(zip(*cells, strict=True))
        notes = [" ".join(_legend(documents, metrics, heading))]
        tables.append(TextTable(title, heading, lines, settings, notes=notes))
    return tables


def print_comparison(documents: Sequence[Document], metrics: "MetricChoice") -> None:
    """Print the table of the measured part, if any run has one, and the table of the whole run.

    Parameters
    ----------
    documents : sequence of mapping
        One per policy; see `bfio.decode.simulation.describe_run`.
    metrics : "MetricChoice"
        The metrics to show.
    """
    headings: list[str] = []
    for title, columns in _tables(documents, metrics):
        print_fitting(title, columns)
        headings += [heading for heading, _ in columns]
    print_sentences(*_legend(documents, metrics, headings))


def _legend(
    documents: Sequence[Document], metrics: "MetricChoice", headings: Collection[str]
) -> list[str]:
    """Return explanations of the abbreviated column headings."""
    names = metrics.shown or [name for name, _ in metrics.table.columns()]
    legend = [text for name, text in _LEGEND.items() if name in names]
    if "÷" in headings:
        legend.insert(0, f"÷: imbalance of {documents[0]['policy']} / imbalance of this policy.")
    if any(d["proven_share"] is not None for d in documents):
        legend.append("proven: share of the solved steps with proven optimum.")
    if any("second_proven_share" in d for d in documents):
        legend.append(
            "second proven: share of the solved steps whose second objective is also proven."
        )
    return legend


def print_sentences(*sentences: str) -> None:
    """Print sentences as one paragraph."""
    print(textwrap.fill(" ".join(sentences), min(_PROSE_WIDTH, console().width)))


def print_remarks(remarks: Iterable[str], plots: Iterable[Path] = ()) -> None:
    """Print remarks below a table, with flags for keywords, and the paths of written plots."""
    for remark in remarks:
        print_sentences(with_flags(remark))
    for path in plots:
        print(f"plot: {path}")


def run_cells(name: str, documents: Sequence[Document]) -> Cells:
    """Return a text column with a heading, such as the policy names."""
    return name, [str(document[name]) for document in documents]


def _tables(
    documents: Sequence[Document], metrics: "MetricChoice"
) -> Iterator[tuple[str, list[Cells]]]:
    """Yield title and columns of the table of the measured part, if any, and of the whole run."""
    parts = [{"policy": d["policy"]} | dict(d["measured"] or {}) for d in documents]
    if any(d["measured"] for d in documents):
        columns = _columns(parts, metrics)
        headings = [heading for heading, _ in columns]
        if (heading := metrics.table.column("avg_imbalance").heading) in headings:
            columns.insert(headings.index(heading) + 1, ("÷", list(imbalance_ratios(parts))))
        yield f"Measured: {measured_text(documents)}; ± 95 %", columns
    yield (
        "Whole run: requests without repetition, from the first step to the last",
        _columns(documents, metrics),
    )


def measured_text(documents: Sequence[Document]) -> str:
    """Return a description of the measured part common to all runs."""
    from bfio.decode.measured import MeasuredPart

    told = next(d["measured_part"] for d in documents if d["measured"])
    repeat = told["repeat"]
    part = MeasuredPart(**{entry.name: told[entry.name] for entry in fields(MeasuredPart)})
    return part.text + (f", requests repeated {repeat} times" if repeat > 1 else "")


def _columns(documents: Sequence[Document], metrics: "MetricChoice") -> list[Cells]:
    columns = [
        run_cells("policy", documents),
        *metrics.table.cells(documents, metrics.shown),
    ]
    for key, heading in (("proven_share", "proven"), ("second_proven_share", "second proven")):
        if any(document.get(key) is not None for document in documents):
            columns.append((heading, [percent(document.get(key)) for document in documents]))
    return columns


def imbalance_ratios(parts: Sequence[Document]) -> Iterator[str]:
    """Yield for each run the imbalance of the first run divided by its own, with interval."""
    first, *_ = values = [
        (part.get("avg_imbalance"), part.get("half_widths", {}).get("avg_imbalance"))
        for part in parts
    ]
    for k, (value, half_width) in enumerate(values):
        if first[0] is None or value is None:
            yield "–"
        elif k == 0 or value == 0:
            yield "1" if first[0] == value else "∞"
        else:
            ratio = first[0] / value
            error = None
            if first[0] and first[1] is not None and half_width is not None:
                error = ratio * hypot(first[1] / first[0], half_width / value)
            yield number(ratio, 3) if error is None else f"{number(ratio, 3)} ± {number(error, 2)}"


def print_fitting(title: str, columns: Sequence[Cells]) -> None:
    """Print one policy per row, or, if too wide, one per column, in several tables if needed."""
    headings, cells = zip(*columns, strict=True)
    width = console().width
    if width >= max(_WIDE, _width(columns)):
        print_table(title, headings, list(zip(*cells, strict=True)))
        return
    together = max(1, (width - _NAMES_WIDTH) // _COLUMN_WIDTH)
    names = [heading.replace("-\n", "").replace("\n", " ") for heading in headings]
    for k in range(0, len(cells[0]), together):
        rows = [[name, *own[k : k + together]] for name, own in zip(names, cells, strict=True)]
        print_table(title, rows[0], rows[1:])


def _width(columns: Sequence[Cells]) -> int:
    """Return the width of a table without wrapped words, including borders."""
    texts = ((*heading.split("\n"), *cells) for heading, cells in columns)
    return 1 + sum(max(map(len, column)) + 3 for column in texts)
