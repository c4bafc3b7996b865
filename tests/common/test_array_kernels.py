"""Each operation on whole arrays has two implementations with equal results."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.common import array_kernels as arrays
from bfio.common.array_kernels import at
from bfio.common.kernels import entry_point
from formulations.arrays import IntArray

SIZES = st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=6)


def compiled_body(operation: Any) -> Any:
    """Return what is compiled in the place of an operation, to be run as it is."""
    body = operation.__recipe__.compiled_as
    assert callable(body)
    return body


@given(SIZES)
def test_extent(values: list[int]) -> None:
    """Largest, least, sum."""
    expected = (max(values), min(values), sum(values))
    for body in (arrays.extent, compiled_body(arrays.extent)):
        assert body(np.array(values)) == expected


@given(SIZES, st.integers(-3, 3))
def test_copy_and_add(values: list[int], factor: int) -> None:
    """``target = values``, then ``target += factor * values``."""
    for copy, add in (
        (arrays.copy_to, arrays.add_times),
        (compiled_body(arrays.copy_to), compiled_body(arrays.add_times)),
    ):
        target = np.zeros(len(values), dtype=np.int64)
        copy(target, np.array(values))
        add(target, np.array(values), factor)
        assert target.tolist() == [(1 + factor) * value for value in values]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-9, 9)), max_size=9))
def test_add_each(entries: list[tuple[int, int]]) -> None:
    """Every amount counts, also where one place occurs twice."""
    places = np.array([place for place, _ in entries], dtype=np.int64)
    amounts = np.array([amount for _, amount in entries], dtype=np.int64)
    expected = [sum(a for p, a in entries if p == place) for place in range(3)]
    for body in (arrays.add_each, compiled_body(arrays.add_each)):
        target = np.zeros(3, dtype=np.int64)
        body(target, places, amounts)
        assert target.tolist() == expected


@given(st.integers(1, 3), st.integers(1, 4), st.data())
def test_take_in_turn(workers: int, turns: int, data: st.DataObject) -> None:
    """Column h is the start less the first h of the ring; the last is not read."""
    cells = st.lists(st.integers(0, 99), min_size=turns, max_size=turns)
    taken = [data.draw(cells) for _ in range(workers)]
    first = data.draw(st.integers(0, turns - 1))
    expected = [
        [500 - sum(row[(first + k) % turns] for k in range(h)) for h in range(turns)]
        for row in taken
    ]
    for body in (arrays.take_in_turn, compiled_body(arrays.take_in_turn)):
        left = np.empty((workers, turns), dtype=np.int64)
        body(left, np.full(workers, 500), np.array(taken), first)
        assert left.tolist() == expected


@given(st.lists(st.tuples(st.integers(1, 99), st.integers(1, 9)), max_size=5))
def test_while_active(requests: list[tuple[int, int]]) -> None:
    """Size and growth while a request remains, then nothing."""
    growth = [0, 2, 3, 7]
    sizes = np.array([size for size, _ in requests], dtype=np.int64)
    remaining = np.array([steps for _, steps in requests], dtype=np.int64)
    expected = [
        [size + gain if h < steps else 0 for h, gain in enumerate(growth)]
        for size, steps in requests
    ]
    for body in (arrays.while_active, compiled_body(arrays.while_active)):
        loads = np.empty((len(requests), len(growth)), dtype=np.int64)
        body(loads, sizes, np.array(growth), remaining)
        assert loads.tolist() == expected


@given(st.lists(st.integers(0, 9), max_size=9))
def test_sort_few(values: list[int]) -> None:
    """In increasing order, ties and all."""
    for body in (arrays.sort_few, compiled_body(arrays.sort_few)):
        found = np.array(values, dtype=np.int64)
        body(found)
        assert found.tolist() == sorted(values)


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
