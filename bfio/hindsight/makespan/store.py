"""The states of the search: where they are kept, found again and forgotten."""

from typing import NamedTuple

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.hindsight.makespan.kernel import find
from formulations.arrays import IntArray

#: What a state is.
OPEN, EXPANDED, GONE = 0, 1, 2
#: Places in ``counters``.
USED, FREE, BEST, BEST_STATE, DROPPED, HASHED, GENERATED = range(7)


class Store(NamedTuple):
    """States, one per index.

    ``rows`` (see `kernel`), ``cost`` so far, ``reach`` a bound on the whole, ``when`` the step,
    ``parent``, ``action`` (lane · C + kind of each start, −1 after the last), ``order`` (the lane
    of the parent that each lane was), ``after`` the next state of the same layer, ``status``;
    ``head`` the first state of each layer, ``table`` the hash table, ``spare`` indices to reuse,
    ``counters``.
    """

    rows: IntArray
    cost: IntArray
    reach: IntArray
    when: IntArray
    parent: IntArray
    action: IntArray
    order: IntArray
    after: IntArray
    status: IntArray
    head: IntArray
    table: IntArray
    spare: IntArray
    counters: IntArray


@compilable(allocates=True)
def place_of(row: IntArray, cost: int, reach: int, step: int, layer: int, store: Store) -> int:
    """Return the index at which to write a state; −1 if it is known as cheap, or there is no room.

    Parameters
    ----------
    row : IntArray
        The state.
    cost, reach, step, layer : int
        Its cost so far, its bound, its step and its layer.
    store : Store
        Takes its row; whatever cannot be kept bounds the rest by its reach.
    """
    counters = store.counters
    place = find(row, store.rows, store.table)
    known = store.table[place]
    if known >= 0 and store.status[known] != GONE and store.cost[known] <= cost:
        return -1
    if known >= 0 and store.status[known] == OPEN:
        if store.when[known] == step:
            return int(known)
        store.status[known] = GONE
    new = _new_index(store)
    if new < 0:
        counters[DROPPED] = min(counters[DROPPED], reach)
        return -1
    counters[HASHED] += known < 0
    store.table[place] = new
    copy_to(store.rows[new], row)
    store.status[new] = OPEN
    store.after[new] = store.head[layer]
    store.head[layer] = new
    return int(new)


@compilable
def _new_index(store: Store) -> int:
    counters = store.counters
    if counters[HASHED] > 9 * len(store.table) // 10:
        return -1
    if counters[FREE]:
        counters[FREE] -= 1
        return int(store.spare[counters[FREE]])
    if counters[USED] == len(store.cost):
        return -1
    counters[USED] += 1
    return int(counters[USED] - 1)


@entry_point
def remember(index: int, store: Store) -> None:
    """Keep the place of a state in the hash table."""
    store.table[find(store.rows[index], store.rows, store.table)] = index


@entry_point
def collect(layer: int, store: Store) -> IntArray:
    """Return the open states of a layer that may beat the best."""
    count = 0
    index = store.head[layer]
    while index >= 0:
        count += 1
        index = store.after[index]
    open_states = np.empty(count, dtype=np.int64)
    count = 0
    index = store.head[layer]
    while index >= 0:
        if store.status[index] == OPEN and store.reach[index] < store.counters[BEST]:
            open_states[count] = index
            count += 1
        index = store.after[index]
    return open_states[:count]


@entry_point
def rehash(store: Store) -> None:
    """Forget the places of states that can no longer be met."""
    store.table[:] = -1
    store.counters[HASHED] = 0
    for index in range(store.counters[USED]):
        if store.status[index] != GONE:
            store.table[find(store.rows[index], store.rows, store.table)] = index
            store.counters[HASHED] += 1
