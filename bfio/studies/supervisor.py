"""Supervise a process that computes rows, which may hang or die."""

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing.connection import Connection, wait
from socket import socketpair

from bfio.common.provenance import ROOT, THREAD_VARIABLES, environment
from bfio.studies.row import Limits, Row, Status, Task
from bfio.studies.worker import Order, from_bytes
from formulations.errors import InputError

#: Time limit for a process to load the code of rows, including kernel compilation [s].
_START_SECONDS = 300.0
#: Largest number of consecutive failed starts before the runner gives up.
_STARTS = 20
#: Signals that are sent from outside, by an operator or for lack of memory. The row is retried.
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)
#: Time for a process to end after it has closed its pipe [s].
_FAREWELL_SECONDS = 10.0
#: Bytes kept of the output of a dead process.
_TAIL = 4000


class Supervisor:
    """Starts and supervises one computing process, and starts it again after its death.

    Parameters
    ----------
    computes : str
        Kind of row.
    limits : Limits
        Limits of one row.
    home : str
        Folder of the study, where its own modules are.
    """

    def __init__(self, computes: str, limits: Limits, home: str = "") -> None:
        self._computes, self._limits, self._home = computes, limits, home
        self._process: _Process | None = None
        self._stopped = False

    def compute(self, order: Order) -> Row:
        """Compute one row. A failure is returned as the status of the row, not raised.

        Raises
        ------
        InputError
            If no process can be started, its code version differs from the planned one, or `kill`
            was called meanwhile.
        """
        attempts = 0
        while True:
            process = self._ready_process()
            _check_code(process.code, order.task.code)
            attempts += 1
            row = process.compute(order, self._limits.seconds)
            if row is not None:
                if self._limits.fresh_process:
                    self._reap()
                return finished(row, attempts)
            code, output = self._reap()
            self._check_stopped()
            if -code not in _FROM_OUTSIDE or attempts >= self._limits.attempts:
                return finished(_obituary(order.task, code, attempts, output), attempts)

    def kill(self) -> None:
        """Kill the running row and compute no further ones. Safe from any thread."""
        self._stopped = True
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the process. Only the thread that computes may call this."""
        self._stopped = True
        self._reap()

    def _ready_process(self) -> "_Process":
        """Return a running process that has loaded the code of rows."""
        output = ""
        for _ in range(_STARTS):
            if self._process is not None and not self._process.is_alive:
                _, output = self._reap()
            if self._process is None:
                self._process = _Process(self._computes, self._limits, self._home)
            # Check after the process is stored, so that a concurrent `kill` finds it.
            self._check_stopped()
            if self._process.code is not None or self._process.wait_until_ready():
                return self._process
        what = f"cannot be started: {output.strip() or 'it ends at once'}"
        remedy = "repair the installation, or raise limits.memory_gib"
        raise InputError("worker process", what, remedy)

    def _check_stopped(self) -> None:
        if self._stopped:
            self._reap()
            raise InputError("study", "stopped", "run it again to continue")

    def _reap(self) -> tuple[int, str]:
        """Return the return code of the ended process (as in `subprocess`) and its output."""
        process, self._process = self._process, None
        return (0, "") if process is None else process.end()


class _Process:
    """A computing process and the ends of its pipes."""

    def __init__(self, computes: str, limits: Limits, home: str) -> None:
        #: Version of the code that it has loaded; None while it is loading.
        self.code: str | None = None
        self._ending = threading.Lock()
        ours, theirs = socketpair()
        far_end, self._lifeline = os.pipe()
        self._output = _appending_file()
        self._popen = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "bfio.studies.worker"),
                *("--orders", str(theirs.fileno()), "--lifeline", str(far_end)),
                *("--memory", str(limits.memory_bytes), "--computes", computes),
                *("--home", home),
            ],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            # Its own process group: processes started by rows end with it.
            process_group=0,
            pass_fds=(theirs.fileno(), far_end),
            env=_environment(),
        )
        theirs.close()
        os.close(far_end)
        self._connection = Connection(ours.detach())
        self._death = os.pidfd_open(self._popen.pid)

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return not wait([self._death], 0)

    def wait_until_ready(self) -> bool:
        """Wait until the process has loaded its code; return False if it ends or hangs."""
        with contextlib.suppress(EOFError, OSError):
            if self._answers(_START_SECONDS):
                self.code = self._connection.recv_bytes().decode()
        if self.code is None:
            self._kill_and_wait()
        return self.code is not None

    def compute(self, order: Order, seconds: float) -> Row | None:
        """Compute one row in the process; return None if the process ends."""
        os.ftruncate(self._output, 0)
        began = time.perf_counter()
        try:
            self._connection.send_bytes(order.to_bytes())
            if not self._answers(seconds):
                self._kill_and_wait()
                return Row(
                    order.task,
                    Status.TIMED_OUT,
                    error=f"took longer than {seconds:g} s",
                    stopped_by_clock=True,
                    log=self._printed(),
                    wall_s=time.perf_counter() - began,
                    environment=environment(),
                )
            row, process = from_bytes(self._connection.recv_bytes())
        except (EOFError, OSError):
            return None
        if (row.task.key, process) != (order.task.key, self._popen.pid):
            # A row has forked and both copies answer. This answer may belong to another row.
            self._kill_and_wait()
            return None
        log = row.log
        if order.want_log and (row.status is not Status.FAILED or not log):
            log = self._printed() or log
        return replace(row, task=order.task, log=log)

    def kill(self) -> None:
        """Kill the process and all processes that its rows have started. Safe from any thread."""
        with self._ending:
            # After a wait, the system may give the process number to another process.
            if self._popen.returncode is None:
                os.killpg(self._popen.pid, signal.SIGKILL)

    def end(self) -> tuple[int, str]:
        """Kill the process if it runs; return its exit code and its last output."""
        if self._is_closed():
            # The process may still be ending by itself; then its return code says why.
            wait([self._death], _FAREWELL_SECONDS)
        code = self._kill_and_wait()
        printed = self._printed()
        self._connection.close()
        for descriptor in (self._lifeline, self._output, self._death):
            os.close(descriptor)
        return code, printed

    def _is_closed(self) -> bool:
        """Whether the process has closed its end of the pipe."""
        try:
            return self._connection.poll(0) and not self._connection.recv_bytes()
        except (EOFError, OSError):
            return True

    def _answers(self, seconds: float) -> bool:
        """Wait for a message of the process, or its end; return False if neither comes in time.

        The death is watched separately, because forks made by a row keep the pipe open.
        """
        if not wait([self._connection, self._death], seconds):
            return False
        if not self._connection.poll(0):
            raise EOFError
        return True

    def _kill_and_wait(self) -> int:
        # Also if the process is dead, because processes started by its rows may live.
        self.kill()
        with self._ending:
            return self._popen.wait()

    def _printed(self) -> str:
        """Return the last output of the current row."""
        size = os.fstat(self._output).st_size
        return os.pread(self._output, _TAIL, max(0, size - _TAIL)).decode(errors="replace")


def _check_code(loaded: str | None, planned: str) -> None:
    # An empty version means that the code could not be loaded. The row will report the error.
    if loaded and loaded != planned:
        what = f"a process loaded code version {loaded}, but rows were planned with {planned}"
        remedy = "do not edit sources while a study runs; run it again to use the new ones"
        raise InputError("study", what, remedy)


def _obituary(task: Task, code: int, attempts: int, output: str) -> Row:
    """Build the row of a task whose process ended unexpectedly."""
    name = signal.Signals(-code).name if code < 0 else f"exit status {code}"
    times = f" (in each of {attempts} attempts)" if attempts > 1 else ""
    # C++ and Python print one of these words when an allocation fails.
    no_memory = "bad_alloc" in output or "MemoryError" in output
    return Row(
        task,
        status=Status.OUT_OF_MEMORY if no_memory else Status.CRASHED,
        error="the memory limit was reached" if no_memory else f"its process died: {name}{times}",
        log=output,
        environment=environment(),
    )


def finished(row: Row, attempts: int) -> Row:
    """Return a row with the number of attempts and the current time as its end time."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return replace(row, attempts=attempts, finished_at=now)


def _appending_file() -> int:
    """Return an unnamed file in append mode, so that writers continue correctly after a cut."""
    with tempfile.TemporaryFile() as stream:
        descriptor = os.dup(stream.fileno())
    flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_APPEND)
    return descriptor


def _environment() -> dict[str, str]:
    """Return the environment variables of a process: one thread, unbuffered output, this code."""
    path = [*os.environ.get("PYTHONPATH", "").split(os.pathsep), str(ROOT)]
    return {
        **os.environ,
        **dict.fromkeys(THREAD_VARIABLES, "1"),
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": os.pathsep.join(entry for entry in path if entry),
    }
