"""Which code made each committed result, whether that is today's, and how to make it anew.

The table ``rows`` of a result names the commit and the digest of the code that computed it. The
digest decides: it is that of the import closure in the keys of rows, so that it does not depend
on the history of the checkout. The commit is where a reader finds that code.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

from benchmarks import compare_table
from benchmarks.readme import CODE, COMMIT, RESULTS, plain_lines, study_of
from bfio.common.import_closure import ROOT, closure_digest
from bfio.common.provenance import has_commit
from bfio.studies.kinds import code_version
from bfio.studies.report.markdown import ROWS, read_records
from bfio.studies.study import Study
from bfio.studies.study_file import read_study
from formulations.errors import InputError, use_one_of
from formulations.named_objects import found_from

CURRENT, CHANGED, DERIVED, MISSING = "current", "the code has changed", "derived", "no rows"
#: Plain tables that a command measures, and its module; all others a script beside them derives.
MEASURED = {"results/compare": compare_table.__name__}


@dataclass(frozen=True)
class Result:
    """A committed result: the numbers of a study, or a plain table.

    Parameters
    ----------
    path : Path
        The file, which a study that was never reported lacks.
    study_file : Path, optional
        The study that makes it; None for a plain table.
    """

    path: Path
    study_file: Path | None

    @property
    def name(self) -> str:
        """Folder and stem."""
        return f"{self.path.parent.name}/{self.path.stem}"

    @cached_property
    def study(self) -> Study | None:
        """The study, read."""
        return None if self.study_file is None else read_study(self.study_file)

    @cached_property
    def origin(self) -> Mapping[str, str]:
        """What its table of rows says: ``commit``, ``code``, ``cpu_s``, ``processor``, ..."""
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
        """The commits it names."""
        return [name for name in re.split(", | and ", self.origin.get(COMMIT, "")) if name]

    @property
    def seconds(self) -> float:
        """Processor time of its rows [s]; 0 if it is not known."""
        return float(self.origin.get("cpu_s") or 0)

    @property
    def is_timed(self) -> bool:
        """Whether its rows measure speed, so that they are to run alone."""
        return self.study is not None and self.study.computes.startswith("benchmarks.")

    @property
    def script(self) -> str:
        """The script in its folder that writes this plain table; empty if there is none."""
        scripts = () if self.study is not None else sorted(self.path.parent.glob("*.py"))
        named = (s.name for s in scripts if self.path.name in s.read_text(encoding="utf-8"))
        return next(named, "")

    def lost_commits(self) -> list[str]:
        """Return the commits it names that the checkout does not have."""
        return [name for name in self.commits if has_commit(name) is False]

    def state(self) -> str:
        """Return whether the code is today's, in words."""
        if not self.path.is_file():
            return MISSING
        if self.study is None and self.name not in MEASURED:
            return DERIVED
        return CURRENT if self.origin.get(CODE) == self.code_today() else CHANGED

    def code_today(self) -> str:
        """Return the digest of the code that would make it today."""
        if self.study is None:
            return closure_digest(MEASURED[self.name])
        with found_from(self.study.home):
            return code_version(self.study.computes)


def results() -> list[Result]:
    """Return all committed results, and the numbered studies that have none."""
    found = {path: Result(path, study_of(path)) for path in RESULTS.glob("*.csv")}
    for folder in (ROOT / "benchmarks" / "studies").iterdir():
        for path in folder.glob("*.csv"):
            found[path] = Result(path, study_of(path))
        for path in folder.glob("*.toml"):
            found[path.with_suffix(".csv")] = Result(path.with_suffix(".csv"), path)
    return [result for _, result in sorted(found.items())]


def chosen(patterns: Sequence[str]) -> list[Result]:
    """Return the results that patterns choose by name or its beginning; without any, all.

    Raises
    ------
    InputError
        If a pattern chooses none.
    """
    known = results()
    names = {pattern: _matching(known, pattern) for pattern in patterns}
    for pattern, matching in names.items():
        if not matching:
            remedy = use_one_of(pattern, [result.name for result in known])
            raise InputError(pattern, "no such result", remedy)
    wanted = {name for matching in names.values() for name in matching}
    return [result for result in known if result.name in wanted or not patterns]


def _matching(known: Sequence[Result], pattern: str) -> list[str]:
    return [result.name for result in known if fnmatchcase(result.name, f"{pattern}*")]


def headlines() -> list[Result]:
    """Return the results of README.md and pages in ``docs/``: those of their tables and claims."""
    claims = (RESULTS / "claims.txt").read_text(encoding="utf-8")
    return [
        result
        for result in results()
        if result.path.parent == RESULTS
        or f'of("{result.path.parent.name[:2]}", "{result.path.stem}")' in claims
    ]
