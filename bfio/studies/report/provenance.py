"""Where the rows come from: code, environments and dates."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bfio.studies.canonical import canonical
from bfio.studies.report.selection import keys_of
from bfio.studies.report.traced import Traced, counted
from bfio.studies.results import Results
from bfio.studies.row import Row


@dataclass(frozen=True)
class Environment:
    """Machine, versions and commit that some rows were computed with."""

    identifier: str
    rows: Traced
    entries: Sequence[tuple[str, str]]


def environment_id(environment: Mapping[str, Any]) -> str:
    """Return eight hexadecimal digits that tell environments apart; none for an unknown one."""
    if not environment:
        return ""
    return hashlib.sha256(canonical(environment).encode()).hexdigest()[:8]


def environments(results: Results) -> list[Environment]:
    """Return the environments of the computed rows, in the order they first occur."""
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
                # What readers may not guess.
                known = "uncommitted changes" if name == "dirty" else name
                entries.append((known, _text(value)))
        identifier = environment_id(own)
        count = counted(keys_of(rows), identifier, "environment")
        environments.append(Environment(identifier or "unknown", count, entries))
    return environments


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "unknown" if value is None else str(value)


def code_versions(results: Results) -> list[str]:
    """Return the versions of the code that the rows are planned for."""
    return sorted({task.code for task in results.tasks})


def dates(results: Results) -> tuple[str, str]:
    """Return when the first and the last row were finished; empty if unknown."""
    known = sorted(row.finished_at for row in results.rows.values() if row.finished_at)
    return (known[0], known[-1]) if known else ("", "")
