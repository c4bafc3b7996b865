"""What a solve of ours has used, and when that is enough: by work, by the clock, or never."""

from collections.abc import Callable

import numpy as np

from formulations.arrays import IntArray
from formulations.deadline import OPERATIONS, Deadline, TimeLimit

#: Operations of one call of a phase, besides what its kernels count: arrays made and copied.
CALL = 50_000


class Effort:
    """The work of one solve, and its limits.

    Phases ask `is_over` before each next piece of work and count what they do in operations, about
    a nanosecond each. Only kernels know how much that is: they add to ``spent`` themselves.

    Parameters
    ----------
    time_limit : float or Deadline, optional
        Wall-clock seconds from now on, or a clock that runs.
    work_limit : int, optional
        Ticks (`formulations.deadline`).

    Attributes
    ----------
    clock : Deadline
        The clock.
    spent : IntArray
        Shape (1,): operations so far.
    stopped_by_time, stopped_by_work : bool
        Which limit has ended a phase, so that the answer may depend on it.
    """

    def __init__(self, time_limit: TimeLimit = None, work_limit: int | None = None) -> None:
        self.clock = Deadline.of(time_limit)
        self.spent: IntArray = np.zeros(1, dtype=np.int64)
        self.stopped_by_time = False
        self.stopped_by_work = False
        self._most = None if work_limit is None else work_limit * OPERATIONS

    def spend(self, operations: int) -> None:
        """Count operations."""
        self.spent[0] += operations

    @property
    def ticks(self) -> int:
        """The work so far, rounded up."""
        return -(-int(self.spent[0]) // OPERATIONS)

    @property
    def ticks_left(self) -> int | None:
        """What the work limit leaves, 0 at least; None without one."""
        if self._most is None:
            return None
        return max(0, self._most - int(self.spent[0])) // OPERATIONS

    @property
    def is_over(self) -> bool:
        """Whether a limit has struck; whoever asks stops if so, and it is kept which it was."""
        return self._is_past(self.clock, self._most)

    def part(self, share: float) -> Callable[[], bool]:
        """Return what says whether a share of what is left now has been used."""
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
