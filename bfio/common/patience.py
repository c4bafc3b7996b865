"""A time limit for users' code."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from formulations.errors import InputError


@contextmanager
def patience(seconds: float, where: str, what: str, remedy: str) -> Iterator[None]:
    """Interrupt Python code that exceeds a time limit.

    Outside the main thread, or without interval timers, nothing is interrupted.

    Parameters
    ----------
    seconds : float
        Wall-clock limit [s].
    where, what, remedy : str
        Parts of the error.

    Raises
    ------
    InputError
        If the limit is exceeded.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(
        signal, "setitimer"
    ):
        yield
        return

    def on_alarm(number: int, frame: object) -> None:
        raise InputError(where, f"{what} takes more than {seconds:g} s", remedy)

    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
