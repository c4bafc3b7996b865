"""Operations on arrays in kernels.

Numba lacks these operations, or compiles its own versions slowly. Some functions have two bodies:
NumPy code for Python, and a loop for machine code.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bfio.common.compilable import compilable
from formulations.arrays import FloatArray, IntArray

N = TypeVar("N", bound=np.generic)


def _copy_to(target: NDArray[N], values: NDArray[N]) -> None:
    for k in range(len(values)):
        target[k] = values[k]


@compilable(compiled_as=_copy_to)
def copy_to(target: NDArray[N], values: NDArray[N]) -> None:
    """Copy one-dimensional ``values`` to the beginning of ``target``.

    In machine code, ``target[:n] = values`` would allocate, because Numba handles overlapping
    arrays and formats an error message.
    """
    target[: len(values)] = values


def _extent(values: IntArray) -> tuple[int, int, int]:
    peak, least, total = values[0], values[0], 0
    for value in values:
        peak, least = max(peak, value), min(least, value)
        total += value
    return peak, least, total


@compilable(compiled_as=_extent)
def extent(values: IntArray) -> tuple[int, int, int]:
    """Return the largest value, the least value and the sum of an integer array."""
    return int(values.max()), int(values.min()), int(values.sum())


def _sum_of(values: IntArray) -> int:
    total = 0
    for value in values:
        total += value
    return total


@compilable(compiled_as=_sum_of)
def sum_of(values: IntArray) -> int:
    """Return the sum of an integer array."""
    return int(values.sum())


def _peak_of(values: IntArray) -> int:
    peak: int = values[0]
    for value in values:
        peak = max(peak, value)
    return peak


@compilable(compiled_as=_peak_of)
def peak_of(values: IntArray) -> int:
    """Return the largest of integers."""
    return int(values.max())


def _first_above(values: IntArray, limit: int) -> int:
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        if values[middle] > limit:
            high = middle
        else:
            low = middle + 1
    return low


@compilable(compiled_as=_first_above)
def first_above(values: IntArray, limit: int) -> int:
    """Return the position of the first of sorted integers above a limit; their number if none."""
    return int(np.searchsorted(values, limit, side="right"))


@compilable(allocates=True, apart=True)
def sort(values: IntArray) -> None:
    """Sort integers. Numba's sort is large, so it is compiled once for all kernels."""
    values.sort()


def _taken(values: IntArray, places: IntArray) -> IntArray:
    chosen = np.empty_like(places)
    for k in range(len(places)):
        chosen[k] = values[places[k]]
    return chosen


@compilable(allocates=True, compiled_as=_taken)
def taken(values: IntArray, places: IntArray) -> IntArray:
    """Return ``values[places]`` for integers."""
    chosen: IntArray = values[places]
    return chosen


def _add_times(target: IntArray, values: IntArray, factor: int) -> None:
    for k in range(len(values)):
        target[k] += factor * values[k]


@compilable(compiled_as=_add_times)
def add_times(target: IntArray, values: IntArray, factor: int) -> None:
    """Add ``factor * values`` to ``target``."""
    target += factor * values


def _add_products(target: IntArray, factors: IntArray, values: IntArray) -> None:
    for g in range(len(target)):
        for h in range(len(values)):
            target[g, h] += factors[g, h] * values[h]


@compilable(compiled_as=_add_products)
def add_products(target: IntArray, factors: IntArray, values: IntArray) -> None:
    """Add ``factors * values`` to a matrix; ``values`` has one entry per column."""
    target += factors * values


def _add_each(target: IntArray, places: IntArray, amounts: IntArray) -> None:
    for k in range(len(places)):
        target[places[k]] += amounts[k]


@compilable(compiled_as=_add_each)
def add_each(target: IntArray, places: IntArray, amounts: IntArray) -> None:
    """Add ``amounts[k]`` to ``target[places[k]]`` for each k; indices may repeat."""
    np.add.at(target, places, amounts)


def _move_waiting(pool: IntArray, worker: IntArray) -> None:
    free = len(pool) - 1
    for position in range(len(pool) - 1, -1, -1):
        request = pool[position]
        if worker[request] < 0:
            pool[free] = request
            free -= 1


@compilable(compiled_as=_move_waiting)
def move_waiting(pool: IntArray, worker: IntArray) -> None:
    """Move requests without a worker to the end of ``pool``, keeping their order."""
    waiting = pool[worker[pool] < 0]
    pool[len(pool) - len(waiting) :] = waiting


def _take_in_turn(left: IntArray, start: IntArray, taken: IntArray, first: int) -> None:
    turns = taken.shape[1]
    for g in range(len(start)):
        amount, column = start[g], first
        left[g, 0] = amount
        for h in range(left.shape[1] - 1):
            amount -= taken[g, column]
            left[g, h + 1] = amount
            column = column + 1 if column + 1 < turns else 0


@compilable(compiled_as=_take_in_turn)
def take_in_turn(left: IntArray, start: IntArray, taken: IntArray, first: int) -> None:
    """Write ``start`` minus cumulative sums of consecutive columns of a ring buffer to ``left``.

    ``left`` has shape (G, h+1), and its column 0 is ``start``. The ring buffer ``taken`` has shape
    (G, H+1) with H >= h. Its h columns from ``first`` on are subtracted one after the other.
    """
    left[:, 0] = start
    in_turn = np.concatenate((taken[:, first:], taken[:, :first]), axis=1)[:, : left.shape[1] - 1]
    left[:, 1:] = start[:, None] - np.cumsum(in_turn, axis=1)


def _while_active(loads: IntArray, sizes: IntArray, growth: IntArray, remaining: IntArray) -> None:
    for i in range(len(sizes)):
        size, end = sizes[i], min(remaining[i], len(growth))
        for h in range(end):
            loads[i, h] = size + growth[h]
        for h in range(end, len(growth)):
            loads[i, h] = 0


@compilable(compiled_as=_while_active)
def while_active(loads: IntArray, sizes: IntArray, growth: IntArray, remaining: IntArray) -> None:
    """Write the load of each request per step: ``sizes[i] + growth[h]`` while active, then 0.

    Request i is active in the steps h < ``remaining[i]``. ``loads`` has shape (N, H+1), ``growth``
    has shape (H+1,).
    """
    ahead = np.arange(len(growth))
    loads[:] = np.where(ahead < remaining[:, None], sizes[:, None] + growth, 0)


def _sort_few(values: IntArray) -> None:
    for k in range(1, len(values)):
        value, place = values[k], k
        while place > 0 and values[place - 1] > value:
            values[place] = values[place - 1]
            place -= 1
        values[place] = value


@compilable(compiled_as=_sort_few)
def sort_few(values: IntArray) -> None:
    """Sort a few integers by insertion, which compiles quickly."""
    values.sort()


# A heap of keys and numbers, the least key at the top; ties go to the lowest number.


@compilable
def pop_least(keys: FloatArray | IntArray, numbers: IntArray, num: int) -> int:
    """Remove the least key of a heap of ``num`` entries; return the number stored with it."""
    first = int(numbers[0])
    keys[0], numbers[0] = keys[num - 1], numbers[num - 1]
    sink(keys, numbers, 0, num - 1)
    return first


@compilable
def sink(keys: FloatArray | IntArray, numbers: IntArray, top: int, num: int) -> None:
    """Move the entry at position ``top`` of a heap of ``num`` entries down to its place."""
    key, number = keys[top], numbers[top]
    while 2 * top + 1 < num:
        child = 2 * top + 1
        if child + 1 < num and comes_first(
            keys[child + 1], numbers[child + 1], keys[child], numbers[child]
        ):
            child += 1
        if not comes_first(keys[child], numbers[child], key, number):
            break
        keys[top], numbers[top] = keys[child], numbers[child]
        top = child
    keys[top], numbers[top] = key, number


@compilable
def comes_first(key: float, number: int, other_key: float, other: int) -> bool:
    """Return whether the first heap entry precedes the other: smaller key, then lower number."""
    return key < other_key or (key == other_key and number < other)


def _unsigned(index: int) -> np.uint64:
    return np.uint64(index)


@compilable(compiled_as=_unsigned, into_caller=True)
def at(index: int) -> int:
    """Return an array index that is known to be non-negative, so that no sign check is compiled.

    Otherwise machine code checks the sign of each index, because negative indices count from the
    end. In a loop over linked records, this check takes a fifth of the time.
    """
    return index
