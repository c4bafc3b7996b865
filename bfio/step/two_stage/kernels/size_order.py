"""Order of the waiting requests by size, kept from one decision to the next.

Most requests that wait at a step already waited at the last one. It is enough to drop those that
no longer wait, and to merge new ones.
"""

from typing import NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.step.two_stage.kernels.two_stage import order_by_size
from formulations.arrays import IntArray


class SizeOrder(NamedTuple):
    """The order at the last decision."""

    #: Shape (most waiting,): requests that waited then, largest first, ties oldest first.
    requests: IntArray
    num: IntArray  #: Shape (1,): their number.
    #: Shape (n,): -1; while requests are sorted, the index of each among the waiting requests.
    position: IntArray


def new_order(num_requests: int, most_waiting: int) -> SizeOrder:
    """Return an empty order."""
    return SizeOrder(
        np.empty(most_waiting, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
        np.full(num_requests, -1, dtype=np.int64),
    )


@compilable(allocates=True)
def put_in_order(order: SizeOrder, waiting: IntArray, sizes: IntArray, by_size: IntArray) -> None:
    """Write the order of the waiting requests as `order_by_size` does, and keep it.

    ``waiting`` has distinct numbers below n; ``by_size`` is overwritten.
    """
    for i in range(len(waiting)):
        order.position[waiting[i]] = i
    num_kept = keep_waiting(order, sizes, by_size)
    come = np.empty(len(waiting) - num_kept, np.int64)
    found = 0
    for i in range(len(waiting)):
        if order.position[waiting[i]] >= 0:
            order.position[waiting[i]] = -1
            come[found] = i
            found += 1
    ranks = np.empty_like(come)
    order_by_size(sizes[come], ranks)
    merge_come(by_size, num_kept, come[ranks], sizes)
    for i in range(len(by_size)):
        order.requests[i] = waiting[by_size[i]]
    order.num[0] = len(waiting)


@compilable
def keep_waiting(order: SizeOrder, sizes: IntArray, by_size: IntArray) -> int:
    """Write the requests that still wait, in the kept order; return their number.

    A request whose size has changed so that it is out of order counts as new.
    """
    found = 0
    for k in range(order.num[0]):
        i = order.position[order.requests[k]]
        if i >= 0 and (found == 0 or is_before(sizes, by_size[found - 1], i)):
            order.position[order.requests[k]] = -1
            by_size[found] = i
            found += 1
    return found


@compilable
def is_before(sizes: IntArray, one: int, other: int) -> bool:
    """Whether a waiting request precedes another: it is larger, or equally large and older."""
    return bool(sizes[one] > sizes[other] or (sizes[one] == sizes[other] and one < other))


@compilable
def merge_come(by_size: IntArray, num_kept: int, come: IntArray, sizes: IntArray) -> None:
    """Merge new requests, in order, into the first ``num_kept`` entries of ``by_size``."""
    kept, place = num_kept - 1, len(by_size) - 1
    for k in range(len(come) - 1, -1, -1):
        while kept >= 0 and is_before(sizes, come[k], by_size[kept]):
            by_size[place] = by_size[kept]
            kept -= 1
            place -= 1
        by_size[place] = come[k]
        place -= 1
