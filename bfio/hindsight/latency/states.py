"""The states of one round of the search, one per row."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.arrays import BoolArray, IntArray

#: Bound of what is dropped, if nothing is.
NONE_LOST = np.iinfo(np.int64).max


#: Requests that a word marks, and words of marks.
MARK_BITS, MARK_WORDS = 60, 2


class States(NamedTuple):
    """States of one round, one per row; kernels take them as they are.

    ``starts`` holds -1 where a request has not started and ``mark`` a bit for each that has,
    ``started`` how many have; ``bound`` sums the settled losses, ``reach`` adds the look ahead,
    ``total`` sums the starts.
    """

    starts: NDArray[np.int32]
    mark: IntArray
    bound: IntArray
    reach: IntArray
    total: IntArray
    started: IntArray

    @staticmethod
    def empty(room: int, n: int) -> "States":
        """Return room for states of n requests, not filled in."""
        return States(
            np.empty((room, n), np.int32),
            np.empty((room, MARK_WORDS), np.int64),
            *(np.empty(room, np.int64) for _ in range(4)),
        )

    @staticmethod
    def root(n: int, bound: int) -> "States":
        """Return the one state in which nothing has started."""
        states = States.empty(1, n)
        states.starts[:] = -1
        states.mark[:] = 0
        states.bound[:] = bound
        states.reach[:] = bound
        states.total[:] = 0
        states.started[:] = 0
        return states

    @staticmethod
    def joined(parts: list["States"]) -> "States":
        """Return the rows of all parts."""
        return States._make(np.concatenate(columns) for columns in zip(*parts, strict=True))

    def select(self, rows: "BoolArray | IntArray | slice") -> "States":
        """Return some rows."""
        return States._make(column[rows] for column in self)

    def best(self, width: int) -> tuple["States", int]:
        """Return the rows of least bound, and the least bound among the others."""
        if len(self.reach) <= width:
            return self, NONE_LOST
        order = np.argsort(self.reach, kind="stable")
        return self.select(order[:width]), int(self.reach[order[width]])
