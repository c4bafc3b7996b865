"""The line of settings of a study: what all its rows share, and what varies between them."""

from collections.abc import Hashable, Iterator, Sequence

from bfio.common.provenance import version_and_commit
from bfio.studies.matching import label
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
    refuted = {remark for task in tasks for remark in task.refuted}
    found = dict.fromkeys(remark for task in tasks for remark in task.remarks)
    return [remark for remark in found if remark not in refuted] + list(_spelt_twice(tasks))


def _spelt_twice(tasks: Sequence[Task]) -> Iterator[str]:
    """Yield which rows are one, their arguments spelt in two ways."""
    first: dict[Hashable, Task] = {}
    told = [task for task in tasks if task.meaning is not None]
    pairs = [(first.setdefault(task.meaning, task), task) for task in told]
    twice = [(_beside(a, b), _beside(b, a)) for a, b in pairs if a.key != b.key]
    for one, other in dict.fromkeys(twice):
        yield f"Rows with {one} and with {other} are one, spelt twice: their numbers are equal."


def _beside(task: Task, other: Task) -> str:
    """Return the arguments of a row that another lacks."""
    own, others = task.arguments, other.arguments
    different = {n: value for n, value in own.items() if n not in others or others[n] != value}
    return ", ".join(f"{n} {label(value)}" for n, value in different.items()) or "nothing of that"


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
