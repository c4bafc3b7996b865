"""Work, limits and phases of one solve."""

from collections.abc import Callable, Collection, Iterable
from enum import StrEnum

import numpy as np

from formulations.arrays import IntArray
from formulations.deadline import OPERATIONS, Deadline, TimeLimit
from formulations.errors import InputError, use_one_of
from formulations.problem_data import shown

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


class Phase(StrEnum):
    """Phases that may be skipped; docs/exact.md describes them.

    Without a phase, a solve proves less or takes longer, but its proofs are still valid.
    ``branches`` exists for every problem, ``refits``, ``margins`` and ``worker-sums`` for problems
    without a one-dimensional core (docs/windows.md), all others for those with one.
    """

    SUMS = "sums"
    REFILLS = "refills"
    PRICES = "prices"
    BRANCHES = "branches"
    REBALANCING = "rebalancing"
    PACKING_PRICES = "packing-prices"
    ENUMERATION = "enumeration"
    REFITS = "refits"
    MARGINS = "margins"
    WORKER_SUMS = "worker-sums"


def skipped_phases(names: Iterable[str]) -> Collection[Phase]:
    """Return the phases of these names.

    Raises
    ------
    InputError
        If there is no such phase.
    """
    known = [phase.value for phase in Phase]
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InputError("skip", f"{shown(names)} is not a list of names", use_one_of("", known))
    names = list(names)
    for name in names:
        if name not in known:
            raise InputError(f"phase {name!r}", "unknown", use_one_of(name, known))
    return frozenset(Phase(name) for name in names)
