"""Parse the command line, run the command, and report expected failures in one line.

The command runs in a child process, guarded by a parent that handles signals and time limits.
Solvers and compiled kernels do not return to Python while they work. So no Python signal handler
runs in the meantime, and some do not check the time. The parent only waits. After a signal or
beyond a time limit, the child may end by itself. If it does not, it is killed, and its last kept
answer (`bfio.cli.so_far`) is printed.
"""

import argparse
import io
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import formulations
from bfio.cli import so_far
from bfio.cli.command import (
    BAD_INPUT,
    DONE,
    INTERRUPTED,
    NOTHING_FOUND,
    Command,
    OneLineParser,
    SeveralErrors,
    commands,
    in_flags,
    say,
)
from formulations.errors import InputError

_DESCRIPTION = """\
Integer optimization for scheduling and load balancing in LLM serving.

Decode workers of an LLM server advance in lockstep: every step lasts as long as the most loaded
worker needs. bfio states each routing decision as an integer program, solves it exactly and by
heuristics, and replays traces to measure the effect of better decisions.

Start with:  bfio demo
"""
_EPILOG = """\
Every command but route and emulate accepts --json (one JSON document on stdout, nothing else), and
--seed if it draws random numbers.
Exit status: 0 done, 1 check, library verify or doctor found a fault, 2 bad input, 3 nothing found
within the limit, 130 interrupted.
"""


def main(argv: Sequence[str] | None = None, *, guarded: bool = False) -> int:
    """Run ``bfio`` with the given arguments and return its exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; by default those of the process.
    guarded : bool
        Whether to run the command in a child process (`fork`) and return its status.
    """
    _open_streams()
    so_far.forget()
    spoken: Callable[[InputError], str] = str
    try:
        _check_formulations()
        argv = sys.argv[1:] if argv is None else argv
        parser = _parser(commands(), argv)
        args = parser.parse_args(argv)
        command: Command = args.command
        spoken = partial(in_flags, parser=parser, command=command.name)
        if guarded:
            fork()
        if getattr(args, "json", False):
            so_far.keep_nothing()
        status = command.run(args)
        sys.stdout.flush()
        if guarded:
            _hear_no_more()
    except InputError as error:
        return _fail(spoken(error))
    except SeveralErrors as failed:
        return _fail(*map(spoken, failed.errors))
    except KeyboardInterrupt:
        so_far.print_interrupted()
        say("interrupted")
        so_far.interruption_said()
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of stdout has closed it.
        _drop_output()
        return DONE
    except OSError as error:
        _drop_output()
        place = error.filename or "output"
        return _fail(f"{place}: {error.strerror or error}; check the path, its rights and space")
    except MemoryError:
        return _fail("memory: not enough for this problem; use a smaller one")
    return status


def _drop_output() -> None:
    """Discard output that stdout refuses, because Python would report the error again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run() -> NoReturn:
    """Run ``bfio`` with the arguments of the process, and exit."""
    status = main(guarded=hasattr(os, "fork"))
    _hear_no_more()
    sys.exit(status)


def _hear_no_more() -> None:
    """Ignore Ctrl-C once the output is complete, so that the exit status stays."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _parser(known: dict[str, Command], argv: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of all commands, with the arguments only of those that are named."""
    parser = OneLineParser(
        prog="bfio",
        allow_abbrev=False,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print versions and exit")
    chooser = parser.add_subparsers(metavar="COMMAND", required=True, title="commands")
    for command in known.values():
        sub = chooser.add_parser(
            command.name,
            help=command.summary,
            description=command.description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if command.name in argv:
            command.add_arguments(sub)
        sub.set_defaults(command=command)
    return parser


class _Version(argparse.Action):
    """Action of ``--version``: print the versions on which results depend."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print the versions and exit."""
        from bfio.common.provenance import version_and_commit, versions

        others = [f"{name} {number}" for name, number in versions().items() if name != "bfio"]
        print(", ".join((version_and_commit(), *others)))
        parser.exit()


class _Notes(io.TextIOWrapper):
    """Stderr that drops what it cannot write, so that no answer is lost for a note about it."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


def _open_streams() -> None:
    """Replace closed streams, and print unsupported characters as question marks.

    Python represents a closed stream by None.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
    plain = sys.stderr
    if plain is sys.__stderr__ and isinstance(plain, io.TextIOWrapper):
        # Its buffer closes with it, and a caller may go back to the plain stream.
        own = open(plain.fileno(), "wb", closefd=False)  # noqa: SIM115
        sys.stderr = _Notes(own, encoding=plain.encoding, line_buffering=True)
    for stream in (sys.stdout, sys.stderr):
        # Characters such as ÷ or θ are replaced where they cannot be encoded.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _check_formulations() -> None:
    """Exit with an error if ``formulations`` is the unrelated package of this name."""
    if getattr(formulations, "PROJECT", None) != "bfio":
        what = f"the package 'formulations' at {formulations.__file__} is not bfio's"
        raise InputError("installation", what, "uninstall it and install bfio again")


def _fail(*messages: str) -> int:
    # No time limit ends the process between the error and its status.
    so_far.answer_begins()
    for message in dict.fromkeys(messages):
        say(f"error: {message}")
    return BAD_INPUT


#: Time for the child to end after a signal [s]: during work, once the answer has begun, and for a
#: service, which answers open requests and completes its log. A second signal ends it at once.
_GRACE_S, _PRINTING_S, _FAREWELL_S = 1.2, 1.7, 30.0
_STOPPING = (signal.SIGINT, signal.SIGTERM)


def fork() -> None:
    """Continue in a child process. The calling process waits and exits with the child's status."""
    sys.stdout.flush()
    sys.stderr.flush()
    messages, ours = os.pipe()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    parent, child = os.getpid(), os.fork()
    if child:
        os.close(ours)
        guard = _Guard(child, messages)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os._exit(guard.status())
    os.close(messages)
    _end_with(parent)
    _hear_the_guard()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    so_far.tell_to(ours)
    _announce_output()


def _end_with(parent: int) -> None:
    """Make the system kill this process when its parent ends, even if the parent is killed."""
    if sys.platform == "linux":
        import ctypes

        set_death_signal = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(INTERRUPTED)


def _hear_the_guard() -> None:
    """Raise KeyboardInterrupt at the first Ctrl-C; the guard process handles further ones."""
    asked = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if not asked:
            asked = True
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, on_signal)
    # A handler instead of SIG_IGN, because child processes would inherit SIG_IGN.
    signal.signal(signal.SIGTERM, lambda number, frame: None)


def _announce_output() -> None:
    """Replace stdout so that the guard process learns of the first byte of the answer."""

    class Announcing(io.FileIO):
        def write(self, data: Any) -> int:
            so_far.answer_begins()
            return super().write(data)

    plain = sys.stdout
    if plain is sys.__stdout__ and isinstance(plain, io.TextIOWrapper):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(Announcing(plain.fileno(), "w", closefd=False)),
            encoding=plain.encoding,
            errors=plain.errors,
            line_buffering=plain.line_buffering,
            write_through=plain.write_through,
        )


class _Guard:
    """Parent of the process that runs the command: forwards signals and enforces limits."""

    def __init__(self, child: int, messages: int) -> None:
        self._child, self._messages = child, messages
        self._inbox = b""
        self._kept: so_far.SoFar | None = None
        self._has_begun = self._has_said = self._serves = False
        self._limit: float | None = None
        self._asked: float | None = None
        self._now = False
        self._woken, wakes = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(wakes, False)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        for number in (*_STOPPING, signal.SIGCHLD):
            signal.signal(number, lambda number, frame: None)

    def status(self) -> int:
        """Wait for the child, or kill it; return the exit status."""
        waiting = [self._woken, self._messages]
        while True:
            end = self._end()
            left = None if end is None else max(0.0, end - time.monotonic())
            ready = select.select(waiting, [], [], left)[0]
            if self._messages in ready and not self._read():
                waiting.remove(self._messages)
            if self._woken in ready:
                self._signals(os.read(self._woken, 4096))
            pid, code = os.waitpid(self._child, os.WNOHANG)
            if pid:
                return self._ended(os.waitstatus_to_exitcode(code))
            end = self._end()
            if end is not None and time.monotonic() >= end:
                return self._kill()

    def _end(self) -> float | None:
        """Return the time at which to kill the child, by `time.monotonic`; None for never."""
        if self._asked is None:
            return None if self._has_begun else self._limit
        if self._now:
            return self._asked
        if self._serves:
            return self._asked + _FAREWELL_S
        return self._asked + (_PRINTING_S if self._has_begun else _GRACE_S)

    def _signals(self, numbers: bytes) -> None:
        """Forward the first signal to the child; kill the child at the second one."""
        if not set(numbers) & set(_STOPPING):
            return
        now = time.monotonic()
        if self._asked is None:
            self._asked = now
            os.kill(self._child, signal.SIGINT)
        elif now >= self._asked + so_far.ONE_SIGNAL_S:
            self._now = True

    def _read(self) -> bool:
        """Read messages of the child; return False when the child has closed the pipe."""
        data = os.read(self._messages, 1 << 20)
        self._inbox += data
        size = so_far.HEADER.size
        while len(self._inbox) >= size:
            (length,) = so_far.HEADER.unpack_from(self._inbox)
            if len(self._inbox) < size + length:
                break
            self._hear(*json.loads(self._inbox[size : size + length]))
            self._inbox = self._inbox[size + length :]
        return bool(data)

    def _hear(self, kind: str, *said: Any) -> None:
        if kind == so_far.ANSWER:
            self._kept = so_far.SoFar(*said)
        elif kind == so_far.LIMIT:
            self._limit = None if said[0] is None else time.monotonic() + said[0]
        elif kind == so_far.BEGUN:
            self._has_begun = True
        elif kind == so_far.SERVES:
            self._serves = True
        else:
            self._has_said = True

    def _kill(self) -> int:
        os.kill(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)
        while self._read():
            pass
        _show_cursor()
        if self._asked is not None:
            if self._kept is not None:
                self._print(self._kept.interrupted, self._kept.notes)
            if not self._has_said:
                say("interrupted")
            return INTERRUPTED
        if self._kept is None or not self._kept.at_limit:
            say("error: --time-limit: no answer found within the limit; raise it")
            return NOTHING_FOUND
        self._print(self._kept.at_limit)
        return self._kept.status

    def _print(self, text: str, notes: str = "") -> None:
        with suppress(OSError):  # the reader of stdout has ended
            if not self._has_begun:
                sys.stdout.write(text)
                sys.stdout.flush()
                sys.stderr.write(notes)

    def _ended(self, code: int) -> int:
        """Return the exit status of a child that ended by itself or was killed from outside."""
        if code >= 0:
            return code
        _show_cursor()
        if code == -signal.SIGINT:
            # CPython ends itself so at exit if KeyboardInterrupt passed through exec of a text.
            return INTERRUPTED
        name = signal.Signals(-code).name
        if -code == signal.SIGKILL:
            say(
                "error: memory: the process was killed, probably for lack of memory; use a "
                "smaller problem"
            )
        else:
            say(
                f"error: process: killed by signal {name}; use another --method or smaller numbers"
            )
        return BAD_INPUT


def _show_cursor() -> None:
    """Restore the terminal cursor that a progress bar has hidden."""
    if sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write("\x1b[?25h\n")
        sys.stderr.flush()
