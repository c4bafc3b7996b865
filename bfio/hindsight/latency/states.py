"""The states of one round of the search, one per row."""

from dataclasses import dataclass, fields

import numpy as np

from formulations.arrays import BoolArray, IntArray

#: Bound of what is dropped, if nothing is.
NONE_LOST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class States:
    """States of one round, one per row; a start of -1 has not happened.

    ``bound`` sums the settled losses, ``reach`` adds the look ahead, ``total`` sums the starts.
    """

    starts: IntArray
    mark: IntArray
    bound: IntArray
    reach: IntArray
    total: IntArray
    count: IntArray

    @staticmethod
    def empty(room: int, n: int) -> "States":
        """Return room for states of n requests, not filled in."""
        return States(
            np.empty((room, n), np.int32),
            np.empty((room, 2), np.int64),
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
        states.count[:] = 0
        return states

    @staticmethod
    def joined(parts: list["States"]) -> "States":
        """Return the rows of all parts."""
        names = [field.name for field in fields(States)]
        return States(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))

    def select(self, rows: "BoolArray | IntArray | slice") -> "States":
        """Return some rows."""
        return States(
            self.starts[rows],
            self.mark[rows],
            self.bound[rows],
            self.reach[rows],
            self.total[rows],
            self.count[rows],
        )

    def best(self, width: int) -> tuple["States", int]:
        """Return the rows of least bound, and the least bound among the others."""
        if len(self.reach) <= width:
            return self, NONE_LOST
        order = np.argsort(self.reach, kind="stable")
        return self.select(order[:width]), int(self.reach[order[width]])
