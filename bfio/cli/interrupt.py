"""Ctrl-C that loses nothing: work may end in an orderly way, for a second, then it is ended."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Seconds that the work has to end by itself; `bfio.cli.guard` allows a little more.
_ORDERLY_S = 0.9
#: Two signals so close together are one, which several processes have passed on.
_ONE_SIGNAL_S = 0.2


@contextmanager
def orderly_interrupt() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether the user has asked to stop.

    What has not stopped a second later, or at a second Ctrl-C, gets a KeyboardInterrupt.

    Outside the main thread signals cannot be caught, and nothing changes.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return

    since = 0.0
    again = threading.Timer(_ORDERLY_S, os.kill, (os.getpid(), signal.SIGINT))
    again.daemon = True

    def on_signal(number: int, frame: object) -> None:
        nonlocal since
        if not asked.is_set():
            asked.set()
            since = time.monotonic()
            again.start()
        elif time.monotonic() >= since + _ONE_SIGNAL_S:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield asked.is_set
    finally:
        again.cancel()
        signal.signal(signal.SIGINT, before)
