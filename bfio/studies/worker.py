"""Compute rows one after another in a process: ``python -m bfio.studies.worker``.

The process receives orders and returns rows through a pipe. It ends with the runner: the write end
of a second pipe (the lifeline), which is never written to, is closed when the runner ends for any
reason. The system then sends this process a signal, even during a solve.
"""

import argparse
import contextlib
import ctypes
import faulthandler
import fcntl
import json
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
from formulations.errors import InputError, kind_of
from formulations.named_objects import found_from, place_of


@dataclass(frozen=True)
class Order:
    """A row to compute, as sent to the process.

    Parameters
    ----------
    task : Task
        The row.
    folder : str
        Base folder of relative file names.
    want_log : bool
        Whether to record a log.
    home : str
        Folder of the study, where its own modules are; if empty, only the working directory is
        used.
    """

    task: Task
    folder: str
    want_log: bool = False
    home: str = ""

    def to_bytes(self) -> bytes:
        """Serialise the order as JSON."""
        # Leave out fields that only reports use.
        bare = replace(self.task, setting={}, remarks=(), refuted=(), meaning=None)
        own = replace(self, task=bare)
        return canonical(asdict(own)).encode()

    @staticmethod
    def from_bytes(text: bytes) -> "Order":
        """Parse the output of `to_bytes`."""
        document = json.loads(text)
        return Order(**document | {"task": Task(**document["task"])})


def to_bytes(row: Row) -> bytes:
    """Serialise a row as JSON, with the identifier of the process that computed it.

    The identifier excludes answers from a stray fork of the process.
    """
    return canonical(asdict(row) | {"process": os.getpid()}).encode()


def from_bytes(text: bytes) -> tuple[Row, int]:
    """Parse the output of `to_bytes`: return a row and a process identifier."""
    document = json.loads(text)
    process: int = document.pop("process")
    document["task"] = Task(**document["task"])
    document["status"] = Status(document["status"])
    document["verdict"] = RowVerdict(document["verdict"])
    return Row(**document), process


def _storable(text: str) -> str:
    """Replace lone surrogates (from broken file names), which no database can store."""
    return text.encode(errors="replace").decode()


_CLEAR_REFERENCES = Path("/proc/self/clear_refs")
_PROCESS_STATUS = Path("/proc/self/status")
#: ``_IONBF``, the unbuffered mode of C's ``setvbuf``.
_UNBUFFERED = 2


def main(argv: list[str] | None = None) -> int:
    """Compute rows until the runner closes the pipe."""
    args = _arguments(argv)
    _die_with_runner(args.lifeline)
    # Ctrl-C reaches the whole process group, but only the runner decides what happens to rows.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # On a crash, write a traceback to the standard error stream.
    faulthandler.enable()
    _write_at_once()
    # Allocations beyond the limit fail (private writable memory, on Linux).
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (args.memory, args.memory))
    # Search path for users' modules, including those that a row imports only when it runs.
    here = os.getcwd()  # noqa: PTH109 - a folder that is gone later is only an error then
    home = args.home or here
    sys.path += dict.fromkeys((home, here))
    with found_from(Path(home)):
        _work(args.orders, args.computes, here)
    return 0


def _work(orders: int, computes: str, here: str) -> None:
    """Compute the ordered rows, each starting in the initial working directory."""
    code = _load(computes)
    connection = Connection(orders)
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        # Reports that the process is ready, and the version of the code it loaded.
        connection.send_bytes(code.encode())
        while True:
            order = Order.from_bytes(connection.recv_bytes())
            # A row may have changed the directory.
            os.chdir(here)
            row = computed_row(order)
            _flush()
            connection.send_bytes(to_bytes(row))


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="computes rows for a study runner")
    parser.add_argument("--orders", type=int, required=True, help="file descriptor of the pipe")
    parser.add_argument(
        "--lifeline", type=int, required=True, help="file descriptor of the lifeline"
    )
    parser.add_argument("--memory", type=int, required=True, help="memory limit [bytes]")
    parser.add_argument("--computes", required=True, help="row kind to load before the first row")
    parser.add_argument("--home", default="", help="folder of the study")
    return parser.parse_args(argv)


def _load(computes: str) -> str:
    """Import the modules of a row kind before the first row; return the code version."""
    # An error here occurs again in each row, and is reported there.
    with contextlib.suppress(Exception):
        find(computes)
        return code_version(computes)
    return ""


def _die_with_runner(lifeline: int) -> None:
    """Ask the system for a signal when the runner's end of the lifeline pipe is closed.

    By default SIGIO ends a process. The system delivers it without the interpreter, so a solver
    that never returns to Python ends as well.
    """
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    # Negative: the signal goes to the whole process group, including processes started by rows.
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC | os.O_NONBLOCK)
    # The lifeline was closed before the request, so no signal will come.
    with contextlib.suppress(BlockingIOError):
        if os.read(lifeline, 1) == b"":
            os._exit(1)


def _write_at_once() -> None:
    """Make the output of rows unbuffered, so that a kill does not lose it.

    This sets the C streams. The supervisor sets ``PYTHONUNBUFFERED`` for those of Python.
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):
        c_library = ctypes.CDLL(None)
        for name in ("stdout", "stderr"):
            stream = ctypes.c_void_p.in_dll(c_library, name)
            c_library.setvbuf(stream, None, _UNBUFFERED, ctypes.c_size_t(0))


def _flush() -> None:
    """Flush all streams, so that the output of a row ends up in its own log."""
    # A row may have replaced the streams; restore those of the process for the next row.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).fflush(None)


def computed_row(order: Order) -> Row:
    """Compute one row. Any exception becomes the error of the row."""
    meter = _Meter(order.task)
    try:
        result = _computed(order)
    except MemoryError:
        return meter.row(Status.OUT_OF_MEMORY, "the memory limit was reached")
    # A user's row function may raise anything or ask to exit. Only its own row fails.
    except BaseException as error:
        return meter.row(Status.FAILED, _described(error), log=_trace(error))
    if result.violations:
        found = ", ".join(f"{name}: {amount}" for name, amount in result.violations.items())
        return meter.row(Status.VIOLATED, f"the checker found {found}", result)
    return meter.row(Status.DONE, "", result)


def _described(error: BaseException) -> str:
    """Return an error as one line; an `InputError` without type and place."""
    name = type(error).__name__
    try:
        text = " ".join(str(error).split())
    except Exception:
        return f"{name}, whose text cannot be printed"
    # Skip the frame of `computed_row`.
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
        raise RuntimeError("the data have changed since the row was planned")
    return _checked(planned.compute(), task.computes)


def _checked(result: object, name: str) -> RowResult:
    """Accept a `RowResult` or a mapping of values, and convert NumPy numbers to Python numbers.

    Errors give the name of the row function.
    """
    if isinstance(result, Mapping):
        result = RowResult(result)
    if not isinstance(result, RowResult):
        raise InputError(name, f"returned {kind_of(result)}", "return a mapping of values")
    return replace(
        result,
        values={
            str(key): _scalar(value, f"{name}: {key}") for key, value in result.values.items()
        },
        series={
            str(k): [_scalar(value, f"{name}: {k}") for value in values]
            for k, values in result.series.items()
        },
    )


def _scalar(value: object, where: str) -> Any:
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is not None and not isinstance(plain, str | int | float | bool):
        raise InputError(where, f"is {kind_of(value)}", "return a number, a text or None")
    # Tables compute in floats, so neither nan nor an integer beyond them has a place there.
    if isinstance(plain, int | float) and not abs(plain) <= sys.float_info.max:
        if isinstance(plain, float):
            raise InputError(where, f"is {plain}", "return None where there is no number")
        raise InputError(where, "is beyond the range of floats", "scale it, or return a text")
    if isinstance(plain, str) and not plain.isascii():
        plain.encode()  # half a character cannot be written anywhere
    return plain


class _Meter:
    """Meter of wall-clock time, processor time and peak memory of one row."""

    def __init__(self, task: Task) -> None:
        self._task = task
        # Writing 5 resets the peak of the resident memory.
        with contextlib.suppress(OSError):
            _CLEAR_REFERENCES.write_text("5", encoding="ascii")
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def row(
        self, status: Status, error: str, result: RowResult | None = None, log: str = ""
    ) -> Row:
        """Return the row with its result, if any, and the measured time and memory."""
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


#: Fields that a row copies from its result.
_OF_RESULT = (
    "verdict", "values", "series", "timings", "solves", "unproven", "stopped_by_clock",
)  # fmt: skip


def peak_memory() -> int:
    """Return the peak resident memory of this row so far [bytes]; 0 where it cannot be read."""
    try:
        lines = _PROCESS_STATUS.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    peaks = [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")]
    return peaks[0] if peaks else 0


if __name__ == "__main__":
    sys.exit(main())
