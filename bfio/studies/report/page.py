"""Render a report as an HTML page, with counts of its rows, and write its other files."""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bfio.studies.kinds import describe
from bfio.studies.report import figures
from bfio.studies.report.drawing import Drawing, add_settings, inline_svg, to_png, to_svg
from bfio.studies.report.files import (
    csv_text,
    environment_id,
    export_files,
    printable,
    shortened,
    slug,
    write_all,
)
from bfio.studies.report.selection import conditions, grouped, keys_of
from bfio.studies.report.statistics import total
from bfio.studies.report.tables import TableView, build
from bfio.studies.report.traced import Cell, Phrase, Traced, counted, origin, traced
from bfio.studies.report_plan import Figure
from bfio.studies.results import ENDS, Results, check_some_done, study_remarks, study_settings
from bfio.studies.row import Row, RowVerdict, Value, canonical, fulfils, label
from bfio.studies.study import Study

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup


def environments(results: Results) -> list[tuple[str, Traced, list[tuple[str, str]]]]:
    """Return each computing environment: identifier, number of rows, entries."""
    found: dict[str, list[Row]] = {}
    for row in results.rows.values():
        found.setdefault(canonical(row.environment), []).append(row)
    environments = []
    for rows in found.values():
        own = rows[0].environment
        entries = []
        for name, value in own.items():
            if isinstance(value, Mapping):
                told = ", ".join(f"{inner} {_text(item)}" for inner, item in value.items())
                entries.append((name, told))
            else:
                # A clearer name than the stored one.
                known = "uncommitted changes" if name == "dirty" else name
                entries.append((known, _text(value)))
        identifier = environment_id(own)
        count = counted(keys_of(rows), identifier, "environment")
        environments.append((identifier or "unknown", count, entries))
    return environments


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "unknown" if value is None else str(value)


def dates(results: Results) -> tuple[str, str]:
    """Return when the first and the last row ended; empty texts if unknown."""
    known = sorted(row.finished_at for row in results.rows.values() if row.finished_at)
    return (known[0], known[-1]) if known else ("", "")


#: Largest numbers of failed rows and axis values listed on the page. Others are counted.
MAX_FAILED, _MAX_VALUES = 200, 16
_HEAD_VALUES = 12


@dataclass(frozen=True)
class Count:
    """A row count with its meaning; counts of problems are marked as bad."""

    number: Traced
    text: str
    is_bad: bool = False


def counts(results: Results) -> list[Count]:
    """Return the number of planned rows by status; the counts add up to all planned rows."""
    missing = keys_of(task for task in results.tasks if task.key not in results.rows)
    rows = list(results.rows.values())
    return [
        Count(counted(keys_of(results.tasks), "planned"), "planned"),
        _count("done", "done", results.done),
        *(
            _count(status.value, text, [row for row in rows if row.status is status], is_bad=True)
            for status, text in ENDS.items()
        ),
        Count(counted(missing, "missing"), "not computed yet", is_bad=bool(missing)),
    ]


def reservations(results: Results) -> list[Count]:
    """Return the counts of rows with unproven optima or time limits, and of checked rows."""
    done = results.done
    clocked = [row for row in results.rows.values() if row.stopped_by_clock]
    passed = [row for row in done if row.verdict is RowVerdict.PASSED]
    unchecked = [row for row in done if row.verdict is RowVerdict.NONE]
    unproven = [row for row in done if row.unproven > 0]
    return [
        _count("unproven", "with an unproven optimum", unproven, is_bad=True),
        _count("stopped-by-clock", "stopped by a time limit", clocked, is_bad=True),
        _count("passed", "passed by an independent checker", passed),
        _count("unchecked", "with nothing to check", unchecked),
    ]


def _count(name: str, text: str, rows: Sequence[Row], is_bad: bool = False) -> Count:
    return Count(counted(keys_of(rows), name), text, is_bad and bool(rows))


def effort(results: Results) -> Phrase:
    """Return a sentence on the processor time and peak memory of the rows."""
    rows = list(results.rows.values())
    keys = keys_of(rows)
    seconds = traced(total([row.cpu_s for row in rows]), "sum", origin(keys, "cpu_s"))
    most = max(row.peak_memory_bytes for row in rows) / 2**20
    memory = traced(round(most), "max-mebibytes", origin(keys, "peak_memory_bytes"))
    return (
        "Computing them took ",
        seconds,
        " s of processor time and at most ",
        memory,
        " MiB of memory in one row.",
    )


def axes(study: Study) -> list[list[tuple[str, str, int]]]:
    """Return the axes of each grid: name, listed values, number of values."""
    return [
        [(name, _listed(values), len(values)) for name, values in grid.axes.items()]
        for grid in study.grids
    ]


def varied(results: Results) -> str:
    """Return the varying arguments as text, each with its number of values."""
    names = results.study.axes()
    counts = {name: len(grouped(results.tasks, [name])) for name in names}
    return ", ".join(f"{name} ({count})" for name, count in counts.items() if count > 1)


def _listed(values: Sequence[Value]) -> str:
    if len(values) <= _MAX_VALUES:
        return ", ".join(label(value) for value in values)
    head = ", ".join(label(value) for value in values[:_HEAD_VALUES])
    return f"{head}, … {label(values[-1])}"


def failed(results: Results) -> list[tuple[Row, str, str]]:
    """Return the rows that were computed without success, with their arguments and errors."""
    varying, found = set(results.study.axes()), []
    for row in results.rows.values():
        own = [(name, value) for name, value in row.task.arguments.items() if name in varying]
        told = ", ".join(f"{name} = {label(value)}" for name, value in own)
        if not row.is_done:
            found.append((row, told, shortened(row.error)))
    return found


#: Keys that share more characters than this are written once per table cell.
_LONG_KEYS = 2000


@dataclass(frozen=True)
class FigureView:
    """A figure, rendered for the page and for files."""

    plan: Figure
    drawing: Drawing
    name: str
    svg: str
    png: bytes
    settings: str = ""

    @property
    def inline(self) -> str:
        """The SVG text embedded in the page."""
        return inline_svg(self.svg, self.name) if self.svg else ""


def write_report(results: Results, folder: Path) -> list[Path]:
    """Write the report of a study and return the paths of its files.

    ``report.html`` (one page that needs no network), ``rows.csv`` and ``rows.parquet``,
    ``tables/*.csv``, and ``figures/*`` as SVG and PNG with their data as CSV. Equal rows give
    equal files.

    Parameters
    ----------
    results : Results
        Planned and computed rows.
    folder : Path
        Folder of the files; created if missing.

    Raises
    ------
    InputError
        If no row is done yet, the rows cannot be shown as planned, or the folder cannot be
        written.
    """
    check_some_done(results)
    plan = results.study.report
    tables = [build(table, results) for table in plan.tables]
    drawn = [_figure(number, each, results) for number, each in enumerate(plan.figures, start=1)]
    contents = export_files(results)
    for number, table in enumerate(tables, start=1):
        columns = list(dict.fromkeys(name for record in table.records for name in record))
        lines = [[record.get(name) for name in columns] for record in table.records]
        contents[f"tables/{slug(number, table.plan.title)}.csv"] = csv_text(columns, lines)
    for view in drawn:
        if view.svg:
            data = view.drawing.table
            exact = [["".join(map(_exact, cell[0])) for cell in line.cells] for line in data.lines]
            contents[f"figures/{view.name}.svg"] = view.svg.encode()
            contents[f"figures/{view.name}.png"] = view.png
            headings = [column.label for column in data.columns]
            contents[f"figures/{view.name}.csv"] = csv_text(headings, exact)
    # The page comes last, so that it never refers to files that are not written yet.
    contents["report.html"] = render(results, tables, drawn).encode()
    return write_all(folder, contents)


def _exact(piece: str | Traced) -> str:
    return piece.exact if isinstance(piece, Traced) else piece


def _figure(number: int, plan: Figure, results: Results) -> FigureView:
    rows = [row for row in results.rows.values() if fulfils(row.task.arguments, plan.where)]
    drawing = figures.draw(plan, rows)
    name = slug(number, plan.title)
    settings = study_settings(results, [row.task for row in rows]) if rows else ""
    if drawing.figure is None:
        return FigureView(plan, drawing, name, "", b"", settings)
    add_settings(drawing.figure, settings)
    svg = to_svg(drawing.figure)
    # The layout is final here. Computing it again would take longer than drawing.
    drawing.figure.set_layout_engine("none")
    return FigureView(plan, drawing, name, svg, to_png(drawing.figure), settings)


def render(results: Results, tables: Sequence[TableView], drawn: Sequence[FigureView]) -> str:
    """Render the HTML page."""
    resources = files("bfio.studies.report")
    style, script = (resources.joinpath(f"page.{end}").read_text("utf-8") for end in ("css", "js"))
    plan = results.study.report
    names = [name for table in plan.tables for name in table.values]
    names += [figure.y for figure in plan.figures]
    page = _template().render(
        results=results,
        study=results.study,
        counts=counts(results),
        reservations=reservations(results),
        effort=effort(results),
        grids=axes(results.study),
        settings=study_settings(results),
        remarks=study_remarks(results.tasks),
        varied=varied(results),
        tables=tables,
        figures=drawn,
        failed=failed(results),
        max_failed=MAX_FAILED,
        glossary=[describe(results.study.computes, name) for name in dict.fromkeys(names)],
        environments=environments(results),
        code_versions=sorted({task.code for task in results.tasks}),
        dates=dates(results),
        version=version("bfio"),
        style=style,
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    # Remove characters that HTML forbids; rows and data files may contain them.
    return printable(page)


@cache
def _template() -> "Template":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("bfio.studies.report", "."),
        # Names and values come from users and data files, so escape all of them.
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"breakable": breakable, "hoisted": hoisted, "conditions": conditions}
    return environment.get_template("page.html.jinja")


def breakable(name: str) -> "Markup":
    """Return a name as HTML that may break after underscores and dots."""
    from markupsafe import Markup

    pieces = [Markup.escape(piece) for piece in re.split(r"(?<=[_.])", name)]
    return Markup("<wbr>").join(pieces)


def hoisted(cell: Cell) -> tuple[Mapping[str, str], Cell]:
    """Return a cell whose row keys, if its numbers share them, are moved to the cell itself."""
    shared = next((p.attributes for phrase in cell for p in phrase if isinstance(p, Traced)), {})
    marks = {n: t for n, t in shared.items() if n.endswith("keys") and len(t) > _LONG_KEYS}

    def without(piece: str | Traced) -> str | Traced:
        # A number with other keys, or without a baseline, keeps its own attributes.
        if isinstance(piece, str) or not marks.items() <= piece.attributes.items():
            return piece
        rest = {name: text for name, text in piece.attributes.items() if name not in marks}
        return replace(piece, attributes=rest)

    return marks, [[without(piece) for piece in phrase] for phrase in cell] if marks else cell
