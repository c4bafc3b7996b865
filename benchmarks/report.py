"""Turn the rows of a folder into one Markdown page and one figure per case."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.case import Row
from benchmarks.registry import cases
from benchmarks.store import read_rows
from benchmarks.summary import grouped, markdown_table
from formulations.errors import InputError

FILE_NAME = "report.md"


def write_report(folder: Path) -> Path:
    """Write ``report.md`` and ``CASE.png`` files into a folder of rows; return the page's path.

    Raises
    ------
    InputError
        If there are no rows, or a row is of no case known here.
    """
    rows = latest_rows(read_rows(folder))
    if not rows:
        raise InputError(str(folder), "no rows", "run a case first")
    parts = ["# Benchmark report\n", _origin(rows), _failures(rows)]
    for name, own in grouped(rows, lambda row: str(row["case"])).items():
        parts.append(_section(name, own, folder))
    page = folder / FILE_NAME
    page.write_text("\n".join(parts), encoding="utf-8")
    return page


def latest_rows(rows: Sequence[Row]) -> list[Row]:
    """Keep the last row of each case, instance, method and time limit."""
    last: dict[tuple[object, ...], Row] = {}
    for row in rows:
        limit = row["parameters"].get("time_limit")
        key = (row["case"], row["instance"], row["method"], limit)
        # Taken out first, so that rows stay in the order they were measured.
        last.pop(key, None)
        last[key] = row
    return list(last.values())


def _section(name: str, rows: Sequence[Row], folder: Path) -> str:
    if name not in cases():
        raise InputError(name, "rows of an unknown case", "report with the code that made them")
    case = cases()[name]
    lines = [f"## {name}\n", f"{case.summary}.\n"]
    figure = case.figure(rows)
    if figure is not None:
        figure.savefig(folder / f"{name}.png", dpi=150)
        lines.append(f"![{name}]({name}.png)\n")
    lines.append(case.tables(rows))
    return "\n".join(lines)


def _origin(rows: Sequence[Row]) -> str:
    """Say with what the rows were measured; more than one line means they are not of one kind."""
    origins = grouped(rows, _origin_of)
    table = markdown_table(
        ("processor", "cores", "commit", "dirty", "sources", "versions", "rows"),
        [(*origin, str(len(members))) for origin, members in origins.items()],
    )
    warning = "\nRows of several origins: compare with care.\n" if len(origins) > 1 else ""
    return table + warning


def _origin_of(row: Row) -> tuple[str, ...]:
    found = row["environment"]
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    commit = str(found["commit"])[:12]
    machine = found["machine"]
    processor, cores = str(machine["processor"]), str(machine["cores"])
    return processor, cores, commit, str(found["dirty"]), found["sources"], versions


def _failures(rows: Sequence[Row]) -> str:
    failed = [row for row in rows if row["status"] != "ok"]
    lines = [f"{len(rows)} rows, {len(failed)} failed.\n"]
    lines += [
        f"- {row['case']} {row['instance']} {row['method']}: {'; '.join(row['problems'])}"
        for row in failed
    ]
    return "\n".join(lines) + "\n"
