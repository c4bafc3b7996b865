"""Run a study: plan its rows, compute and store each row that is not stored yet.

Rows are computed in processes of this machine or on a Dask cluster.
"""

import os
import queue
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from bfio.common.provenance import environment
from bfio.studies.kinds import code_version, find
from bfio.studies.report_plan import check_values
from bfio.studies.results import Results
from bfio.studies.row import Limits, Row, RowContext, Status, Task, label, row_key
from bfio.studies.store import Store, open_for_reading, open_for_writing
from bfio.studies.study import Study
from bfio.studies.supervisor import Supervisor, finished
from bfio.studies.worker import Order
from formulations.arrays import integer
from formulations.errors import InputError, naming
from formulations.named_objects import found_from

if TYPE_CHECKING:
    from distributed import Client, Future


def compute_locally(
    orders: Sequence[Order],
    limits: Limits,
    jobs: int,
    stop: Callable[[], bool] = lambda: False,
) -> Generator[Row, None, None]:
    """Compute rows in processes of this machine, and yield each when it ends.

    Parameters
    ----------
    orders : sequence of Order
        Rows to compute, started in this order.
    limits : Limits
        Limits of one row.
    jobs : int
        Number of processes.
    stop : callable
        Called before each row; if it returns True, no further row is started. Running rows finish.
    """
    supervisors = [Supervisor(order.task.computes, limits, order.home) for order in orders[:jobs]]
    idle: queue.SimpleQueue[Supervisor] = queue.SimpleQueue()
    for supervisor in supervisors:
        idle.put(supervisor)

    def compute(order: Order) -> Row | None:
        if stop():
            return None
        supervisor = idle.get()
        try:
            return supervisor.compute(order)
        finally:
            idle.put(supervisor)

    waiting = iter(orders)
    with ThreadPoolExecutor(jobs) as threads:
        try:
            # Twice as many tasks as processes, so that computing and storing overlap.
            running = [threads.submit(compute, order) for order in islice(waiting, 2 * jobs)]
            while running:
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                finished = [future for future in running if future in done]
                running = [future for future in running if future not in done]
                following = islice(waiting, 0 if stop() else len(finished))
                running += [threads.submit(compute, order) for order in following]
                for future in finished:
                    if (row := future.result()) is not None:
                        yield row
        finally:
            for supervisor in supervisors:
                supervisor.kill()
            threads.shutdown(cancel_futures=True)
            for supervisor in supervisors:
                supervisor.close()


#: Time limit for reaching the scheduler, and then for its first worker [s].
_CONNECT_SECONDS = 15
#: Number of rows submitted in advance per thread of the cluster.
_AHEAD = 2
#: States of a row whose Dask worker died with the result. The scheduler starts the row again.
_COMPUTED_AGAIN = ("lost", "pending")

#: Idle supervisors of this Dask worker, by kind of row, limits and study folder.
_idle: dict[tuple[str, Limits, str], "queue.SimpleQueue[Supervisor]"] = {}


def compute_here(order: Order, limits: Limits) -> Row:
    """Compute one row in the calling Dask worker."""
    computes = order.task.computes
    idle = _idle.setdefault((computes, limits, order.home), queue.SimpleQueue())
    try:
        supervisor = idle.get_nowait()
    except queue.Empty:
        supervisor = Supervisor(computes, limits, order.home)
    row = supervisor.compute(order)
    idle.put(supervisor)
    return row


def close_idle() -> None:
    """End the idle processes of this Dask worker."""
    for idle in _idle.values():
        with suppress(queue.Empty):
            while True:
                idle.get_nowait().close()


def compute_on_cluster(
    orders: Sequence[Order],
    limits: Limits,
    address: str,
    stop: Callable[[], bool] = lambda: False,
) -> Generator[Row, None, None]:
    """Compute rows on a Dask cluster, and yield each when it ends; see `compute_locally`.

    Raises
    ------
    InputError
        If Dask is not installed, no scheduler answers at the address, or it has no worker.
    """
    from distributed import as_completed

    with _connected(address) as client:
        waiting = iter(orders)
        ahead = _AHEAD * sum(client.nthreads().values())
        first = [_submitted(client, order, limits) for order in islice(waiting, ahead)]
        tasks = {future.key: order.task for future, order in zip(first, orders, strict=False)}
        running = as_completed(first, loop=client.loop)
        for future in running:
            status = future.status
            if status in _COMPUTED_AGAIN:
                running.add(future)
                continue
            if not stop():
                for order in islice(waiting, 1):
                    following = _submitted(client, order, limits)
                    tasks[following.key] = order.task
                    running.add(following)
            yield _row(future, status, tasks.pop(future.key), address)


def _submitted(client: "Client", order: Order, limits: Limits) -> "Future":
    # Not pure: Dask must not reuse a row computed for another run.
    return client.submit(compute_here, order, limits, pure=False)


def _row(future: "Future", status: str, task: Task, address: str) -> Row:
    """Return the row of a finished future; a row that ended its Dask workers counts as crashed."""
    from distributed import KilledWorker

    if status == "finished":
        row: Row = future.result()
        return row
    error = future.exception() if status == "error" else None
    if isinstance(error, KilledWorker):
        why, where = "Dask workers died while computing it", environment()
        return finished(Row(task, Status.CRASHED, error=why, environment=where), attempts=1)
    if isinstance(error, InputError):
        raise InputError(f"cluster {address}: {error.where}", error.what, error.remedy)
    what = f"a row returned with status {status}" + (f" ({error})" if error else "")
    remedy = "check the scheduler and run again; computed rows are kept"
    raise InputError(f"cluster {address}", what, remedy)


@contextmanager
def _closed(client: "Client") -> "Iterator[None]":
    """Close a client at the end, also if its scheduler is lost."""
    try:
        yield
    finally:
        try:
            client.close()
        except RuntimeError:
            # Dask cancels a connection attempt twice if the scheduler was lost just before.
            client.close()


@contextmanager
def _connected(address: str) -> "Iterator[Client]":
    """Connect to a Dask scheduler with at least one worker; finally end idle processes."""
    try:
        from distributed import Client
        from distributed.comm.addressing import resolve_address
    except ImportError:
        what = "Dask is not installed"
        raise InputError("cluster", what, "install it with: pip install 'bfio[cluster]'") from None
    try:
        resolve_address(address)  # Client would try for long, and fail with a traceback.
        client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        what = f"no scheduler answers ({error})"
        raise InputError(f"cluster {address}", what, "check the address") from None
    with _closed(client):
        try:
            client.wait_for_workers(1, timeout=_CONNECT_SECONDS)
        except TimeoutError:
            what = "the scheduler has no worker"
            raise InputError(f"cluster {address}", what, "start a Dask worker") from None
        try:
            yield client
        finally:
            with suppress(OSError):
                client.run(close_idle)


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


#: Called with the planned and stored rows, before the first row is computed.
OnStart = Callable[[Results], None]

#: Remedy for a file that is missing in a study's data folder.
_REMEDY = "correct `data` or the name; docs/trace-cuts.md describes how to make trace cuts"


def plan(study: Study) -> list[Task]:
    """Return the planned rows of a study with their keys, after a check of all arguments.

    Raises
    ------
    InputError
        If the kind of row is unknown, a row has invalid arguments, or the report names a value
        that no row of this kind has.
    """
    with found_from(study.home), naming(study.file or study.name):
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
            raise InputError(error.where, error.what, remedy) from None
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
            raise wrong
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
    """Compute and store the rows of a study that are not in its store.

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
            jobs = len(os.sched_getaffinity(0))
            if chosen.jobs is not None:
                jobs = integer(chosen.jobs, "jobs", minimum=1, maximum=1024)
            rows = compute_locally(orders, study.limits, jobs, stop)
        else:
            rows = compute_on_cluster(orders, study.limits, chosen.cluster, stop)
        try:
            for row in rows:
                opened.add(row)
                on_row(row)
        finally:
            rows.close()
        return _results(study, tasks, opened, chosen.command)


def stored_results(study: Study, store: Path, command: str = "") -> Results:
    """Return the stored rows of a study, possibly during a run.

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
