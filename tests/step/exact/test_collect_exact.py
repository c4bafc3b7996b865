"""Sets of a sum and a value, collected into the room there is."""

import numpy as np
import pytest

from bfio.step.exact.windows.pricing import Priced, collect_exact, prefix_bests

SIZES, VALUES = np.array([2, 3, 5]), np.array([[4, 1, 6]])
#: Mark of a sum that no subset reaches, in tables of 32 and of 64 bits.
NOTHING = {"int32": -(1 << 30), "int64": -(1 << 61)}


@pytest.mark.parametrize("width", ["int32", "int64"])
@pytest.mark.parametrize(
    ("count", "total", "room", "expected"),
    [
        (2, 5, 1, (1, True)),
        (2, 5, 0, (0, False)),
        (0, 0, 1, (1, True)),
        # The empty set is one too: without room it must not be counted, or it is written beyond.
        (0, 0, 0, (0, False)),
        (0, 1, 0, (0, True)),
    ],
)
def test_no_set_is_counted_without_room(
    count: int, total: int, room: int, expected: tuple[int, bool], width: str
) -> None:
    """What does not fit is told as missing."""
    # Largest value of c of the requests of sum exactly x.
    tables = np.full((1, 3, 9), NOTHING[width], dtype=width)
    tables[0, 0, 0] = 0
    for size, value in zip(SIZES, VALUES[0], strict=True):
        tables[0, 1, size] = value
    tables[0, 2, 5] = 5
    units = VALUES.astype(width)
    highest = tables.max(axis=2)[..., None, None]
    priced = Priced(SIZES, VALUES, units, 0, tables, highest, np.zeros(1, np.int64))
    found = np.empty((room, 2), np.int64)
    bests = prefix_bests(VALUES[0], 2)
    spent = np.zeros(1, np.int64)
    assert collect_exact(priced, 0, bests, count, total, 0, 100, found, spent) == expected
