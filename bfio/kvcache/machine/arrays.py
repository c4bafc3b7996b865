"""Operations on whole arrays: in numpy, and as loops, which Numba compiles much faster."""

import numpy as np

from bfio.common.compilable import compilable
from formulations.arrays import BoolArray, IntArray


def _merge(sorted_keys: IntArray, num: int, new: IntArray) -> None:
    write, old, fresh = num + len(new) - 1, num - 1, len(new) - 1
    while fresh >= 0:
        if old >= 0 and sorted_keys[old] > new[fresh]:
            sorted_keys[write] = sorted_keys[old]
            old -= 1
        else:
            sorted_keys[write] = new[fresh]
            fresh -= 1
        write -= 1


@compilable(compiled_as=_merge)
def merge(sorted_keys: IntArray, num: int, new: IntArray) -> None:
    """Merge sorted new keys into the first ``num`` ones, which are sorted."""
    together = num + len(new)
    sorted_keys[num:together] = new
    if num > 0 and sorted_keys[num - 1] > new[0]:
        sorted_keys[:together].sort(kind="stable")


def _keep(row: IntArray, num: int, stays: BoolArray) -> int:
    kept = 0
    for k in range(num):
        if stays[k]:
            row[kept] = row[k]
            kept += 1
    return kept


@compilable(compiled_as=_keep)
def keep(row: IntArray, num: int, stays: BoolArray) -> int:
    """Move those of the first ``num`` values together that stay; return how many."""
    kept = row[:num][stays]
    row[: len(kept)] = kept
    return len(kept)


def _insert(row: IntArray, num: int, place: int, value: int) -> None:
    for k in range(num, place, -1):
        row[k] = row[k - 1]
    row[place] = value


@compilable(compiled_as=_insert)
def insert(row: IntArray, num: int, place: int, value: int) -> None:
    """Put a value at a place of the first ``num``; those from there on move one to the right."""
    if place < num:
        row[place + 1 : num + 1] = row[place:num]
    row[place] = value


@compilable(allocates=True)
def with_rows(table: IntArray, rows: int) -> IntArray:
    """Return a larger copy of a table, of so many rows."""
    return np.concatenate((table, np.empty((rows - len(table), table.shape[1]), np.int64)))
