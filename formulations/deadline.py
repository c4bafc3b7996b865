"""Limits of a solve: wall-clock time, and work in ticks that do not depend on the machine.

The loops of this project check the clock. Python code that does not check it, such as Pyomo while
it compiles a model, is interrupted, and its partial results are discarded. A native solver gets
its own time limit. A compiled kernel cannot be interrupted: if a call exceeds the limit, the
command line ends the process with the last reported answer (`bfio.cli.main`).

A *tick* of work is about a microsecond on one core of 2023. Seconds depend on the machine and
its load. Ticks depend on the problem alone, so that the same command stops at the same point on
every machine. Definition of a tick for each method:

- this project's exact search counts operations (cells of tables, swaps, pivots, nodes, with a
  constant for each phase), 1,000 per tick, and checks the limit before each piece of work;
- CP-SAT counts its own deterministic seconds, 2,000,000 ticks each, with one worker;
- HiGHS counts nodes of its tree, 5,000 ticks each, or iterations of the simplex, 50 ticks each,
  if the program is continuous. Presolve, cuts, heuristics and the iterations at a node are not
  limited, so the root node may take much longer than the limit suggests;
- solvers driven by Pyomo are limited by nodes if the option is known (`SCIP`, `HiGHS`), or by
  Gurobi's own units of work, and refused otherwise;
- the two-stage heuristic, brute force and the linear relaxation count no ticks and refuse the
  limit.

Stating and writing a program counts no ticks.
"""

import copy
import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol, TypeAlias

from formulations.errors import InputError
from formulations.problem_data import shown
from formulations.scalars import integer


class OutOfTime(Exception):  # noqa: N818 - an end, not an error
    """The deadline passed before there was an answer."""


class Watcher(Protocol):
    """Interface of listeners to a solve, which receive its time limit and intermediate answers."""

    def ends_in(self, seconds: float | None) -> None:
        """Receive the seconds left until the solve must end; None while the clock is stopped."""

    def found(self, answer: Any) -> None:
        """Receive an intermediate answer: the result of the solve if it ended now."""


class Deadline:
    """A running time limit.

    Parameters
    ----------
    seconds : float
        Wall-clock time from now.
    watcher : Watcher, optional
        Receives intermediate answers.

    Attributes
    ----------
    at : float
        Value of `time.perf_counter` at which the time limit is reached [s].
    """

    def __init__(self, seconds: float = inf, watcher: Watcher | None = None) -> None:
        self.seconds = seconds
        self.at = time.perf_counter() + seconds
        self._watcher = watcher
        self._whole: Deadline | None = None
        self._tell_end()

    @staticmethod
    def of(limit: "TimeLimit") -> "Deadline":
        """Return the deadline for a limit in seconds from now; for None, one without a limit.

        Raises
        ------
        InputError
            If the limit is negative or not a number.
        """
        if isinstance(limit, Deadline):
            return limit
        if limit is None:
            return Deadline()
        if isinstance(limit, bool) or not (isinstance(limit, int | float) and limit >= 0):
            raise InputError(
                "time_limit", f"{shown(limit)} is not a number >= 0", "give seconds >= 0"
            )
        return Deadline(limit)

    def share(self, of_rest: float) -> "Deadline":
        """Return a deadline for a fraction of the time left; `stopped` then stops both clocks."""
        part = Deadline(of_rest * self.left)
        part._whole = self
        return part

    def mapped(self, change: Callable[[Any], Any]) -> "Deadline":
        """Return the same deadline; its watcher receives answers converted by ``change``."""
        changed = copy.copy(self)
        if self._watcher is not None:
            vars(changed)["_watcher"] = _Mapped(self._watcher, change)
        return changed

    @property
    def left(self) -> float:
        """Seconds until the time limit, at least 0; infinite without a limit."""
        return max(0.0, self.at - time.perf_counter())

    @property
    def left_or_none(self) -> float | None:
        """Seconds until the time limit; None without a limit, as solvers expect."""
        return None if self.at == inf else self.left

    @property
    def is_over(self) -> bool:
        """Whether the time limit is reached."""
        return time.perf_counter() >= self.at

    def check(self) -> None:
        """Raise `OutOfTime` if the time limit is reached."""
        if self.is_over:
            raise OutOfTime

    @property
    def is_watched(self) -> bool:
        """Whether a watcher is attached."""
        return self._watcher is not None

    def found(self, answer: Callable[[], Any]) -> None:
        """Send an intermediate answer to the watcher; without one, ``answer`` is not called."""
        if self._watcher is not None:
            self._watcher.found(answer())

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the clock inside the ``with`` block, e.g. while modules load or kernels compile."""
        began = time.perf_counter()
        if self._watcher is not None:
            self._watcher.ends_in(None)
        with nullcontext() if self._whole is None else self._whole.stopped():
            try:
                yield
            finally:
                self.at += time.perf_counter() - began
                self._tell_end()

    @contextmanager
    def interrupting(self, grace_s: float = 0.0) -> Iterator[None]:
        """Raise `OutOfTime` inside the ``with`` block once the time limit is reached.

        The block must be Python code that holds no lock and may be aborted at any point. Native
        code is interrupted when it returns, an import when it is complete.

        Parameters
        ----------
        grace_s : float
            Extra seconds, for code that produces a first answer.
        """
        if self.at == inf:
            yield
            return
        if not grace_s:
            self.check()
        thread, lock, inside, sent = threading.get_ident(), threading.Lock(), True, False

        def interrupt() -> None:
            nonlocal sent
            while True:
                with lock:
                    if not inside:
                        return
                    if not _is_importing(thread):
                        sent = True
                        _raise_in(thread)
                        return
                time.sleep(_PAUSE_S)

        timer = threading.Timer(min(self.left + grace_s, threading.TIMEOUT_MAX), interrupt)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            with lock:
                inside = False
            timer.cancel()
            if sent:
                _wait_for_another(thread)

    def _tell_end(self) -> None:
        if self._watcher is not None:
            self._watcher.ends_in(self.left_or_none)


#: Extra time for a first answer [s]; a time limit may be exceeded by this much.
FIRST_GRACE_S = 0.1
#: Polling interval while an import completes [s].
_PAUSE_S = 0.005
#: The deadline that never comes.
UNLIMITED = Deadline()


@dataclass(frozen=True)
class _Mapped:
    """A watcher that converts each answer before it passes it on."""

    watcher: Watcher
    change: Callable[[Any], Any]

    def ends_in(self, seconds: float | None) -> None:
        """Pass the remaining seconds to the original watcher."""
        self.watcher.ends_in(seconds)

    def found(self, answer: Any) -> None:
        """Convert an answer and pass it to the original watcher."""
        self.watcher.found(self.change(answer))


#: Type of time limits: seconds from now, or a running deadline.
TimeLimit: TypeAlias = float | Deadline | None


def _is_importing(thread: int) -> bool:
    """Whether a thread is inside an import; an interrupt would leave the module half loaded."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001  (the only way to see them)
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


def _raise_in(thread: int) -> None:
    exception = ctypes.py_object(OutOfTime)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), exception)


def _wait_for_another(thread: int) -> None:
    """Consume an `OutOfTime` that was sent to this thread, so that it is not raised later.

    Clearing the pending exception instead would leave CPython 3.11 checking for it at every later
    call, and would make it loop forever at the first traced call.
    """
    try:
        _raise_in(thread)
        while True:
            pass
    except OutOfTime:
        pass


#: Ticks of a solve in runs, gaps and studies unless another limit is given: about a second.
DEFAULT_WORK_LIMIT = 1_000_000
#: Largest accepted work limit [ticks]; no search reaches it.
MAX_WORK_LIMIT = 10**15

#: Operations of this project's exact search per tick.
OPERATIONS = 1_000
#: Ticks per deterministic second of CP-SAT.
CP_SAT_SECOND = 2_000_000
#: Ticks per node of a solver's tree, and per simplex iteration.
NODE = 5_000
ITERATION = 50
#: Ticks per Gurobi work unit, about a second.
GUROBI_UNIT = 1_000_000


def checked_work_limit(value: object, where: str = "work_limit") -> int | None:
    """Return a validated work limit in ticks of about a microsecond; None means no limit.

    Raises
    ------
    InputError
        If the value is not an integer from 0 to `MAX_WORK_LIMIT`.
    """
    return None if value is None else integer(value, where, maximum=MAX_WORK_LIMIT)


def work_limit_beside(time_limit: float | None, work_limit: int | None) -> int | None:
    """Return the work limit of runs, gaps and studies: the default if no limit is given."""
    if work_limit is None and time_limit is None:
        return DEFAULT_WORK_LIMIT
    return work_limit


def count_within(work_limit: int, ticks: int) -> int:
    """Return the number of nodes or iterations of ``ticks`` each within a work limit, < 2^31."""
    return min(work_limit // ticks, 2**31 - 1)
