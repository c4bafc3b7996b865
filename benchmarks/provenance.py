"""Provenance of committed results: the code of each, whether it is current, how to renew it.

The table ``rows`` of a result names the commit and the digest of the computing code. The digest
decides whether the result is current. It is that of the import closure in the keys of rows, so it
does not depend on the history of the checkout. The commit tells readers where the code is.
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
        """Folder and stem of the file."""
        return f"{self.path.parent.name}/{self.path.stem}"

    @cached_property
    def study(self) -> Study | None:
        """The study; None for a plain table."""
        return None if self.study_file is None else read_study(self.study_file)

    @cached_property
    def origin(self) -> Mapping[str, str]:
        """The entries of its table of rows: ``commit``, ``code``, ``cpu_s``, ``processor``, ..."""
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
        """The commits named in it."""
        return [name for name in re.split(", | and ", self.origin.get(COMMIT, "")) if name]

    @property
    def seconds(self) -> float:
        """Processor time of its rows [s]; 0 if unknown."""
        return float(self.origin.get("cpu_s") or 0)

    @property
    def is_timed(self) -> bool:
        """Whether its rows measure speed and must run alone."""
        return self.study is not None and self.study.computes.startswith("benchmarks.")

    @property
    def script(self) -> str:
        """The script in its folder that writes this plain table; empty if there is none."""
        scripts = () if self.study is not None else sorted(self.path.parent.glob("*.py"))
        named = (s.name for s in scripts if self.path.name in s.read_text(encoding="utf-8"))
        return next(named, "")

    def lost_commits(self) -> list[str]:
        """Return the commits named in it that are missing in the checkout."""
        return [name for name in self.commits if has_commit(name) is False]

    def state(self) -> str:
        """Return whether the result is from the present code, as text."""
        if not self.path.is_file():
            return MISSING
        if self.study is None and self.name not in MEASURED:
            return DERIVED
        return CURRENT if self.origin.get(CODE) == self.code_today() else CHANGED

    def code_today(self) -> str:
        """Return the digest of the present code for this result."""
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
    """Return the results with names that start with a pattern; without patterns, all.

    Raises
    ------
    InputError
        If a pattern matches no result.
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
    """Return the results used in README.md and the pages in ``docs/``."""
    claims = (RESULTS / "claims.txt").read_text(encoding="utf-8")
    return [
        result
        for result in results()
        if result.path.parent == RESULTS
        or f'of("{result.path.parent.name[:2]}", "{result.path.stem}")' in claims
    ]
