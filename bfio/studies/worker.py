"""The process that computes rows, one after another: ``python -m bfio.studies.worker``.

It is told by a pipe what to compute and answers in the same way. It dies with the runner: a second
pipe, to which nobody ever writes, is closed when the runner ends, however it ends, and the system
then sends this process a signal, even in the middle of a solve.
"""

import argparse
import contextlib
import ctypes
import faulthandler
import fcntl
import json
import math
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from bfio.common.provenance import environment
from bfio.studies.kinds import code_version, find
from bfio.studies.row import Row, RowContext, RowResult, RowVerdict, Status, Task, canonical
from formulations.errors import InputError
from formulations.named_objects import found_from, place_of


@dataclass(frozen=True)
class Order:
    """A row to compute.

    Parameters
    ----------
    task : Task
        The row.
    folder : str
        Where relative file names start.
    want_log : bool
        Whether a log is wanted.
    home : str
        Folder of the study, where modules of its own are; empty: the working directory alone.
    """

    task: Task
    folder: str
    want_log: bool = False
    home: str = ""

    def to_bytes(self) -> bytes:
        """Write it as JSON."""
        # What only reports need stays here.
        bare = replace(self.task, setting={}, remarks=(), refuted=(), meaning=None)
        own = replace(self, task=bare)
        return canonical(asdict(own)).encode()

    @staticmethod
    def from_bytes(text: bytes) -> "Order":
        """Read what `to_bytes` wrote."""
        document = json.loads(text)
        return Order(**document | {"task": Task(**document["task"])})


def to_bytes(row: Row) -> bytes:
    """Write a row as JSON, with the process that has computed it.

    A stray copy of a process cannot answer for another then.
    """
    return canonical(asdict(row) | {"process": os.getpid()}).encode()


def from_bytes(text: bytes) -> tuple[Row, int]:
    """Read what `to_bytes` wrote: a row and a process."""
    document = json.loads(text)
    process: int = document.pop("process")
    document["task"] = Task(**document["task"])
    document["status"] = Status(document["status"])
    document["verdict"] = RowVerdict(document["verdict"])
    return Row(**document), process


def _storable(text: str) -> str:
    """Return the text without what no database takes (half characters of broken file names)."""
    return text.encode(errors="replace").decode()


_CLEAR_REFERENCES = Path("/proc/self/clear_refs")
_PROCESS_STATUS = Path("/proc/self/status")
#: As C's ``setvbuf`` calls it.
_UNBUFFERED = 2


def main(argv: list[str] | None = None) -> int:
    """Compute rows until the runner closes the pipe."""
    args = _arguments(argv)
    _die_with_runner(args.lifeline)
    # Ctrl-C reaches the whole process group; what happens to rows is for the runner to decide.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A crash leaves a trace of where it happened on the standard error stream.
    faulthandler.enable()
    _write_at_once()
    _limit_memory(args.memory)
    # Where users' modules are found, also those that a row imports only when it runs.
    here = os.getcwd()  # noqa: PTH109 - a folder that is gone later is only an error then
    home = args.home or here
    sys.path += dict.fromkeys((home, here))
    with found_from(Path(home)):
        _work(args.orders, args.computes, here)
    return 0


def _work(orders: int, computes: str, here: str) -> None:
    """Compute what is ordered, each row in the folder that this process began in."""
    code = _load(computes)
    connection = Connection(orders)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        # Says that it is ready, and what code it has loaded.
        connection.send_bytes(code.encode())
        while True:
            order = Order.from_bytes(connection.recv_bytes())
            # A row may have gone elsewhere; the next one starts where all do.
            os.chdir(here)
            row = computed_row(order)
            _flush()
            connection.send_bytes(to_bytes(row))


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="computes rows for a study runner")
    parser.add_argument("--orders", type=int, required=True, help="descriptor of the pipe")
    parser.add_argument("--lifeline", type=int, required=True, help="descriptor of the lifeline")
    parser.add_argument("--memory", type=int, required=True, help="limit [bytes]")
    parser.add_argument("--computes", required=True, help="kind of row to load before the first")
    parser.add_argument("--home", default="", help="folder of the study")
    return parser.parse_args(argv)


def _load(computes: str) -> str:
    """Import what rows need, so that no row pays for it; return the version of the code."""
    # What goes wrong here goes wrong in each row again, and is reported there.
    with contextlib.suppress(Exception):
        find(computes)
        return code_version(computes)
    return ""


def _die_with_runner(lifeline: int) -> None:
    """Ask for a signal as soon as the other end of the lifeline is closed.

    SIGIO ends a process unless it says otherwise. The system delivers it without our help, so a
    solver that never returns to Python ends as well.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    # Negative: to the whole process group, with what rows may have started.
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC | os.O_NONBLOCK)
    # Closed before we asked: no signal will come.
    with contextlib.suppress(BlockingIOError):
        if os.read(lifeline, 1) == b"":
            os._exit(1)


def _write_at_once() -> None:
    """Let what rows print reach the file before anything can happen to this process.

    Python's own streams do so by ``PYTHONUNBUFFERED``, as the supervisor sets it for children too.
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):
        c_library = ctypes.CDLL(None)
        for name in ("stdout", "stderr"):
            stream = ctypes.c_void_p.in_dll(c_library, name)
            c_library.setvbuf(stream, None, _UNBUFFERED, ctypes.c_size_t(0))


def _flush() -> None:
    """Write what a row's own streams may hold back: the log belongs to that row."""
    # A row may have put anything in their place; the next one gets those of the process.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)


def _limit_memory(limit: int) -> None:
    """Let allocations beyond the limit fail (private writable memory, on Linux)."""
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def computed_row(order: Order) -> Row:
    """Compute one row; whatever it raises becomes its error."""
    meter = _Meter(order.task)
    try:
        result = _computed(order)
    except MemoryError:
        return meter.row(Status.OUT_OF_MEMORY, "the memory limit was reached")
    # A user's row function may raise anything, or ask to exit; it costs its own row only.
    except BaseException as error:
        return meter.row(Status.FAILED, _described(error), log=_trace(error))
    if result.violations:
        found = ", ".join(f"{name}: {amount}" for name, amount in result.violations.items())
        return meter.row(Status.VIOLATED, f"the checker found {found}", result)
    return meter.row(Status.DONE, "", result)


def _described(error: BaseException) -> str:
    """Return the error as one line; ours say already what they are."""
    name = type(error).__name__
    try:
        text = " ".join(str(error).split())
    except Exception:
        return f"{name}, which cannot be printed"
    # The first line is that of `computed_row`.
    return text if isinstance(error, InputError) else f"{name}: {text}{place_of(error, skipped=1)}"


def _trace(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception:
        return ""


def _computed(order: Order) -> RowResult:
    task = order.task
    context = RowContext(Path(order.folder), order.want_log)
    planned = find(task.computes).planned(task.arguments, context)
    if planned.instance != task.instance:
        raise RuntimeError("the data differ from those that were planned")
    return _checked(planned.compute())


def _checked(result: object) -> RowResult:
    """Accept a `RowResult`, or a mapping of values; numbers of numpy become plain ones."""
    if isinstance(result, Mapping):
        result = RowResult(result)
    if not isinstance(result, RowResult):
        raise TypeError(f"a row function returned a {type(result).__name__}, not a mapping")
    return replace(
        result,
        values={str(name): _scalar(name, value) for name, value in result.values.items()},
        series={
            str(name): [_scalar(name, value) for value in values]
            for name, values in result.series.items()
        },
    )


def _scalar(name: object, value: object) -> Any:
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is not None and not isinstance(plain, str | int | float | bool):
        raise TypeError(f"value {name} is a {type(value).__name__}, not a number, text or None")
    if isinstance(plain, float) and not math.isfinite(plain):
        raise ValueError(f"value {name} is {plain}; return None where there is no number")
    if isinstance(plain, str) and not plain.isascii():
        plain.encode()  # half a character cannot be written anywhere
    return plain


class _Meter:
    """Measures wall-clock and processor time and the largest memory of one row."""

    def __init__(self, task: Task) -> None:
        self._task = task
        # Five resets the mark of the largest resident memory.
        with contextlib.suppress(OSError):
            _CLEAR_REFERENCES.write_text("5", encoding="ascii")
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def row(
        self, status: Status, error: str, result: RowResult | None = None, log: str = ""
    ) -> Row:
        """Return the row with its result, if there is one, and what it took."""
        found = result or RowResult({})
        return Row(
            task=self._task,
            status=status,
            **{name: getattr(found, name) for name in _OF_RESULT},
            error=_storable(error),
            log=_storable(log or found.log),
            wall_s=time.perf_counter() - self._wall,
            cpu_s=time.process_time() - self._cpu,
            peak_memory_bytes=peak_memory(),
            environment=environment(),
        )


#: What a row has of its result as it is.
_OF_RESULT = (
    "verdict", "values", "series", "timings", "solves", "unproven", "stopped_by_clock",
)  # fmt: skip


def peak_memory() -> int:
    """Return the largest resident memory of this row so far [bytes]; 0 where it cannot be read."""
    try:
        lines = _PROCESS_STATUS.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    peaks = [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")]
    return peaks[0] if peaks else 0


if __name__ == "__main__":
    sys.exit(main())
