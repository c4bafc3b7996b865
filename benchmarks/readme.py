"""Generate the tables of READMEs and pages from committed results.

A result file is either the output of ``bfio study report FILE.toml --format csv``, next to its
study file or in the folder below it, or a plain table. A plain table is shown unchanged except for
the columns on the code that measured it. ``python -m benchmarks readme`` regenerates all tables.
"""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.library.page import library_tables
from bfio.common.import_closure import ROOT
from bfio.studies.report.files import write_text
from bfio.studies.report.markdown import filled, markdown_tables, read_records
from bfio.studies.study_file import read_study

#: Columns of a plain table on the code that measured a line; not shown.
COMMIT, CODE = "commit", "code"


#: Folder of the results for the README and pages of the project.
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (
    "README.md",
    "docs/commands.md",
    "docs/findings.md",
    "docs/geometric-outputs.md",
    "docs/library.md",
    "docs/paper-tables.md",
    "docs/performance.md",
)
#: Pages with the results of one numbered study.
PAGES_OF_STUDIES = {
    "docs/predictors.md": "21-predictors",
    "docs/worst-cases.md": "41-worst-cases",
}


def documents() -> Iterator[tuple[Path, Path]]:
    """Yield every document with generated tables, and the folder of its results."""
    for page in PAGES:
        yield ROOT / page, RESULTS
    for page, study in PAGES_OF_STUDIES.items():
        yield ROOT / page, ROOT / "benchmarks" / "studies" / study
    for path in sorted((ROOT / "benchmarks" / "studies").glob("*/README.md")):
        yield path, path.parent


def study_of(results: Path) -> Path | None:
    """Return the study file of a result file; None for a plain table."""
    name = results.with_suffix(".toml").name
    places = (results.parent / name, results.parents[1] / name)
    return next((place for place in places if place.is_file()), None)


def tables_of(folder: Path) -> dict[str, str]:
    """Return the Markdown tables from the results of a folder, by name.

    Raises
    ------
    InputError
        If a result file cannot be read.
    """
    tables = library_tables() if folder == RESULTS else {}
    for path in sorted(folder.glob("*.csv")):
        study = study_of(path)
        if study is not None:
            tables |= markdown_tables(read_study(study), read_records(path))
        else:
            tables[path.stem] = plain_table(path)
    return tables


def plain_table(path: Path) -> str:
    """Return a plain table as Markdown, with the first column aligned left and others right."""
    header, *lines = shown(plain_lines(path))
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "".join(f"| {' | '.join(line)} |\n" for line in (header, rule, *lines))


def shown(lines: Sequence[list[str]]) -> list[list[str]]:
    """Return the lines of a plain table without the columns on the code."""
    places = [place for place, name in enumerate(lines[0]) if name not in (COMMIT, CODE)]
    return [[line[place] for place in places] for line in lines]


def plain_lines(path: Path) -> list[list[str]]:
    """Return the lines of a plain table, header first."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream))


def made_anew(document: Path, folder: Path) -> str:
    """Return a document with its tables regenerated from the results in a folder."""
    return filled(document.read_text(encoding="utf-8"), tables_of(folder), str(document))


def write_all() -> None:
    """Regenerate the tables of all documents."""
    for document, folder in documents():
        write_text(document, made_anew(document, folder))
