"""The line of settings of a study: what all its rows share, and what varies between them."""

from collections.abc import Hashable, Sequence

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
    remarks = dict.fromkeys(remark for remark in found if remark not in refuted)
    first: dict[Hashable, Task] = {}
    for task in tasks:
        other = task if task.meaning is None else first.setdefault(task.meaning, task)
        if other.key != task.key:
            one, two = _beside(other, task), _beside(task, other)
            told = f"Rows with {one} and with {two} are one, spelt twice: their numbers are equal."
            remarks.setdefault(told)
    return list(remarks)


def _beside(task: Task, other: Task) -> str:
    """Return the arguments of a row in which it differs from another."""
    own, others = task.arguments, other.arguments
    different = {n: value for n, value in own.items() if n not in others or others[n] != value}
    return ", ".join(f"{n} {label(value)}" for n, value in different.items()) or "nothing of that"


def shared_and_varied(tasks: Sequence[Task]) -> tuple[list[str], list[str]]:
    """Return what rows share, a phrase each, and what varies with the values it takes."""
    shared, varied = [], []
    for name in dict.fromkeys(name for task in tasks for name in task.setting):
        found = list(dict.fromkeys(task.setting.get(name, "–") for task in tasks))
        values = [text.removeprefix(f"{name} ") for text in found]
        if len(found) == 1:
            shared += found
        elif len(found) <= _MAX_LISTED:
            varied.append(f"{name} ({', '.join(values)})")
        else:
            varied.append(f"{name} ({values[0]} to {values[-1]}, {len(values)} values)")
    return shared, varied


def computed_by(rows: Sequence[Row]) -> str:
    """Return the versions that computed rows, with their commits; this one if there are none."""
    found = set()
    for environment in (row.environment for row in rows if row.environment):
        text = f"bfio {environment.get('versions', {}).get('bfio', 'of unknown version')}"
        if commit := environment.get("commit"):
            changed = ", changed" if environment.get("dirty") else ""
            text += f" (commit {str(commit)[:9]}{changed})"
        found.add(text)
    return " and ".join(sorted(found)) if found else version_and_commit()
