"""The line of settings of a study: what all its rows share, and what varies between them."""

from collections.abc import Sequence

from bfio.common.provenance import version_and_commit
from bfio.studies.results import Results
from bfio.studies.row import Row, Task

#: Values of what varies that a line lists; of more it names the first and the last.
_MAX_LISTED = 6


def study_settings(results: Results, tasks: Sequence[Task] | None = None) -> str:
    """Return one line that says what rows are made of, and by which code.

    Parameters
    ----------
    results : Results
        Planned and computed rows.
    tasks : sequence of Task, optional
        The rows it is about; all by default.
    """
    chosen = results.tasks if tasks is None else tasks
    rows = [results.rows[task.key] for task in chosen if task.key in results.rows]
    parts, varied = shared_and_varied(chosen)
    line = ", ".join([*parts, computed_by(rows)])
    return f"{line}; varies: {', '.join(varied)}" if varied else line


def study_remarks(tasks: Sequence[Task]) -> list[str]:
    """Return what a reader of these rows might not expect, a sentence each."""
    return list(dict.fromkeys(remark for task in tasks for remark in task.remarks))


def shared_and_varied(tasks: Sequence[Task]) -> tuple[list[str], list[str]]:
    """Return what rows share, a phrase each, and what varies with the values it takes."""
    values: dict[str, dict[str, None]] = {}
    for task in tasks:
        for name in task.setting:
            values.setdefault(name, {})
    for task in tasks:
        for name, found in values.items():
            found.setdefault(task.setting.get(name, "–"))
    shared = [next(iter(found)) for found in values.values() if len(found) == 1]
    varied = [
        f"{name} ({_listed([text.removeprefix(f'{name} ') for text in found])})"
        for name, found in values.items()
        if len(found) > 1
    ]
    return shared, varied


def _listed(values: Sequence[str]) -> str:
    if len(values) <= _MAX_LISTED:
        return ", ".join(values)
    return f"{values[0]} to {values[-1]}, {len(values)} values"


def computed_by(rows: Sequence[Row]) -> str:
    """Return the versions that computed rows, with their commits; this one if there are none."""
    found = {_version(row) for row in rows if row.environment}
    return " and ".join(sorted(found)) if found else version_and_commit()


def _version(row: Row) -> str:
    environment = row.environment
    text = f"bfio {environment.get('versions', {}).get('bfio', 'of unknown version')}"
    commit = environment.get("commit")
    changed = ", changed" if environment.get("dirty") else ""
    return f"{text} (commit {str(commit)[:9]}{changed})" if commit else text
