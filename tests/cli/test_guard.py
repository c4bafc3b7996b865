"""Signals and time limits of real processes, in code that does not check for them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.processes import PATIENCE_S, children, is_running, started, wait_until

#: A formulation's command whose solver is busy in native code, after one answer in hand.
_STUCK = """
import atexit, ctypes, os, signal, sys
from bfio.cli import run, so_far
from bfio.cli.command import DONE, Command
def add(parser):
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--limit", type=float)
    parser.add_argument("--empty", action="store_true")
    parser.add_argument("--late", action="store_true")
def work(args):
    if args.late:
        atexit.register(os.kill, os.getpid(), signal.SIGINT)
        return DONE
    if not args.empty:
        document = {"termination": "time_limit", "objective": 7}
        so_far.keep(args.json, document, lambda: ["objective 7"], DONE)
    so_far.limit(args.limit)
    print("ready", file=sys.stderr, flush=True)
    # Holds the interpreter's lock and waits for itself; unlike a sleep, no signal wakes it.
    library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(256)
    library.pthread_mutex_init(mutex, None)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)
    return DONE
sys.modules["bfio.cli.main"].commands = lambda: {"stuck": Command("stuck", "", "", add, work)}
run()
"""


class _Ended(NamedTuple):
    status: int
    out: str
    err: str
    seconds: float


def _run(*arguments: str, signals: tuple[signal.Signals, ...] = ()) -> _Ended:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", _STUCK, "stuck", *arguments]
    with started(command, stdout=pipe, stderr=pipe, start_new_session=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        began = time.monotonic()
        for number in signals:
            os.killpg(process.pid, number)
        out, err = process.communicate(timeout=PATIENCE_S)
        return _Ended(process.returncode, out, err, time.monotonic() - began)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_native_code(number: signal.Signals) -> None:
    """Status 130 and what was in hand, marked, within two seconds."""
    ended = _run("--json", signals=(number,))
    assert ended.status == 130
    expected = {"termination": "interrupted", "objective": 7, "interrupted": True}
    assert json.loads(ended.out) == expected
    assert ended.err == "interrupted\n"
    assert ended.seconds < 4  # 1.2 on an idle machine


def test_a_signal_after_the_answer() -> None:
    """What is said stays said, with the status it has."""
    command = [sys.executable, "-c", _STUCK, "stuck", "--late"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_an_interrupt_during_an_import(tmp_path: Path) -> None:
    """Python then ends itself by SIGINT at exit: status 130, and no error."""
    (tmp_path / "stopped.py").write_text('exec("raise KeyboardInterrupt")\n')
    command = [sys.executable, "-m", "bfio", "simulate", "--policy", "stopped.py:f"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (130, "interrupted\n")


def test_nothing_in_hand() -> None:
    """A signal says so alone, or in a document; a limit has status 3 and one line."""
    ended = _run("--empty", "--json", signals=(signal.SIGINT,))
    assert (ended.status, json.loads(ended.out)) == (130, {"interrupted": True})
    ended = _run("--empty", signals=(signal.SIGINT,))
    assert (ended.status, ended.out, ended.err) == (130, "", "interrupted\n")
    for more in ((), ("--json",)):
        ended = _run("--empty", "--limit", "0.1", *more)
        assert (ended.status, ended.out) == (3, "")
        assert ended.err.count("\n") == 1
        assert "--time-limit" in ended.err


def test_a_limit_ends_native_code() -> None:
    """What was in hand is the answer, with the status it has."""
    ended = _run("--json", "--limit", "0.2")
    assert (ended.status, ended.err) == (0, "")
    assert json.loads(ended.out) == {"termination": "time_limit", "objective": 7}
    assert ended.seconds < 3  # 0.2 on an idle machine


def test_the_command_ends_with_its_guard() -> None:
    """Nothing is left behind when the waiting process is killed."""
    command = [sys.executable, "-c", _STUCK, "stuck"]
    with started(command, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "ready\n"
        (child,) = children(process.pid)
    wait_until(lambda: not is_running(child), "the command ends with its guard", seconds=20)
