"""Compute rows on this machine: one thread per supervised process."""

import queue
import threading
from collections.abc import Callable, Generator, Iterator, Sequence

from bfio.studies.limits import Limits
from bfio.studies.messages import Order
from bfio.studies.row import Row
from bfio.studies.supervisor import Supervisor


def compute_locally(
    orders: Sequence[Order],
    limits: Limits,
    jobs: int,
    stop: Callable[[], bool] = lambda: False,
) -> Generator[Row, None, None]:
    """Yield rows as they are finished.

    Parameters
    ----------
    orders : sequence of Order
        Rows to compute; they are begun in this order.
    limits : Limits
        Limits of one row.
    jobs : int
        Processes.
    stop : callable
        Asked before each row: whether to begin no more. Rows in flight are finished.
    """
    # One finished row may wait per process, so that computing and storing overlap.
    finished: queue.Queue[Row | BaseException | None] = queue.Queue(maxsize=jobs)
    waiting = iter(orders)
    supervisors = [Supervisor(order.task.computes, limits, order.home) for order in orders[:jobs]]
    hand_out = threading.Lock()

    def work(supervisor: Supervisor) -> None:
        try:
            while not stop():
                with hand_out:
                    order = next(waiting, None)
                if order is None:
                    break
                finished.put(supervisor.compute(order))
        except BaseException as error:  # raised again where rows are read
            finished.put(error)
        finally:
            supervisor.close()
            finished.put(None)

    threads = [threading.Thread(target=work, args=(each,), daemon=True) for each in supervisors]
    for thread in threads:
        thread.start()
    try:
        yield from _rows(finished, len(threads))
    finally:
        for supervisor in supervisors:
            supervisor.kill()
        _drain(finished, threads)


def _rows(finished: "queue.Queue[Row | BaseException | None]", threads: int) -> Iterator[Row]:
    while threads:
        item = finished.get()
        if isinstance(item, BaseException):
            raise item
        if item is None:
            threads -= 1
        else:
            yield item


def _drain(
    finished: "queue.Queue[Row | BaseException | None]", threads: list[threading.Thread]
) -> None:
    """Wait for the threads, taking from them what nobody wants any more."""
    while any(thread.is_alive() for thread in threads):
        try:
            finished.get(timeout=0.05)
        except queue.Empty:
            continue
