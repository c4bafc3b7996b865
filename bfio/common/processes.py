"""Distribution of work over new processes, which end with their parent process."""

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from typing import Any, TypeVar

from formulations.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_processes(
    function: Callable[[Item], Result], items: Sequence[Item], jobs: int, what: str = "jobs"
) -> Generator[Result, None, None]:
    """Yield the results of a function for each item, in order, from up to ``jobs`` processes.

    Processes are spawned, not forked: a child forked from a process with threads (of a solver or a
    progress bar) can hang. The processes do not run the caller's script, so the script needs no
    ``__main__`` guard. Their output goes to stderr. Ctrl-C reaches only the parent process, and
    the children end with the parent.

    Parameters
    ----------
    function : callable
        The function, sent once to each process by cloudpickle. It may be defined in the caller's
        script, or be a lambda or a closure.
    items : sequence
        Arguments of the function, sent by cloudpickle one at a time.
    jobs : int
        Largest number of processes.
    what : str
        Option named in errors.

    Raises
    ------
    InputError
        If one of the processes is killed, or an object cannot be sent to it.
    """
    sent, orders = packed(function, what), [packed(item, what) for item in items]
    before = active_children()
    most = min(jobs, max(1, len(items)))
    pool = ProcessPoolExecutor(most, get_context("spawn"), _begin, (sent,))
    try:
        with interrupts_blocked(), _without_main():
            # Not `map`: it would cancel the remaining items, which fails in a pool with ended
            # processes.
            results = [pool.submit(_call, order, what) for order in orders]
        for result in results:
            yield pickle.loads(result.result())
    except BrokenProcessPool:
        remedy = "use fewer processes, or jobs=1"
        raise InputError(
            what, "the system killed a process, perhaps for lack of memory", remedy
        ) from None
    except BaseException:
        # After an interruption or a failure, do not wait for the running processes.
        for child in active_children():
            if child not in before:
                child.terminate()
        raise
    finally:
        pool.shutdown()


def packed(thing: object, where: str) -> bytes:
    """Pickle an object for another process.

    Raises
    ------
    InputError
        At ``where``, if the object cannot be pickled.
    """
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps(thing))
    # Pickling may raise any exception.
    except Exception as error:
        raise _unsent(where, error) from None


def _unsent(where: str, error: Exception) -> InputError:
    what = f"cannot be sent to another process ({' '.join(str(error).split())[:80]})"
    return InputError(where, what, "use jobs=1, or define the object in an importable module")


#: In a child process: the function for the items, pickled until the first call.
_function: Any


def _begin(function: bytes) -> None:
    """Initialise a child process."""
    global _function
    _function = function
    sys.stdout = sys.stderr
    parent = parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _call(item: bytes, what: str) -> bytes:
    """Return the pickled result of the function for a pickled item."""
    global _function
    try:
        # Unpickle here, not in `_begin`: an error there would look like a killed process.
        if isinstance(_function, bytes):
            _function = pickle.loads(_function)
        given = pickle.loads(item)
    except Exception as error:
        raise _unsent(what, error) from None
    return packed(_function(given), what)


def _end_with(parent: Any) -> None:
    """End this process when its parent ends, even if the parent is killed."""
    parent.join()
    os._exit(1)


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C in processes started in this context; only the parent handles it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def _without_main() -> Iterator[None]:
    """Keep processes started in this context from running the caller's script again.

    If a script has no guard ``if __name__ == "__main__"``, child processes would start more
    processes.
    """
    main = sys.modules["__main__"]
    names: tuple[str, ...] = ("__file__", "__spec__")
    kept = {name: vars(main).pop(name) for name in names if name in vars(main)}
    main.__spec__ = None
    try:
        yield
    finally:
        vars(main).update(kept)
