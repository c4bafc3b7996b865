"""Generate the tables of READMEs and pages from committed results.

A result file is either the output of ``bfio study report FILE.toml --format csv``, next to its
study file or in the folder below it, or a plain table. A plain table is shown unchanged except for
the columns on the code that measured it. The tables of docs/library.md are generated from the
library. ``python -m benchmarks readme`` regenerates all tables.
"""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from bfio.common.provenance import ROOT
from bfio.common.text import TextTable
from bfio.library import Entry, Status, entries
from bfio.library.kind import value_text
from bfio.studies.report.files import write_text
from bfio.studies.report.markdown import filled, markdown_tables, read_records
from bfio.studies.study_file import read_study
from formulations.scalars import percent

#: Columns of a plain table on the code that measured a line; not shown.
COMMIT, CODE = "commit", "code"


#: Folder of the results for the README and pages of the project.
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (
    "README.md",
    "docs/commands.md",
    "docs/exact.md",
    "docs/findings.md",
    "docs/geometric-outputs.md",
    "docs/library.md",
    "docs/paper-tables.md",
    "docs/performance.md",
    "docs/windows.md",
)
#: Pages with the results of one numbered study.
PAGES_OF_STUDIES = {
    "docs/predictors.md": "21-predictors",
    "docs/worst-cases.md": "41-worst-cases",
}


def documents() -> Iterator[tuple[Path, Path]]:
    """Yield each document with generated tables, and the folder of its results."""
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
            # The first column is aligned left, the others right.
            header, *lines = shown(plain_lines(path))
            tables[path.stem] = TextTable("", header, lines).markdown()
    return tables


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


def library_tables() -> dict[str, str]:
    """Return the Markdown tables of docs/library.md by name."""
    known = entries()
    return {
        "library-families": _families(known),
        "library-open": _open([e for e in known if e.status is Status.OPEN]),
        "library-settled": _settled([e for e in known if e.status is not Status.OPEN]),
    }


def _families(known: Sequence[Entry]) -> str:
    groups: dict[tuple[str, str], list[Entry]] = {}
    for e in known:
        groups.setdefault((e.kind_name, e.family), []).append(e)
    lines = []
    kinds = list(dict.fromkeys(e.kind_name for e in known))
    for kind, family in sorted(groups, key=lambda group: (kinds.index(group[0]), group[1])):
        of = groups[kind, family]
        counts = [sum(e.status is status for e in of) for status in Status]
        worst = max((e.best.gap for e in of if e.best is not None), default=None)
        lines.append([kind, family, str(len(of)), *map(str, counts), percent(worst)])
    total = [sum(e.status is status for e in known) for status in Status]
    lines.append(["all", "", str(len(known)), *map(str, total), ""])
    heading = ["kind", "family", "entries", "closed", "claimed", "open", "largest gap"]
    return _table(heading, lines, words=2)


def _open(known: Sequence[Entry]) -> str:
    lines = []
    for e in known:
        best = e.best
        values = (None, None, None) if best is None else (best.objective, best.bound, best.claim)
        gap = percent(None if best is None else best.gap)
        by = "" if best is None else best.found_by.method
        lines.append([e.name, by, *(value_text(value, e.scale) for value in values), gap])
    heading = ["open", "found by", "best known", "proven bound", "claimed bound", "gap"]
    return _table(heading, lines, words=2)


def _settled(known: Sequence[Entry]) -> str:
    lines = []
    for e in known:
        best = e.best
        assert best is not None
        proof = f"{best.certificate}, by {best.proven_by.method}"
        if e.status is Status.CLAIMED:
            assert best.claimed_by is not None
            proof = f"claimed by {best.claimed_by.method}; {proof}"
        values = [value_text(value, e.scale) for value in (best.objective, best.bound)]
        lines.append([e.name, proof, *values])
    return _table(["closed or claimed", "certificate", "best known", "proven bound"], lines, 2)


def _table(heading: Sequence[str], lines: Sequence[Sequence[str]], words: int) -> str:
    return TextTable("", heading, lines, words=words).markdown().strip() + "\n"
