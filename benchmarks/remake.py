"""Recompute committed results, whole or as a sample, and compare them with the old numbers."""

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from benchmarks.compare_table import DATA, measure_table, measured
from benchmarks.provenance import CURRENT, MEASURED, Result
from benchmarks.readme import plain_lines, shown
from bfio.cli.commands.study import StudyProgress
from bfio.common.provenance import commit, is_dirty
from bfio.studies import row_kind
from bfio.studies.report.files import write_text
from bfio.studies.report.markdown import (
    ROWS,
    SETTINGS,
    Record,
    kept_tables,
    parsed_records,
    read_records,
    records_csv,
)
from bfio.studies.report_plan import ReportPlan, Shown, Table
from bfio.studies.results import Results
from bfio.studies.row import Value, fulfils
from bfio.studies.runner import StudyRunOptions, run_study
from bfio.studies.study import Grid, Smoke, Study
from formulations.errors import InputError
from formulations.named_objects import found_from

#: Columns of a record that are compared. Counts of rows follow from them.
_PARTS = ("estimate", "lower", "upper", "words", "ratio", "ratio_lower", "ratio_upper")
#: Preferred and largest time of a sample [s].
_SAMPLE_SECONDS, _LONGEST_SAMPLE = 5.0, 60.0
#: Relative tolerance. Results have eight digits, and machines sum in different orders.
_ROUNDING = 1e-6

#: Largest number of differences shown per result.
MAX_SHOWN = 5

_Arguments: TypeAlias = Mapping[str, Value]


def remake(result: Result, folder: Path, jobs: int) -> list[str]:
    """Recompute a result and write it; return the numbers that changed, except times.

    Rows in the store of the folder are kept, so that a killed run can continue.

    Parameters
    ----------
    result : Result
        Result of a study.
    folder : Path
        Folder of the stores of rows.
    jobs : int
        Number of processes; studies of speed use one.

    Raises
    ------
    InputError
        If it is a plain table, or fewer rows are done than before. Then nothing is written.
    """
    if result.state() == CURRENT and result.lost_commits():
        _name_todays_commit(result)
        return []
    if result.name in MEASURED:
        before = plain_lines(result.path)
        measure_table(DATA)
        return _other_cells(before, plain_lines(result.path))
    if result.study is None:
        raise InputError(result.name, "no command makes it", "see benchmarks/README.md")
    store = folder / f"{result.path.parent.name}-{result.path.stem}.sqlite"
    found = _computed(result.study, store, 1 if result.is_timed else jobs)
    least = int(result.origin.get("done", 1))
    if len(found.done) < least:
        what = f"{len(found.done)} rows are done, where {least} were before"
        raise InputError(result.name, what, f"run it again with less load; rows are in {store}")
    text = records_csv(found)
    old = read_records(result.path) if result.path.is_file() else []
    write_text(result.path, text)
    return differences(old, parsed_records(text), timings(found))


def _name_todays_commit(result: Result) -> None:
    """Replace lost commits by today's; its sources have the same digest.

    Raises
    ------
    InputError
        If the sources differ from the commit.
    """
    today = commit()
    if today is None or is_dirty("bfio", "formulations", ":(glob)benchmarks/**/*.py"):
        raise InputError(result.name, "its sources are in no commit", "commit them first")
    text = result.path.read_text(encoding="utf-8")
    for lost in result.lost_commits():
        name = re.compile(rf"\b{lost.split()[0]}([0-9a-f]*)(?: with changes|, changed)?")
        text = name.sub(lambda found: today[: 7 + len(found[1])], text)
    write_text(result.path, text)


def sample(result: Result) -> list[str]:
    """Recompute the rows of one line of a result; return the numbers that changed.

    The digest of the code determines the line, so that different code is tested on different
    lines. Measured times, and numbers affected by a time limit, are not compared.

    Raises
    ------
    InputError
        If a trace is missing, a row is invalid, or every line takes too long.
    """
    if result.name in MEASURED:
        return _other_cells(plain_lines(result.path), measured(DATA))
    if result.study is None:
        raise InputError(result.name, "no command makes it", "see benchmarks/README.md")
    plan, rows = _line(result, result.study)
    alone = replace(plan, name=plan.key, baseline={}, ratios=(), published=(), where={},
                    show=Shown.ALL)  # fmt: skip
    grids = [Grid({name: [value] for name, value in row.items()}) for row in rows]
    part = replace(result.study, grids=grids, fixed={}, smoke=Smoke(), is_small=True,
                   report=ReportPlan((alone,)))  # fmt: skip
    with TemporaryDirectory() as folder:
        found = _computed(part, Path(folder) / "sample.sqlite", 1)
    if not found.done:
        return [f"{plan.key}: none of {len(rows)} rows is done"]
    new = parsed_records(records_csv(found))
    keys = {_key(record) for record in new}
    old = [record for record in read_records(result.path) if _key(record) in keys]
    return differences(old, new, timings(found), ("estimate", "lower", "upper", "words"))


def _line(result: Result, study: Study) -> tuple[Table, list[_Arguments]]:
    """Return the table and rows of a line that takes a few seconds.

    Raises
    ------
    InputError
        If every line takes too long.
    """
    lines: list[tuple[Table, list[_Arguments]]] = []
    for table in kept_tables(study):
        groups: dict[tuple[Value, ...], list[_Arguments]] = {}
        for row in study.rows():
            if fulfils(row, table.where):
                groups.setdefault(tuple(map(row.get, table.rows)), []).append(row)
        lines += [(table, rows) for rows in groups.values()]
    one = result.seconds / float(result.origin["done"])
    few = [line for line in lines if one * len(line[1]) <= _SAMPLE_SECONDS]
    few = few or [min(lines, key=lambda line: len(line[1]))]
    if (seconds := one * len(few[0][1])) > _LONGEST_SAMPLE:
        what = f"its shortest line takes {seconds:.0f} s"
        raise InputError(result.name, what, f"run python -m benchmarks remake {result.name}")
    return few[int(result.code_today(), 16) % len(few)]


def _computed(study: Study, store: Path, jobs: int) -> Results:
    with found_from(study.home), StudyProgress(lambda: False) as progress:
        options = StudyRunOptions(jobs=jobs, retry=True)
        return run_study(study, store, options, on_start=progress.start, on_row=progress.add)


def timings(found: Results) -> set[str]:
    """Return the names of measured times in rows."""
    measured = {entry.name for entry in row_kind.MEASURED} - {"solves", "unproven"}
    return measured | {name for row in found.done for name in row.timings}


def differences(
    old: Sequence[Record],
    new: Sequence[Record],
    leave_out: Collection[str],
    parts: Sequence[str] = _PARTS,
) -> list[str]:
    """Return a line for each number that differs between two results.

    Parameters
    ----------
    old, new : sequence of mapping
        Records of the results.
    leave_out : collection of str
        Values that are not compared, such as measured times. Lines affected by a time limit, and
        place and date of the computation, are never compared.
    parts : sequence of str
        Columns that are compared.
    """
    before, after = ({_key(r): r for r in _compared(which, leave_out)} for which in (old, new))
    clocked = {_key(r) for r in (*old, *new) if r.get("rows_clocked")}
    return [
        f"{' '.join(filter(None, key))} {part}: {one or 'none'} before, {other or 'none'} now"
        for key in dict.fromkeys([*before, *after])
        if key not in clocked
        for part in parts
        if not _are_equal(
            one := before.get(key, {}).get(part) or "", other := after.get(key, {}).get(part) or ""
        )
    ]


def _are_equal(one: str, other: str) -> bool:
    """Return whether two texts are equal, or are numbers that are equal up to rounding."""
    try:
        return math.isclose(float(one), float(other), rel_tol=_ROUNDING)
    except ValueError:
        return one == other


def _other_cells(old: Sequence[list[str]], new: Sequence[list[str]]) -> list[str]:
    """Return the differing lines of a measured plain table.

    A line with an entry in the last column, the share of proven steps, depends on a time limit.
    """
    return [
        f"{' | '.join(one)} before, {' | '.join(other)} now"
        for one, other in zip_longest(shown(old), shown(new), fillvalue=[""])
        if one != other and not one[-1]
    ]


def _compared(records: Sequence[Record], leave_out: Collection[str]) -> Iterator[Record]:
    for record in records:
        if record["table"] != ROWS and record["value"] not in (SETTINGS, *leave_out):
            yield record


def _key(record: Record) -> tuple[str, ...]:
    """Return the identity of a record: table, arguments, value, source."""
    arguments = [
        f"{name.removeprefix('argument.')}={text}"
        for name, text in sorted(record.items())
        if name.startswith("argument.") and text
    ]
    return (record["table"], *arguments, record["value"], record.get("source") or "")


def remake_all(
    wanted: Sequence[Result], folder: Path, jobs: int, say: Callable[[str], None]
) -> int:
    """Recompute results, quick ones first; return the number of failures.

    Parameters
    ----------
    wanted : sequence of Result
        The results.
    folder : Path
        Folder of the stores of rows.
    jobs : int
        Number of processes.
    say : callable
        Takes a line on the progress.
    """
    failed = 0
    ordered = sorted(wanted, key=lambda result: result.seconds)
    for place, result in enumerate(ordered):
        rest = sum(_wall(other, jobs) for other in ordered[place:])
        say(f"{result.name} ({place + 1} of {len(ordered)}; about {rest / 60:.0f} min left)")
        try:
            others = remake(result, folder, jobs)
        except InputError as error:
            failed += 1
            say(f"{result.name}: {error}")
            continue
        verdict = f"{len(others)} numbers differ" if others else "all numbers equal"
        say(f"{result.name}: {verdict}")
        for line in others[:MAX_SHOWN]:
            say(f"  {line}")
    return failed


def _wall(result: Result, jobs: int) -> float:
    return result.seconds / (1 if result.is_timed else jobs)
