"""Work shared among processes: fresh ones, that end with their parent."""

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
    function: Callable[[Item], Result], items: Sequence[Item], jobs: int, what: str = "--jobs"
) -> Generator[Result, None, None]:
    """Yield what a function returns for each item, in their order, from up to ``jobs`` processes.

    Processes are spawned, not forked: a child forked from a process with threads (of a solver, of
    a progress bar) can hang. They do not run the caller's script, which needs no guard therefore.
    What they print goes to stderr; Ctrl-C reaches the parent alone, and they end with it.

    Parameters
    ----------
    function : callable
        Each process gets it once, by cloudpickle: it may be of the caller's script, a lambda or a
        closure.
    items : sequence
        Sent in the same way.
    jobs : int
        Most processes.
    what : str
        What an error names.

    Raises
    ------
    InputError
        If one of the processes is killed, or something cannot be sent to one.
    """
    sent, orders = packed(function, what), [packed(item, what) for item in items]
    before = active_children()
    most = min(jobs, max(1, len(items)))
    pool = ProcessPoolExecutor(most, get_context("spawn"), _begin, (sent,))
    try:
        with interrupts_blocked(), _without_main():
            # Not `map`: it cancels what is left, and a pool whose processes ended stumbles on it.
            results = [pool.submit(_call, order, what) for order in orders]
        for result in results:
            yield pickle.loads(result.result())
    except BrokenProcessPool:
        remedy = "use fewer at a time, or --jobs 1"
        raise InputError(what, "a process was killed", remedy) from None
    except BaseException:
        # After an interruption or a failure nobody wants to wait for those that still run.
        for child in active_children():
            if child not in before:
                child.terminate()
        raise
    finally:
        pool.shutdown()


def packed(thing: object, where: str) -> bytes:
    """Return something as bytes that `pickle.loads` understands in another process.

    Raises
    ------
    InputError
        At ``where``, if it cannot be sent.
    """
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps(thing))
    # Whatever an object raises when it is asked to.
    except Exception as error:
        raise _unsent(where, error) from None


def _unsent(where: str, error: Exception) -> InputError:
    what = f"cannot be sent to another process ({' '.join(str(error).split())[:80]})"
    return InputError(where, what, "use jobs=1, or write it in a module of its own")


#: In a child: what it calls for each item, first as bytes.
_function: Any


def _begin(function: bytes) -> None:
    """Prepare a child."""
    global _function
    _function = function
    sys.stdout = sys.stderr
    parent = parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _call(item: bytes, what: str) -> bytes:
    """Return what the function returns for an item."""
    global _function
    try:
        # Not while the child is prepared: an error there would look as if it had been killed.
        if isinstance(_function, bytes):
            _function = pickle.loads(_function)
        given = pickle.loads(item)
    except Exception as error:
        raise _unsent(what, error) from None
    return packed(_function(given), what)


def _end_with(parent: Any) -> None:
    """End this process when the one that started it is gone, killed even."""
    parent.join()
    os._exit(1)


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Keep Ctrl-C from the processes started meanwhile: the parent alone decides what to do."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def _without_main() -> Iterator[None]:
    """Keep processes started meanwhile from running the caller's script once more.

    Without a guard ``if __name__ == "__main__"`` that would start processes in turn.
    """
    main = sys.modules["__main__"]
    names: tuple[str, ...] = ("__file__", "__spec__")
    kept = {name: vars(main).pop(name) for name in names if name in vars(main)}
    main.__spec__ = None
    try:
        yield
    finally:
        vars(main).update(kept)
