"""Operations on whole arrays: in numpy, and as loops, which Numba compiles much faster."""

import numpy as np

from bfio.common.compilable import compilable
from formulations.arrays import IntArray


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


def _close_up(values: IntArray, num: int, gap: int) -> int:
    kept = 0
    for k in range(num):
        if values[k] != gap:
            values[kept] = values[k]
            kept += 1
    return kept


@compilable(compiled_as=_close_up)
def close_up(values: IntArray, num: int, gap: int) -> int:
    """Move those of the first ``num`` values together that are no gap; return how many."""
    kept = values[:num][values[:num] != gap]
    values[: len(kept)] = kept
    return len(kept)


def _insert_column(table: IntArray, num: int, place: int) -> None:
    for row in range(len(table)):
        for k in range(num, place, -1):
            table[row, k] = table[row, k - 1]


@compilable(compiled_as=_insert_column)
def insert_column(table: IntArray, num: int, place: int) -> None:
    """Move columns ``place..num-1`` one to the right."""
    table[:, place + 1 : num + 1] = table[:, place:num]


@compilable(allocates=True)
def drop_columns(table: IntArray, num: int, marks: IntArray) -> int:
    """Drop the columns among ``num`` whose first entry is marked; return how many stay."""
    stay = marks[table[0, :num]] == 0
    kept = 0
    for row in range(len(table)):
        values = table[row, :num][stay]
        kept = len(values)
        table[row, :kept] = values
    return kept


@compilable(allocates=True)
def with_rows(table: IntArray, rows: int) -> IntArray:
    """Return a larger copy of a table, of so many rows."""
    return np.concatenate((table, np.empty((rows - len(table), table.shape[1]), np.int64)))
