"""Until when a solve may go on: one clock for all of its phases.

Loops ask the clock themselves. Code that cannot, such as Pyomo's while it states and compiles a
model, is interrupted: only where it is Python alone, and where what it leaves is thrown away. A
native solver has a limit of its own. What none of these reaches (one long call of a kernel) ends
late here; the command line then ends the process (`bfio.cli.guard`) with what was told last.
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


class OutOfTime(Exception):  # noqa: N818 - an end, not an error
    """The deadline came before there was an answer."""


class Watcher(Protocol):
    """Who follows a solve."""

    def ends_in(self, seconds: float | None) -> None:
        """Hear when the solve has to end; None while the clock stands."""

    def found(self, answer: Any) -> None:
        """Hear what the answer would be if the solve ended now."""


class Deadline:
    """A time limit that has begun.

    Parameters
    ----------
    seconds : float
        Wall-clock time from now.
    watcher : Watcher, optional
        Hears of answers on the way.

    Attributes
    ----------
    at : float
        Value of `time.perf_counter` when time is up.
    """

    def __init__(self, seconds: float = inf, watcher: Watcher | None = None) -> None:
        self.seconds = seconds
        self.at = time.perf_counter() + seconds
        self._watcher = watcher
        self._whole: Deadline | None = None
        self._tell_end()

    @staticmethod
    def of(limit: "TimeLimit") -> "Deadline":
        """Return the deadline of a time limit [s] that begins now; of None, one without end.

        Raises
        ------
        InputError
            If the limit is negative or no number.
        """
        if isinstance(limit, Deadline):
            return limit
        if limit is None:
            return Deadline()
        if not (isinstance(limit, int | float) and limit >= 0):
            raise InputError(
                "time_limit", f"{limit!r} is negative or no number", "use seconds >= 0"
            )
        return Deadline(limit)

    def share(self, of_rest: float) -> "Deadline":
        """Return the clock of a part of what is left; where that one stops, this one does."""
        part = Deadline(of_rest * self.left)
        part._whole = self
        return part

    def mapped(self, change: Callable[[Any], Any]) -> "Deadline":
        """Return the same clock, whose watcher hears changed answers."""
        changed = copy.copy(self)
        if self._watcher is not None:
            vars(changed)["_watcher"] = _Mapped(self._watcher, change)
        return changed

    @property
    def left(self) -> float:
        """Seconds left, at least 0; infinite without a limit."""
        return max(0.0, self.at - time.perf_counter())

    @property
    def left_or_none(self) -> float | None:
        """Seconds left, as solvers take them."""
        return None if self.at == inf else self.left

    @property
    def is_over(self) -> bool:
        """Whether time is up."""
        return time.perf_counter() >= self.at

    def check(self) -> None:
        """Raise `OutOfTime` if time is up."""
        if self.is_over:
            raise OutOfTime

    @property
    def is_watched(self) -> bool:
        """Whether someone listens."""
        return self._watcher is not None

    def found(self, answer: Callable[[], Any]) -> None:
        """Tell what the answer would be if the solve ended now; it is made if someone listens."""
        if self._watcher is not None:
            self._watcher.found(answer())

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the clock meanwhile: loading modules and compiling kernels is not solving."""
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
        """Raise `OutOfTime` in the code inside once time is up.

        For Python code that does not look at the clock, holds no lock, and whose work may be
        dropped anywhere. Native code is interrupted when it returns, and the import of a module
        when it is done.

        Parameters
        ----------
        grace_s : float
            Seconds more, for what gives a first answer.
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


#: Grace for a first answer [s]: part of what a limit may be exceeded by.
FIRST_GRACE_S = 0.1
#: How often to look whether a module is loaded by now [s].
_PAUSE_S = 0.005
#: The deadline that never comes.
UNLIMITED = Deadline()


@dataclass(frozen=True)
class _Mapped:
    """A watcher behind a change of answers."""

    watcher: Watcher
    change: Callable[[Any], Any]

    def ends_in(self, seconds: float | None) -> None:
        """Pass it on."""
        self.watcher.ends_in(seconds)

    def found(self, answer: Any) -> None:
        """Change and pass on."""
        self.watcher.found(self.change(answer))


#: What functions take: seconds from now, or a clock that runs already.
TimeLimit: TypeAlias = float | Deadline | None


def _is_importing(thread: int) -> bool:
    """Whether a thread loads a module, which would stay in the process half loaded."""
    frame = sys._current_frames().get(thread)  # noqa: SLF001  (the only way to see them)
    while frame is not None and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None


def _raise_in(thread: int) -> None:
    exception = ctypes.py_object(OutOfTime)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), exception)


def _wait_for_another(thread: int) -> None:
    """Make an `OutOfTime` that was sent to this thread, come or not, come here and nowhere later.

    Taking it back instead would leave the interpreter looking for it at every call from then on,
    and looking for ever at the first one that is traced (CPython 3.11).
    """
    try:
        _raise_in(thread)
        while True:
            pass
    except OutOfTime:
        pass
