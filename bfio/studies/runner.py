"""Run a study: plan its rows, compute those that are not in the store, store each at once."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from bfio.studies.cluster import compute_locally
from bfio.studies.kinds import code_version, find
from bfio.studies.report_plan import check_values
from bfio.studies.results import Results
from bfio.studies.row import Row, RowContext, Status, Task, label, row_key
from bfio.studies.store import Store, open_for_reading, open_for_writing
from bfio.studies.study import Study
from bfio.studies.worker import Order
from formulations.arrays import integer
from formulations.errors import InputError
from formulations.named_objects import found_from


@dataclass(frozen=True)
class StudyRunOptions:
    """Options for running a study.

    Parameters
    ----------
    jobs : int, optional
        Number of processes; by default the number of cores available to this process.
    cluster : str, optional
        Address of a Dask scheduler that computes the rows instead.
    retry : bool
        Whether to compute rows again that ended without a result.
    want_logs : bool
        Whether to store logs of all rows, not only of those that fail.
    command : str
        The command that computes the study again, for the report.
    """

    jobs: int | None = None
    cluster: str | None = None
    retry: bool = False
    want_logs: bool = False
    command: str = ""

    def num_processes(self) -> int:
        """Return the number of processes."""
        if self.jobs is None:
            return len(os.sched_getaffinity(0))
        return integer(self.jobs, "jobs", minimum=1, maximum=1024)


#: Called with the planned and stored rows, before the first row is computed.
OnStart = Callable[[Results], None]

#: Remedy for a file that is missing in a study's data folder.
_REMEDY = "correct `data` or the name; docs/trace-cuts.md says how to make the trace cuts"


def plan(study: Study) -> list[Task]:
    """Return the rows of a study with their keys, with all arguments checked.

    Raises
    ------
    InputError
        If the kind of row is unknown, a row has invalid arguments, or the report names a value
        that no row of this kind has.
    """
    with found_from(study.home):
        return _planned(study)


def _planned(study: Study) -> list[Task]:
    # Values named after users' own metrics are known only from computed rows.
    if "metrics" not in {*study.axes(), *study.fixed}:
        check_values(study.report, study.computes)
    kind, code = find(study.computes), code_version(study.computes)
    context = RowContext(study.folder)
    tasks, read, unread = [], set[str](), dict[str, InputError]()
    for arguments in study.rows():
        try:
            planned = kind.planned(arguments, context)
        except InputError as error:
            path, remedy = Path(error.where), error.remedy
            is_data = study.folder != study.home and path.is_relative_to(study.folder)
            if is_data and not path.exists():
                remedy = _REMEDY
            raise InputError(f"{study.name}: {error.where}", error.what, remedy) from None
        read.update(name for name in arguments if name not in planned.unread)
        unread = {**planned.unread, **unread}
        key = row_key(study.computes, arguments, planned.instance, code)
        own = {name: f"{name} {label(value)}" for name, value in arguments.items()}
        setting = dict(planned.setting) or own
        what = study.computes, arguments, planned.instance, code
        told = planned.remarks, planned.refuted, planned.meaning
        tasks.append(Task(key, *what, planned.draws, setting, *told))
    # The small size may lack the rows that read an argument.
    for name, wrong in unread.items():
        if name not in read and not study.is_small:
            raise InputError(f"{study.name}: {wrong.where}", wrong.what, wrong.remedy)
    return tasks


def run_study(
    study: Study,
    store: Path,
    options: StudyRunOptions | None = None,
    *,
    on_start: OnStart = lambda results: None,
    on_row: Callable[[Row], None] = lambda row: None,
    stop: Callable[[], bool] = lambda: False,
) -> Results:
    """Compute the rows of a study that are not in its store.

    Parameters
    ----------
    study : Study
        The study.
    store : Path
        File of the stored rows; created if missing.
    options : StudyRunOptions, optional
        Options for running it.
    on_start, on_row : callable
        Called with the results before the first row, and with each row once it is stored.
    stop : callable
        Called before each row; if it returns True, no further row is started.

    Returns
    -------
    Results
        All rows in the store after the run.

    Raises
    ------
    InputError
        If the study, the store or the cluster cannot be used. Rows stored before are kept.
    """
    chosen = options or StudyRunOptions()
    tasks = plan(study)
    with open_for_writing(store) as opened:
        on_start(_results(study, tasks, opened, chosen.command))
        statuses = opened.statuses(task.key for task in tasks)
        settled = {Status.DONE} if chosen.retry else set(Status)
        folder, home = str(study.folder.resolve()), str(study.home.resolve())
        orders = [
            Order(task, folder, chosen.want_logs, home)
            for task in tasks
            if statuses.get(task.key) not in settled
        ]
        if chosen.cluster is None:
            rows = compute_locally(orders, study.limits, chosen.num_processes(), stop)
        else:
            from bfio.studies.cluster import compute_on_cluster

            rows = compute_on_cluster(orders, study.limits, chosen.cluster, stop)
        try:
            for row in rows:
                opened.add(row)
                on_row(row)
        finally:
            rows.close()
        return _results(study, tasks, opened, chosen.command)


def stored_results(study: Study, store: Path, command: str = "") -> Results:
    """Return the stored rows of a study. A run may be writing at the same time.

    Raises
    ------
    InputError
        If the store does not exist or cannot be read.
    """
    tasks = plan(study)
    with open_for_reading(store) as opened:
        return _results(study, tasks, opened, command)


def _results(study: Study, tasks: list[Task], store: Store, command: str) -> Results:
    stored = store.rows(task.key for task in tasks)
    # Take the task from the plan, because the store lacks fields such as ``draws``.
    rows = {t.key: replace(stored[t.key], task=t) for t in tasks if t.key in stored}
    return Results(study, tasks, rows, store.path, command, store.count())
