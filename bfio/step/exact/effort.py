"""Work and limits of one solve: a work limit, a time limit, or none."""

from collections.abc import Callable

import numpy as np

from formulations.arrays import IntArray
from formulations.deadline import OPERATIONS, Deadline, TimeLimit

#: Operations of one call of a phase in addition to those that its kernels count, for arrays.
CALL = 50_000


class Effort:
    """The work of one solve, and its limits.

    Phases call `is_over` before each piece of work, and count their work in operations of about a
    nanosecond. Kernels count their own operations in ``spent``.

    Parameters
    ----------
    time_limit : float or Deadline, optional
        Wall-clock seconds from now on, or a running clock.
    work_limit : int, optional
        Ticks (`formulations.deadline`).

    Attributes
    ----------
    clock : Deadline
        The clock.
    spent : IntArray
        Shape (1,): number of operations so far.
    stopped_by_time, stopped_by_work : bool
        Whether this limit has ended a phase, so that the answer may depend on it.
    """

    def __init__(self, time_limit: TimeLimit = None, work_limit: int | None = None) -> None:
        self.clock = Deadline.of(time_limit)
        self.spent: IntArray = np.zeros(1, dtype=np.int64)
        self.stopped_by_time = False
        self.stopped_by_work = False
        self._most = None if work_limit is None else work_limit * OPERATIONS

    def spend(self, operations: int) -> None:
        """Add to the count of operations."""
        self.spent[0] += operations

    @property
    def ticks(self) -> int:
        """Work so far [ticks], rounded up."""
        return -(-int(self.spent[0]) // OPERATIONS)

    @property
    def ticks_left(self) -> int | None:
        """Ticks left under the work limit, at least 0; None without a limit."""
        if self._most is None:
            return None
        return max(0, self._most - int(self.spent[0])) // OPERATIONS

    @property
    def is_over(self) -> bool:
        """Return whether a limit is reached, and record which; the caller must then stop."""
        return self._is_past(self.clock, self._most)

    def part(self, share: float) -> Callable[[], bool]:
        """Return a function that tells whether a share of the remaining effort is used."""
        clock, spent = self.clock.share(share), int(self.spent[0])
        most = None if self._most is None else spent + int(share * (self._most - spent))
        return lambda: self._is_past(clock, most)

    def _is_past(self, clock: Deadline, most: int | None) -> bool:
        # Work first: where both are over, the answer is the same on every machine.
        if most is not None and self.spent[0] >= most:
            self.stopped_by_work = True
            return True
        if clock.is_over:
            self.stopped_by_time = True
            return True
        return False
