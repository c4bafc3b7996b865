"""Operations on the line of requests, and what the machine takes for a row of numbers."""

from collections.abc import Sequence
from typing import TypeAlias

from bfio.common.compilable import compilable
from formulations.arrays import IntArray

#: Integers, one after the other: compiled runs have arrays, others may have lists.
Row: TypeAlias = IntArray | Sequence[int]
#: The same, to be written to.
Filled: TypeAlias = IntArray | list[int]


def _move(line: IntArray, source: int, target: int) -> None:
    item, step = line[source], 1 if source < target else -1
    for k in range(source, target, step):
        line[k] = line[k + step]
    line[target] = item


@compilable(compiled_as=_move)
def move(line: IntArray, source: int, target: int) -> None:
    """Put the entry at one place to another, and those in between one place towards the first.

    It is stated in numpy and as a loop to be compiled: slices take Numba seconds.
    """
    item = line[source]
    if source < target:
        line[source:target] = line[source + 1 : target + 1]
    elif source > target:
        line[target + 1 : source + 1] = line[target:source]
    line[target] = item


@compilable
def place_of(line: IntArray, first: int, last: int, request: int) -> int:
    """Return where a request stands, or would stand, in the increasing ``line[first:last]``."""
    while first < last:
        middle = (first + last) // 2
        if line[middle] < request:
            first = middle + 1
        else:
            last = middle
    return first


@compilable
def close_gaps(line: IntArray, first: int, last: int, completion: IntArray) -> None:
    """Move those of ``line[first:last]`` that have not completed together, towards its end."""
    free = last
    for k in range(last - 1, first - 1, -1):
        if completion[line[k]] < 0:
            free -= 1
            line[free] = line[k]
