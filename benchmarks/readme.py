"""Tables of READMEs, made of the results that are committed beside them.

A result file is either what ``bfio study report FILE.toml --format csv`` writes, beside its study
file or in the folder below it, or a plain table: one line per line, shown as it is but for its
column ``commit``, which says by which code it was measured. ``python -m benchmarks readme`` writes
all tables anew.
"""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.library.page import library_tables
from bfio.common.import_closure import ROOT
from bfio.studies.report.files import write_text
from bfio.studies.report.markdown import filled, markdown_tables, read_records
from bfio.studies.study_file import read_study

#: Say by which code a line of a plain table was measured; not shown.
COMMIT, CODE = "commit", "code"


#: What the README and pages of the project are made of.
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
#: Pages with results of one numbered study.
PAGES_OF_STUDIES = {
    "docs/predictors.md": "21-predictors",
    "docs/worst-cases.md": "41-worst-cases",
}


def documents() -> Iterator[tuple[Path, Path]]:
    """Yield every document with numbers, and the folder of its results."""
    for page in PAGES:
        yield ROOT / page, RESULTS
    for page, study in PAGES_OF_STUDIES.items():
        yield ROOT / page, ROOT / "benchmarks" / "studies" / study
    for path in sorted((ROOT / "benchmarks" / "studies").glob("*/README.md")):
        yield path, path.parent


def study_of(results: Path) -> Path | None:
    """Return the study file of a result file; None if it is a plain table."""
    name = results.with_suffix(".toml").name
    places = (results.parent / name, results.parents[1] / name)
    return next((place for place in places if place.is_file()), None)


def tables_of(folder: Path) -> dict[str, str]:
    """Return the Markdown tables that the results of a folder make, by name.

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
    """Return a plain table as Markdown, its first column left, all others right."""
    header, *lines = shown(plain_lines(path))
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "".join(f"| {' | '.join(line)} |\n" for line in (header, rule, *lines))


def shown(lines: Sequence[list[str]]) -> list[list[str]]:
    """Return the lines of a plain table without what says by which code they were measured."""
    places = [place for place, name in enumerate(lines[0]) if name not in (COMMIT, CODE)]
    return [[line[place] for place in places] for line in lines]


def plain_lines(path: Path) -> list[list[str]]:
    """Return the lines of a plain table, its header first."""
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream))


def made_anew(document: Path, folder: Path) -> str:
    """Return a document with its tables made of the results in a folder."""
    return filled(document.read_text(encoding="utf-8"), tables_of(folder), str(document))


def write_all() -> None:
    """Write the tables of all documents anew."""
    for document, folder in documents():
        write_text(document, made_anew(document, folder))
