"""Indices that machine code uses without checks."""

import numpy as np
import pytest

from bfio.common.array_kernels import at
from bfio.common.kernels import entry_point
from formulations.arrays import IntArray


def element(table: IntArray, row: int, column: int) -> int:
    """Return an element of a table by two unchecked indices, one of them a sum."""
    return int(table[at(row), at(column + 1)])


@pytest.mark.parametrize("compiled", [False, True])
def test_an_index_names_the_element_that_it_names(compiled: bool) -> None:
    """From the first to the last, in Python and in machine code."""
    read = entry_point(element) if compiled else element
    table = np.arange(12).reshape(3, 4)
    for row in range(3):
        for column in range(-1, 3):
            assert read(table, row, column) == table[row, column + 1]
