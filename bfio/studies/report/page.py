"""The report of a study: one page that needs nothing else, and its tables and figures as files."""

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from bfio.studies.kinds import describe
from bfio.studies.report import figures, provenance, summary
from bfio.studies.report.drawing import Drawing, add_settings, inline_svg, to_png, to_svg
from bfio.studies.report.export import export_files
from bfio.studies.report.files import csv_text, slug, write_all
from bfio.studies.report.selection import conditions, matches
from bfio.studies.report.tables import TableView, build
from bfio.studies.report.text import printable
from bfio.studies.report.traced import Cell, Traced
from bfio.studies.report_plan import Figure
from bfio.studies.results import Results
from bfio.studies.settings import study_remarks, study_settings

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

#: Keys are written once per cell of a table if they take more characters.
_LONG_KEYS = 2000


@dataclass(frozen=True)
class FigureView:
    """A figure as the page shows it, and as files."""

    plan: Figure
    drawing: Drawing
    name: str
    svg: str
    png: bytes
    settings: str = ""

    @property
    def inline(self) -> str:
        """The SVG as it stands in the page."""
        return inline_svg(self.svg, self.name) if self.svg else ""


def write_report(results: Results, folder: Path) -> list[Path]:
    """Write the report of a study and return the paths of its files.

    ``report.html`` (one page without network), ``rows.csv`` and ``rows.parquet``,
    ``tables/*.csv``, and ``figures/*`` as SVG and PNG with the data drawn as CSV. Equal rows give
    equal files.

    Parameters
    ----------
    results : Results
        Planned and computed rows.
    folder : Path
        Where the files go; made if it is not there.

    Raises
    ------
    InputError
        If no row is done yet, the rows cannot be shown as planned, or the folder cannot be
        written.
    """
    summary.check_some_done(results)
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
    # Last, so that the page never speaks of files that are not there yet.
    contents["report.html"] = render(results, tables, drawn).encode()
    return write_all(folder, contents)


def _exact(piece: str | Traced) -> str:
    return piece.exact if isinstance(piece, Traced) else piece


def _figure(number: int, plan: Figure, results: Results) -> FigureView:
    rows = [row for row in results.rows.values() if matches(row.task, plan.where)]
    drawing = figures.draw(plan, rows)
    name = slug(number, plan.title)
    settings = study_settings(results, [row.task for row in rows]) if rows else ""
    if drawing.figure is None:
        return FigureView(plan, drawing, name, "", b"", settings)
    add_settings(drawing.figure, settings)
    svg = to_svg(drawing.figure)
    # The layout is found; finding it again takes longer than drawing.
    drawing.figure.set_layout_engine("none")
    return FigureView(plan, drawing, name, svg, to_png(drawing.figure), settings)


def render(results: Results, tables: Sequence[TableView], drawn: Sequence[FigureView]) -> str:
    """Return the page."""
    resources = files("bfio.studies.report")
    style, script = (resources.joinpath(f"page.{end}").read_text("utf-8") for end in ("css", "js"))
    plan = results.study.report
    names = [name for table in plan.tables for name in table.values]
    names += [figure.y for figure in plan.figures]
    page = _template().render(
        results=results,
        study=results.study,
        counts=summary.counts(results),
        reservations=summary.reservations(results),
        effort=summary.effort(results),
        grids=summary.axes(results.study),
        settings=study_settings(results),
        remarks=study_remarks(results.tasks),
        varied=summary.varied(results),
        tables=tables,
        figures=drawn,
        failed=summary.failed(results),
        max_failed=summary.MAX_FAILED,
        glossary=[describe(results.study.computes, name) for name in dict.fromkeys(names)],
        environments=provenance.environments(results),
        code_versions=provenance.code_versions(results),
        dates=provenance.dates(results),
        version=version("bfio"),
        style=style,
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    # Whatever rows and data files hold: no character that HTML forbids.
    return printable(page)


@cache
def _template() -> "Template":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("bfio.studies.report", "."),
        # Names and values come from users and data files: nothing is trusted to be HTML.
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"breakable": breakable, "hoisted": hoisted, "conditions": conditions}
    return environment.get_template("page.html.jinja")


def breakable(name: str) -> "Markup":
    """Return a name that may be broken after each underscore and point."""
    from markupsafe import Markup

    pieces = [Markup.escape(piece) for piece in re.split(r"(?<=[_.])", name)]
    return Markup("<wbr>").join(pieces)


def hoisted(cell: Cell) -> tuple[Mapping[str, str], Cell]:
    """Return a cell with long keys that its numbers share moved to the cell itself."""
    shared = next((p.attributes for phrase in cell for p in phrase if isinstance(p, Traced)), {})
    marks = {n: t for n, t in shared.items() if n.endswith("keys") and len(t) > _LONG_KEYS}

    def without(piece: str | Traced) -> str | Traced:
        # A number of other rows, or of no baseline, must keep all it says.
        if isinstance(piece, str) or not marks.items() <= piece.attributes.items():
            return piece
        rest = {name: text for name, text in piece.attributes.items() if name not in marks}
        return replace(piece, attributes=rest)

    return marks, [[without(piece) for piece in phrase] for phrase in cell] if marks else cell
