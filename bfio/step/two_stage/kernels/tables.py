"""Tables that grow while a kernel fills them."""

import numpy as np

from bfio.common.compilable import compilable
from formulations.arrays import IntArray

_FIRST_ROWS = 1024


@compilable(allocates=True)
def new_table(columns: int) -> IntArray:
    """Return a table with uninitialised rows."""
    return np.empty((_FIRST_ROWS, columns), np.int64)


@compilable(allocates=True)
def with_room(table: IntArray, rows: int) -> IntArray:
    """Return the table if it has more than ``rows`` rows, else a copy with twice as many."""
    if rows < len(table):
        return table
    larger = np.empty((2 * len(table), table.shape[1]), np.int64)
    # Copy element by element: a slice assignment takes seconds to compile.
    for row in range(rows):
        for column in range(table.shape[1]):
            larger[row, column] = table[row, column]
    return larger
