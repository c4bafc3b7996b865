"""List outdated results and recompute them: ``python -m benchmarks stale`` and ``remake``.

The table ``rows`` of a result names the commit and the digest of the computing code. The digest,
that of the import closure in the keys of rows, decides whether the result is current; it does not
depend on the history of the checkout. The commit tells readers where the code is. Results are
recomputed completely or as a sample, and compared with the old numbers.
"""

import argparse
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import filter as matching
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from benchmarks import compare_table
from benchmarks.compare_table import DATA, measure_table, measured
from benchmarks.readme import CODE, COMMIT, RESULTS, plain_lines, shown, study_of, write_all
from bfio.cli.command import DONE, say
from bfio.cli.commands.study import StudyProgress
from bfio.cli.options import add_action, add_by_usage
from bfio.common.provenance import ROOT, closure_digest, commit, has_commit, is_dirty
from bfio.studies import row_kind
from bfio.studies.kinds import code_version
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
from bfio.studies.study import Study
from bfio.studies.study_file import read_study
from formulations.arrays import integer
from formulations.errors import InputError, use_one_of
from formulations.named_objects import found_from

CURRENT, CHANGED, DERIVED, MISSING = "current", "the code has changed", "derived", "no rows"
#: Plain tables measured by a command, with its module. Scripts next to the others derive them.
MEASURED = {"results/compare": compare_table.__name__}


@dataclass(frozen=True)
class Result:
    """A committed result: the numbers of a study, or a plain table.

    Parameters
    ----------
    path : Path
        The file. It is missing for a study that was never reported.
    study_file : Path, optional
        The study file; None for a plain table.
    """

    path: Path
    study_file: Path | None

    @property
    def name(self) -> str:
        """Folder and stem of the result file."""
        return f"{self.path.parent.name}/{self.path.stem}"

    @cached_property
    def study(self) -> Study | None:
        """The study of the result; None for a plain table."""
        return None if self.study_file is None else read_study(self.study_file)

    @cached_property
    def origin(self) -> Mapping[str, str]:
        """Entries of the result's table ``rows``: ``commit``, ``code``, ``cpu_s``, ..."""
        if not self.path.is_file():
            return {}
        if self.study is None:
            header, *lines = plain_lines(self.path)
            cells = {name: {line[k] for line in lines} for k, name in enumerate(header)}
            return {name: ", ".join(sorted(cells.get(name, []))) for name in (COMMIT, CODE)}
        records = [record for record in read_records(self.path) if record["table"] == ROWS]
        return {record["value"]: record.get("words") or record["estimate"] for record in records}

    @property
    def commits(self) -> list[str]:
        """Commits named in the result."""
        return [name for name in re.split(", | and ", self.origin.get(COMMIT, "")) if name]

    @property
    def seconds(self) -> float:
        """Processor time of the rows [s]; 0 if unknown."""
        return float(self.origin.get("cpu_s") or 0)

    @property
    def is_timed(self) -> bool:
        """Whether the rows measure speed and must run alone."""
        return self.study is not None and self.study.computes.startswith("benchmarks.")

    @property
    def script(self) -> str:
        """The script in the result's folder that writes the plain table; empty if none."""
        scripts = () if self.study is not None else sorted(self.path.parent.glob("*.py"))
        named = (s.name for s in scripts if self.path.name in s.read_text(encoding="utf-8"))
        return next(named, "")

    def lost_commits(self) -> list[str]:
        """Return the commits named in the result that the checkout does not have."""
        return [name for name in self.commits if has_commit(name) is False]

    def state(self) -> str:
        """Return as text whether the result is from the current code."""
        if not self.path.is_file():
            return MISSING
        if self.study is None and self.name not in MEASURED:
            return DERIVED
        return CURRENT if self.origin.get(CODE) == self.code_today() else CHANGED

    def code_today(self) -> str:
        """Return the digest of the current code of this result."""
        if self.study is None:
            return closure_digest(MEASURED[self.name])
        with found_from(self.study.home):
            return code_version(self.study.computes)


def results() -> list[Result]:
    """Return all committed results, and numbered studies without results."""
    found = {path: Result(path, study_of(path)) for path in RESULTS.glob("*.csv")}
    for folder in (ROOT / "benchmarks" / "studies").iterdir():
        for path in folder.glob("*.csv"):
            found[path] = Result(path, study_of(path))
        for path in folder.glob("*.toml"):
            found[path.with_suffix(".csv")] = Result(path.with_suffix(".csv"), path)
    return [result for _, result in sorted(found.items())]


def chosen(patterns: Sequence[str]) -> list[Result]:
    """Return the results whose names start with a pattern; all without patterns.

    Raises
    ------
    InputError
        If a pattern matches no result.
    """
    known = results()
    names = [result.name for result in known]
    for pattern in patterns:
        if not matching(names, f"{pattern}*"):
            raise InputError(pattern, "result does not exist", use_one_of(pattern, names))
    wanted = {name for pattern in patterns for name in matching(names, f"{pattern}*")}
    return [result for result in known if result.name in wanted or not patterns]


def headlines() -> list[Result]:
    """Return the results used in README.md and the pages in ``docs/``."""
    claims = (RESULTS / "claims.txt").read_text(encoding="utf-8")
    return [
        result
        for result in results()
        if result.path.parent == RESULTS
        or f'of("{result.path.parent.name[:2]}", "{result.path.stem}")' in claims
    ]


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
    """Recompute a result and write it; return the changed numbers, except times.

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
        return other_lines(before, plain_lines(result.path))
    if result.study is None:
        raise InputError(result.name, "no command computes this table", "see benchmarks/README.md")
    store = folder / f"{result.path.parent.name}-{result.path.stem}.sqlite"
    found = _computed(result.study, store, 1 if result.is_timed else jobs)
    least = int(result.origin.get("done", 1))
    if len(found.done) < least:
        what = f"{len(found.done)} rows are successful, but {least} were before"
        remedy = f"run again on a machine with less load; rows are stored in {store}"
        raise InputError(result.name, what, remedy)
    text = records_csv(found)
    old = read_records(result.path) if result.path.is_file() else []
    write_text(result.path, text)
    return differences(old, parsed_records(text), timings(found))


def _name_todays_commit(result: Result) -> None:
    """Replace commits missing in the checkout by the current one with the same digest.

    Raises
    ------
    InputError
        If the sources differ from the commit.
    """
    today = commit()
    if today is None or is_dirty("bfio", "formulations", ":(glob)benchmarks/**/*.py"):
        raise InputError(result.name, "the sources are not committed", "commit them first")
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
        return other_lines(plain_lines(result.path), measured(DATA))
    if result.study is None:
        raise InputError(result.name, "no command computes this table", "see benchmarks/README.md")
    plan, rows = _line(result, result.study)
    alone = replace(plan, name=plan.key, baseline={}, ratios=(), published=(), where={},
                    show=Shown.ALL)  # fmt: skip
    part = result.study.part(rows, report=ReportPlan((alone,)))
    with TemporaryDirectory() as folder:
        found = _computed(part, Path(folder) / "sample.sqlite", 1)
    if not found.done:
        return [f"{plan.key}: none of {len(rows)} rows is successful"]
    new = parsed_records(records_csv(found))
    keys = {_key(record) for record in new}
    old = [record for record in read_records(result.path) if _key(record) in keys]
    return differences(old, new, timings(found), ("estimate", "lower", "upper", "words"))


def _line(result: Result, study: Study) -> tuple[Table, list[_Arguments]]:
    """Return a table, and the rows of one of its lines that takes a few seconds.

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
        what = f"the shortest line takes {seconds:.0f} s"
        raise InputError(result.name, what, f"run python -m benchmarks remake {result.name}")
    return few[int(result.code_today(), 16) % len(few)]


def _computed(study: Study, store: Path, jobs: int) -> Results:
    with found_from(study.home), StudyProgress(lambda: False) as progress:
        options = StudyRunOptions(jobs=jobs, retry=True)
        return run_study(study, store, options, on_start=progress.start, on_row=progress.add)


def timings(found: Results) -> set[str]:
    """Return the names of row values that are measured times."""
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
    """Return whether two texts are equal, or numbers equal up to rounding."""
    try:
        return math.isclose(float(one), float(other), rel_tol=_ROUNDING)
    except ValueError:
        return one == other


def other_lines(old: Sequence[list[str]], new: Sequence[list[str]]) -> list[str]:
    """Return the differing lines of a measured plain table, apart from the code that made them."""
    return [
        f"{' | '.join(one)} before, {' | '.join(other)} now"
        for one, other in zip_longest(shown(old), shown(new), fillvalue=[""])
        if one != other
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


#: Exit status if a result is stale, refused, or cannot be recomputed.
REFUSED = 1
#: Folder of the stores of recomputed rows.
_ROWS = ROOT / "out" / "remade"


def add_results(chooser: Any) -> None:
    """Add the commands ``stale``, ``headlines`` and ``remake`` to a parser."""
    which = "results by name or beginning of a name, e.g. 21 or results/gap; default:"
    text = "list results that are not from the current code"
    listed = add_action(chooser, "stale", _stale, text)
    add_by_usage(listed, {"names NAME": f"{which} all"}, nargs="*")
    text = "check that the current code gives the results in README and docs"
    add_action(chooser, "headlines", _headlines, text)
    text = "recompute results and the tables of READMEs"
    made = add_action(chooser, "remake", _remake, text)
    add_by_usage(made, {"names NAME": f"{which} all stale results"}, nargs="*")
    add_by_usage(made, {"--list": "only print the expected times"})
    jobs = {"--jobs N": "number of processes; one for speeds (%(default)s)"}
    add_by_usage(made, jobs, type=int, default=1)


def _stale(args: argparse.Namespace) -> int:
    stale = [result for result in chosen(args.names) if _is_stale(result)]
    _tell(stale)
    return REFUSED if stale else DONE


def _headlines(args: argparse.Namespace) -> int:
    refused = sum(bool(refusals(result)) for result in headlines())
    say(f"{refused} results refused")
    return REFUSED if refused else DONE


def refusals(result: Result) -> list[str]:
    """Check a result used in README or docs, print the verdict, and return the errors.

    Its commits must exist. If the code has changed since, a sample of its rows must come out the
    same, unless the rows measure speed or the trace is missing.
    """
    found = [f"commit {name} does not exist" for name in result.lost_commits()]
    judged = "code of today" if result.state() == CURRENT else "by its commit only"
    if result.state() == CHANGED and not result.is_timed:
        try:
            found += sample(result)
            judged = "by a sample"
        except InputError as error:
            judged = f"by its commit only ({error})"
    say(f"{result.name}: {'refused' if found else 'passed'}, {judged}")
    for line in found[:MAX_SHOWN]:
        say(f"  {line}")
    return found


def _remake(args: argparse.Namespace) -> int:
    """Recompute results, quick ones first."""
    jobs = integer(args.jobs, "--jobs", minimum=1)
    wanted = [r for r in chosen(args.names) if _is_stale(r) and r.state() != DERIVED]
    if args.list:
        _tell(wanted)
        return DONE
    failed = 0
    wanted.sort(key=lambda result: result.seconds)
    for place, result in enumerate(wanted):
        rest = sum(r.seconds / (1 if r.is_timed else jobs) for r in wanted[place:])
        say(f"{result.name} ({place + 1} of {len(wanted)}; about {rest / 60:.0f} min left)")
        try:
            others = remake(result, _ROWS, jobs)
        except InputError as error:
            failed += 1
            say(f"{result.name}: {error}")
            continue
        verdict = f"{len(others)} numbers differ" if others else "all numbers equal"
        say(f"{result.name}: {verdict}")
        for line in others[:MAX_SHOWN]:
            say(f"  {line}")
    write_all()
    return REFUSED if failed else DONE


def _is_stale(result: Result) -> bool:
    return result.state() != CURRENT or bool(result.lost_commits())


def _tell(results: Sequence[Result]) -> None:
    """Print a list of results with their states and computing times."""
    width = max((len(result.name) for result in results), default=0)
    for result in results:
        print(f"{result.name:{width}}  {'; '.join(filter(None, _facts(result)))}")
    minutes = sum(result.seconds for result in results) / 60
    print(f"{len(results)} results; those with known time take {minutes:.0f} min of one core")


def _facts(result: Result) -> tuple[str, ...]:
    """Return the state, commits, date, time and machine of a result, as texts."""
    lost = result.lost_commits()
    commits = [f"{name} (does not exist)" if name in lost else name for name in result.commits]
    is_known = result.seconds > 0
    return (
        f"by {result.script}" if result.script else result.state(),
        f"commit {', '.join(commits)}" if commits else "no commit",
        result.origin.get("date", ""),
        f"{result.seconds:,.0f} s on {result.origin['processor']}" if is_known else "",
    )
