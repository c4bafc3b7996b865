"""Who runs on each worker in order of start, so that the youngest is found at once.

Kept where memory may overflow: the youngest then leaves its worker, and thousands may run.
"""

from typing import NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from formulations.arrays import IntArray


class StartOrder(NamedTuple):
    """Lists of requests, one of each worker, the youngest first; -1 stands for nobody.

    Parameters
    ----------
    is_on : bool
        Whether they are kept.
    youngest : IntArray
        Shape (G,): who started last on each worker, the last revealed of several.
    older, younger : IntArray
        Shape (n,), or (0,) if they are not kept: who stands behind each, and before.
    """

    is_on: bool
    youngest: IntArray
    older: IntArray
    younger: IntArray


def new_start_order(num_workers: int, num_requests: int, *, is_on: bool) -> StartOrder:
    """Return the order in which nobody runs."""
    kept = num_requests if is_on else 0
    rows = (np.full(count, -1, dtype=np.int64) for count in (num_workers, kept, kept))
    return StartOrder(is_on, *rows)


@compilable(part_of="overflow")
def put_in_order(order: StartOrder, start: IntArray, request: int, worker: int) -> None:
    """Note that a request runs on a worker.

    Mostly it has started after all others; who rested is put back among those of its time.
    """
    older, younger = int(order.youngest[worker]), -1
    while older >= 0 and is_younger(start, older, request):
        younger = older
        older = int(order.older[older])
    order.older[request] = older
    order.younger[request] = younger
    if older >= 0:
        order.younger[older] = request
    if younger >= 0:
        order.older[younger] = request
    else:
        order.youngest[worker] = request


@compilable(part_of="overflow")
def take_from_order(order: StartOrder, request: int, worker: int) -> None:
    """Note that a request runs no more on a worker."""
    older, younger = int(order.older[request]), int(order.younger[request])
    if older >= 0:
        order.younger[older] = younger
    if younger >= 0:
        order.older[younger] = older
    else:
        order.youngest[worker] = older


@compilable
def is_younger(start: IntArray, request: int, other: int) -> bool:
    """Whether a request started later than another, or then and was revealed later."""
    return bool(
        start[request] > start[other] or (start[request] == start[other] and request > other)
    )
