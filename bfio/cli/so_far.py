"""Keep the best answer so far, for printing at a time limit or after a signal."""

import argparse
import io
import json
import os
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from math import inf
from typing import Any, NamedTuple

from bfio.cli.command import INTERRUPTED, NOTHING_FOUND
from bfio.cli.output import json_text
from formulations.deadline import Deadline
from formulations.errors import InputError

#: Kinds of messages to the guard process (`bfio.cli.main`).
ANSWER, LIMIT, BEGUN, SAID, SERVES = "answer", "limit", "begun", "said", "serves"
#: Length prefix of each message.
HEADER = struct.Struct(">Q")
#: Minimum time between two kept answers [s]; a signal loses at most the work since the last.
_EVERY_S = 1.0


class SoFar(NamedTuple):
    """The kept answer as printed at the time limit or after a signal, and the exit status."""

    at_limit: str
    interrupted: str
    status: int
    notes: str = ""


class _State:
    """State of this module: the kept answer, and the pipe to the guard process."""

    kept: SoFar | None = None
    has_begun = False
    guard: int | None = None
    shown = 0.0
    #: Lines for stderr of the answer that is being kept; None at other times.
    notes: list[str] | None = None


_state = _State()


def forget() -> None:
    """Discard the kept answer at the start of a command."""
    _state.kept, _state.has_begun, _state.shown = None, False, time.monotonic()


def keep_nothing() -> None:
    """Keep, for a signal, the JSON document of a command that has found nothing yet."""
    _state.kept = SoFar("", '{"interrupted": true}\n', INTERRUPTED)
    _tell(ANSWER, *_state.kept)


def keep(
    as_json: bool,
    document: Mapping[str, Any],
    lines: Callable[[], Sequence[str]],
    status: int,
    *,
    on_signals: bool = True,
) -> None:
    """Keep an answer in place of earlier ones.

    Parameters
    ----------
    as_json : bool
        Whether the command prints JSON.
    document : mapping
        The JSON document.
    lines : callable
        Returns the answer as text lines.
    status : int
        Exit status at the time limit.
    on_signals : bool
        Whether to print the lines after a signal too; a JSON document always is.
    """
    if as_json:
        stopped = {key: "interrupted" for key in ("termination",) if key in document}
        marked = {**document, **stopped, "interrupted": True}
        answer = SoFar(json_text(document), json_text(marked), status)
    else:
        text = "".join(f"{line}\n" for line in lines())
        answer = SoFar(text, text if on_signals else "", status)
    _state.kept = answer
    _tell(ANSWER, *answer)


def keep_shown(show: Callable[[], None], *, at_once: bool = False) -> None:
    """Keep the printed output of a function for a signal.

    At most every `_EVERY_S` seconds, unless ``at_once``: for few pieces of work, some long.
    """
    now = time.monotonic()
    if not at_once and now < _state.shown + _EVERY_S:
        return
    printed, _state.notes = io.StringIO(), []
    # An error is reported at the end of the command.
    try:
        with redirect_stdout(printed), suppress(InputError):
            show()
        notes = "".join(_state.notes)
    finally:
        _state.notes = None
    _state.shown = time.monotonic()
    _state.kept = SoFar("", printed.getvalue(), INTERRUPTED, notes)
    _tell(ANSWER, *_state.kept)


def note(line: str) -> None:
    """Print a line on stderr; inside `keep_shown`, keep the line with the answer instead."""
    if _state.notes is None:
        print(line, file=sys.stderr)
    else:
        _state.notes.append(f"{line}\n")


def print_interrupted() -> None:
    """Print the kept answer after a signal, unless printing of the final answer has begun."""
    if _state.kept is not None and not _state.has_begun:
        sys.stdout.write(_state.kept.interrupted)
        sys.stderr.write(_state.kept.notes)
    sys.stdout.flush()


def limit(seconds: float | None) -> None:
    """Tell the guard process to end this process after some seconds; None for never."""
    _tell(LIMIT, seconds)


def answer_begins() -> None:
    """Tell the guard process that printing of the final answer begins; drop the kept answer."""
    if not _state.has_begun:
        _state.has_begun = True
        _tell(BEGUN)


def serves() -> None:
    """Tell the guard process that a service runs, which needs time to complete its log."""
    _tell(SERVES)


def interruption_said() -> None:
    """Tell the guard process that the user has been informed of the interruption."""
    _tell(SAID)


def tell_to(guard: int) -> None:
    """Send all later messages to the guard process through a pipe (file descriptor)."""
    _state.guard = guard


def _tell(*message: object) -> None:
    if _state.guard is None:
        return
    data = json.dumps(message).encode()
    # A message cut short by a signal would corrupt all later ones.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        rest = memoryview(HEADER.pack(len(data)) + data)
        with suppress(OSError):  # the guard has ended, and this process will soon
            while rest:
                rest = rest[os.write(_state.guard, rest) :]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


#: Tolerances after which a command is ended beyond its limit: a share of the limit, and seconds.
#: The documented tolerance is 10 % and 0.2 s.
_SLACK, _SLACK_S = 0.05, 0.14


def begin(args: argparse.Namespace, method: str, view: "View") -> Deadline:
    """Start the clock of a command with ``--time-limit``, with `NOTHING_FOUND` as kept answer.

    Parameters
    ----------
    args : Namespace
        With ``time_limit`` and ``json``.
    method : str
        Name of the method.
    view : View
        Shows intermediate answers.
    """
    if args.time_limit is not None:
        nothing = {"method": method, "termination": "time_limit", "objective": None, "bound": None}
        line = f"{method}: no answer found within {args.time_limit:g} s; raise --time-limit"
        keep(args.json, nothing, lambda: [line], NOTHING_FOUND, on_signals=False)
    return Deadline(inf if args.time_limit is None else args.time_limit, view)


class View:
    """Keeps intermediate answers in the same form as the final one.

    Parameters
    ----------
    args : Namespace
        With ``time_limit`` and ``json``.
    told : callable
        Returns, for an answer, the JSON document, a function that returns text lines, and the exit
        status.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        told: Callable[[Any], tuple[Mapping[str, Any], Callable[[], Sequence[str]], int]],
    ) -> None:
        self._args, self._told = args, told

    def ends_in(self, seconds: float | None) -> None:
        """Tell the guard process to end the command slightly after its time limit."""
        if seconds is not None and self._args.time_limit is not None:
            limit(seconds + _SLACK * self._args.time_limit + _SLACK_S)
        else:
            limit(None)

    def found(self, answer: Any) -> None:
        """Keep an intermediate answer."""
        keep(self._args.json, *self._told(answer))


#: Time for the work to end by itself [s]; `bfio.cli.main` allows slightly more.
_ORDERLY_S = 0.9
#: Signals within this time [s] count as one: several processes may forward the same Ctrl-C.
ONE_SIGNAL_S = 0.2


@contextmanager
def orderly_interrupt() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether the user has asked to stop.

    Work that has not stopped a second later, or at a second Ctrl-C, gets a KeyboardInterrupt.
    Outside the main thread signals cannot be caught, and the function always returns False.
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
        elif time.monotonic() >= since + ONE_SIGNAL_S:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield asked.is_set
    finally:
        again.cancel()
        signal.signal(signal.SIGINT, before)
