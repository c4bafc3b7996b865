"""Computing rows in processes of this machine or on a Dask cluster."""

import queue
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING

from bfio.common.provenance import environment
from bfio.studies.row import Limits, Row, Status, Task
from bfio.studies.supervisor import Supervisor, finished
from bfio.studies.worker import Order
from formulations.errors import InputError

if TYPE_CHECKING:
    from distributed import Client, Future


def compute_locally(
    orders: Sequence[Order],
    limits: Limits,
    jobs: int,
    stop: Callable[[], bool] = lambda: False,
) -> Generator[Row, None, None]:
    """Yield rows as they finish.

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
    """Compute one row on the calling Dask worker."""
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
    """Yield rows as the cluster finishes them; see `compute_locally`.

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
    """Return the row of a finished future; a row that killed its Dask workers has crashed."""
    from distributed import KilledWorker

    if status == "finished":
        row: Row = future.result()
        return row
    error = future.exception() if status == "error" else None
    if isinstance(error, KilledWorker):
        why, where = "Dask workers died over it", environment()
        return finished(Row(task, Status.CRASHED, error=why, environment=where), attempts=1)
    if isinstance(error, InputError):
        raise InputError(f"cluster {address}: {error.where}", error.what, error.remedy)
    raise InputError(
        f"cluster {address}",
        f"a row came back {status}" + (f" ({error})" if error else ""),
        "see to the scheduler and run again; the rows so far are kept",
    )


@contextmanager
def _connected(address: str) -> "Iterator[Client]":
    """Connect to a scheduler with at least one worker; finally end idle processes."""
    try:
        from distributed import Client
    except ImportError:
        raise InputError(
            "--cluster", "Dask is not installed", "install it with: pip install 'bfio[cluster]'"
        ) from None
    try:
        client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"cluster {address}", f"no scheduler answers ({error})", "check the address"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=_CONNECT_SECONDS)
        except TimeoutError:
            raise InputError(
                f"cluster {address}", "the scheduler has no worker", "start a Dask worker"
            ) from None
        try:
            yield client
        finally:
            with suppress(OSError):
                client.run(close_idle)
