"""An end to users' code that does not come back."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from formulations.errors import InputError


@contextmanager
def patience(seconds: float, where: str, what: str, remedy: str) -> Iterator[None]:
    """Interrupt Python code that takes longer than it may.

    Outside the main thread, or where there are no interval timers, nothing is interrupted.

    Parameters
    ----------
    seconds : float
        How long it may take, by the clock [s].
    where, what, remedy : str
        Of the error.

    Raises
    ------
    InputError
        If it takes longer.
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
