"""Ctrl-C that loses nothing: the first ends the work in an orderly way, the second at once."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def orderly_interrupt() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether the user has asked to stop.

    Outside the main thread signals cannot be caught, and nothing changes.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    def on_signal(number: int, frame: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)
