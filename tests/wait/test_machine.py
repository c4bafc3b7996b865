"""The machine's arrays: both implementations of an operation agree, and order is kept."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.wait.machine import (
    COMPLETED,
    HELD_TOKENS,
    HOLDING,
    REVEALED,
    Ending,
    close_gaps,
    evict,
    has_room,
    move,
    new_course,
    new_presence,
    new_table,
    place_of,
    reveal,
    run_batch,
    with_rows,
)
from bfio.wait.run import with_room
from formulations.arrays import IntArray
from tests.wait.cases import instance, instances

MOVE: Any = move


@pytest.mark.parametrize("move", [MOVE, MOVE.__recipe__.compiled_as])
@given(st.data())
def test_move(move: Any, data: st.DataObject) -> None:
    """Taking an entry out and putting it in elsewhere."""
    line = data.draw(st.lists(st.integers(), min_size=1, max_size=7))
    source, target = (data.draw(st.integers(0, len(line) - 1)) for _ in range(2))
    moved: IntArray = np.array(line, dtype=object)
    move(moved, source, target)
    line.insert(target, line.pop(source))
    assert moved.tolist() == line


@given(st.data())
def test_close_gaps(data: st.DataObject) -> None:
    """Who has not completed stands at the end of the part, in the old order; the rest stays."""
    completion = np.array(data.draw(st.lists(st.sampled_from([-1, 4]), max_size=7)), dtype=int)
    n = len(completion)
    line = np.array(data.draw(st.permutations(range(n))), dtype=int)
    first, last = sorted(data.draw(st.integers(0, n)) for _ in range(2))
    left = [i for i in line[first:last].tolist() if completion[i] < 0]
    outside = [*line[:first].tolist(), *line[last:].tolist()]
    close_gaps(line, first, last, completion)
    assert line[last - len(left) : last].tolist() == left
    assert [*line[:first].tolist(), *line[last:].tolist()] == outside


@given(st.sets(st.integers(0, 20), max_size=9), st.integers(-1, 21), st.data())
def test_place_of(some: set[int], request: int, data: st.DataObject) -> None:
    """Behind all that are less."""
    line = np.array(sorted(some), dtype=int)
    first, last = sorted(data.draw(st.integers(0, len(line))) for _ in range(2))
    less = sum(1 for i in line[first:last].tolist() if i < request)
    assert place_of(line, first, last, request) == first + less


@given(st.data())
def test_the_line_is_in_order_of_arrival(data: st.DataObject) -> None:
    """Whoever is evicted or runs: held and waiting requests are all that are there, sorted."""
    drawn = data.draw(instances())
    course, there = new_course(drawn, Ending()), new_presence(len(drawn))
    for _ in range(6):
        reveal(course)
        counters = course.counters
        first, after = counters[COMPLETED], counters[COMPLETED] + counters[HOLDING]
        held = there.line[first:after].tolist()
        waiting = there.line[after : counters[REVEALED]].tolist()
        present = [i for i in range(counters[REVEALED]) if course.completion[i] < 0]
        assert held == [i for i in present if there.stage[i] > 0]
        assert waiting == [i for i in present if there.stage[i] == 0]
        sizes = drawn.prompt + there.stage
        assert counters[HELD_TOKENS] == sizes[held].sum()
        for i in held:
            if data.draw(st.booleans()):
                evict(course, there, i)
        batch = [i for i in data.draw(st.permutations(present)) if data.draw(st.booleans())]
        run_batch(course, there, batch, len(batch))


def test_tables_grow() -> None:
    """They keep what is in them, and at least double."""
    table = new_table(2)
    table[:] = 7
    assert with_rows(table, len(table)) is table
    larger = with_rows(table, len(table) + 1)
    assert len(larger) == 2 * len(table)
    assert (larger[: len(table)] == 7).all()
    assert len(with_rows(table, 5 * len(table))) == 5 * len(table)


def test_tables_have_room_for_everyone_that_is_there() -> None:
    """Three requests may each end a span and be evicted: three rows; one for the batch."""
    course, there = new_course(instance(9, [(0, 1, 1)] * 3), Ending()), new_presence(3)
    reveal(course)
    spans, evictions, batches = (np.empty((rows, 1), dtype=np.int64) for rows in (3, 2, 1))
    course, there = (
        course._replace(batches=batches),
        there._replace(spans=spans, evictions=evictions),
    )
    assert not has_room(course, there)
    course, there = with_room(course, there)
    assert has_room(course, there)
    assert [len(table) for table in (course.batches, there.spans, there.evictions)] == [1, 3, 4]
