"""Row functions that the tests of the study runner compute."""

import ctypes
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bfio.studies.row import RowContext, RowResult
from bfio.studies.row_kind import Described, RowKind, described
from formulations.step import StepProblem, solve
from formulations.step.check import violations


@described(Described("square", "m2", "the second power"))
def square(arguments: Mapping[str, Any], context: RowContext) -> dict[str, int]:
    """Square a number, after an optional sleep."""
    time.sleep(arguments.get("nap", 0.0))
    return {"square": arguments["i"] ** 2}


def busy(arguments: Mapping[str, Any], context: RowContext) -> dict[str, int]:
    """Keep a core busy for a twentieth of a second of its time."""
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    return {"i": arguments["i"]}


def solving(arguments: Mapping[str, Any], context: RowContext) -> RowResult:
    """Solve a random step problem with CP-SAT and check the answer."""
    rng = np.random.default_rng(arguments["seed"])
    problem = StepProblem(
        capacity=rng.integers(1, 4, 4),
        base=rng.integers(0, 60, (4, 1)),
        contribution=rng.integers(1, 40, (10, 1)),
    )
    result = solve(problem, backend="cp-sat", seed=0)
    assert result.assignment is not None
    return RowResult(
        values={"objective": result.objective, "bound": result.bound},
        series={"loads": [float(load) for load in problem.base[:, 0]]},
        timings={"solve_s": result.seconds},
        solves=1,
        unproven=int(not result.is_optimal),
        violations=violations(problem, result.assignment, result.objective),
    )


def misbehave(arguments: Mapping[str, Any], context: RowContext) -> Any:
    """Misbehave in one of several ways."""
    return _MISDEEDS[arguments["deed"]]()


def _hang() -> None:
    """Wait in C, without ever coming back to Python and with the interpreter's lock held."""
    ctypes.PyDLL(None).sleep(1000)


def _raise() -> None:
    raise KeyError("no\nkey")


def _print() -> dict[str, int]:
    print("a word")
    return {"x": 1}


def _print_everywhere() -> dict[str, int]:
    """Let Python, C, a child and a stream with a buffer of its own each print a word."""
    print("Python ", end="")
    ctypes.CDLL(None).printf(b"C ")
    subprocess.run(["printf", "child "], check=True)
    sys.stdout = os.fdopen(os.dup(1), "w", buffering=4096)
    print("own", end="")
    return {"x": 1}


def _print_and(end: Callable[[], Any]) -> None:
    """Print with Python, C and a child that is killed at once, then end badly."""
    print("Python ", end="")
    ctypes.CDLL(None).printf(b"C ")
    killed = "import os, signal; print('child', end=''); os.kill(os.getpid(), signal.SIGKILL)"
    subprocess.run([sys.executable, "-c", killed], check=False)
    end()


def _fork() -> dict[str, int]:
    """Let two processes return."""
    warnings.simplefilter("ignore")
    return {"x": os.fork() * 0 + 1}


def _start_child() -> dict[str, int]:
    """Leave a process running, and return its id."""
    return {"child": subprocess.Popen(["sleep", "1000"]).pid}


def _exit_with_child() -> None:
    """Exit while a child process keeps the pipe open."""
    if os.fork():
        os._exit(3)
    time.sleep(1000)


def _leave() -> dict[str, str]:
    """Change the working directory, and import a module from the first one."""
    here = str(Path.cwd())
    os.chdir("/")
    return {"here": here}


def _interrupt() -> None:
    raise KeyboardInterrupt


class _SilentError(Exception):
    def __str__(self) -> str:
        raise ValueError


def _raise_silently() -> None:
    raise _SilentError


_MISDEEDS: dict[str, Callable[[], Any]] = {
    "none": lambda: {"x": 1},
    "hang": _hang,
    "segmentation fault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exit": lambda: os._exit(7),
    "raise": _raise,
    "memory": lambda: {"x": int(np.ones(10**10).sum())},
    "small blocks": lambda: {"x": len([bytearray(10**6) for _ in range(10**6)])},
    "nan": lambda: {"x": float("nan")},
    "large": lambda: {"x": -(10**400)},
    "list": lambda: {"x": [1, 2]},
    "number": lambda: 3,
    "violated": lambda: RowResult({"x": 1}, violations={"capacity": 2}),
    "numpy": lambda: {"x": np.int64(3), "y": np.float64(0.5), "z": np.bool_(True)},
    "prints": _print,
    "prints everywhere": _print_everywhere,
    "prints and hangs": lambda: _print_and(_hang),
    "prints and is killed": lambda: _print_and(lambda: os.kill(os.getpid(), signal.SIGKILL)),
    "prints and exits": lambda: _print_and(lambda: os._exit(7)),
    "fork": _fork,
    "child": _start_child,
    "exit with child": _exit_with_child,
    "leave": _leave,
    "silent": _raise_silently,
    "system exit": lambda: sys.exit(3),
    "interrupt": _interrupt,
    "half a character": lambda: {"x": "\ud800"},
    "huge": lambda: RowResult({"x": 1}, series={"s": [0.1] * 200_000}),
    "holds 64 MiB": lambda: {"x": (bytearray(b"\x01") * 2**26).count(1)},
}


def _digest(arguments: Mapping[str, Any], context: RowContext) -> str:
    """Return the length of a file as its digest, so that a test can change it."""
    return str((context.folder / arguments["file"]).stat().st_size)


SIZED = RowKind("sized", "the size of a file", lambda arguments, _: {"x": 1}, _digest)
