"""What a command answers if it is ended early: at its time limit, or by a signal."""

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

#: Kinds of messages to the process that guards this one (`bfio.cli.guard`).
ANSWER, LIMIT, BEGUN, SAID = "answer", "limit", "begun", "said"
#: Before each message stands its length.
HEADER = struct.Struct(">Q")
#: Seconds of work that a signal may cost a command of many parts.
_EVERY_S = 1.0


class SoFar(NamedTuple):
    """What to print at the time limit, after a signal, and on stderr then; status of the first."""

    at_limit: str
    interrupted: str
    status: int
    notes: str = ""


class _State:
    """What is kept, and where it is told."""

    kept: SoFar | None = None
    has_begun = False
    guard: int | None = None
    shown = 0.0
    #: Lines for stderr of what is being kept; None while nothing is.
    notes: list[str] | None = None


_state = _State()


def forget() -> None:
    """Begin a command: nothing is known."""
    _state.kept, _state.has_begun, _state.shown = None, False, time.monotonic()


def keep(
    as_json: bool,
    document: Mapping[str, Any],
    lines: Callable[[], Sequence[str]],
    status: int,
    *,
    on_signals: bool = True,
) -> None:
    """Keep an answer; later ones take its place.

    Parameters
    ----------
    as_json : bool
        Whether the command prints JSON.
    document : mapping
        The JSON document.
    lines : callable
        Returns what a person reads instead.
    status : int
        Exit status if time is up.
    on_signals : bool
        Whether it is worth printing after a signal too.
    """
    if as_json:
        stopped = {key: "interrupted" for key in ("termination",) if key in document}
        marked = {**document, **stopped, "interrupted": True}
        answer = SoFar(json_text(document), json_text(marked), status)
    else:
        text = "".join(f"{line}\n" for line in lines())
        answer = SoFar(text, text, status)
    if not on_signals:
        answer = answer._replace(interrupted="")
    _state.kept = answer
    _tell(ANSWER, *answer)


def keep_shown(show: Callable[[], None]) -> None:
    """Keep what a function prints, for a signal; at most every `_EVERY_S`, as it takes time."""
    now = time.monotonic()
    if now < _state.shown + _EVERY_S:
        return
    printed, _state.notes = io.StringIO(), []
    # What cannot be shown is told at the end of the command.
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
    """Print a line of an answer on stderr; while an answer is kept, the line is kept with it."""
    if _state.notes is None:
        print(line, file=sys.stderr)
    else:
        _state.notes.append(f"{line}\n")


def print_interrupted() -> None:
    """Print what there is after a signal: nothing if the answer has begun."""
    if _state.kept is not None and not _state.has_begun:
        sys.stdout.write(_state.kept.interrupted)
        sys.stderr.write(_state.kept.notes)
    sys.stdout.flush()


def limit(seconds: float | None) -> None:
    """Have this process ended so many seconds from now, None for never."""
    _tell(LIMIT, seconds)


def answer_begins() -> None:
    """Note that the answer is being printed: nothing else may be from now on."""
    if not _state.has_begun:
        _state.has_begun = True
        _tell(BEGUN)


def interruption_said() -> None:
    """Note that the user has read that the command was interrupted."""
    _tell(SAID)


def tell_to(guard: int) -> None:
    """Tell all of it to the process at the other end of a pipe."""
    _state.guard = guard


def _tell(*message: object) -> None:
    if _state.guard is None:
        return
    data = json.dumps(message).encode()
    # A message that a signal cuts short would make nonsense of all that follow.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        rest = memoryview(HEADER.pack(len(data)) + data)
        with suppress(OSError):  # the guard is gone, and this process soon
            while rest:
                rest = rest[os.write(_state.guard, rest) :]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


#: What may pass beyond a limit before the command is ended, of it and besides [s]; the promise is
#: 10 % and 0.2 s.
_SLACK, _SLACK_S = 0.05, 0.14


def begin(args: argparse.Namespace, method: str, view: "View") -> Deadline:
    """Start the clock of a command with ``--time-limit``, `NOTHING_FOUND` in hand.

    Parameters
    ----------
    args : Namespace
        With ``time_limit`` and ``json``.
    method : str
        What solves.
    view : View
        Shows answers.
    """
    if args.time_limit is not None:
        nothing = {"method": method, "termination": "time_limit", "objective": None, "bound": None}
        line = f"{method}: nothing found within {args.time_limit:g} s; raise --time-limit"
        keep(args.json, nothing, lambda: [line], NOTHING_FOUND, on_signals=False)
    return Deadline(inf if args.time_limit is None else args.time_limit, view)


class View:
    """Shows answers on the way as the command shows its last one.

    Parameters
    ----------
    args : Namespace
        With ``time_limit`` and ``json``.
    told : callable
        Returns of an answer the JSON document, a function that returns what a person reads
        instead, and the exit status.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        told: Callable[[Any], tuple[Mapping[str, Any], Callable[[], Sequence[str]], int]],
    ) -> None:
        self._args, self._told = args, told

    def ends_in(self, seconds: float | None) -> None:
        """Have the command ended a little after its limit, should it not end by itself."""
        if seconds is not None and self._args.time_limit is not None:
            limit(seconds + _SLACK * self._args.time_limit + _SLACK_S)
        else:
            limit(None)

    def found(self, answer: Any) -> None:
        """Keep an answer."""
        keep(self._args.json, *self._told(answer))


#: Seconds that the work has to end by itself; `bfio.cli.guard` allows a little more.
_ORDERLY_S = 0.9
#: Two signals so close together are one, which several processes have passed on.
ONE_SIGNAL_S = 0.2


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
        elif time.monotonic() >= since + ONE_SIGNAL_S:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield asked.is_set
    finally:
        again.cancel()
        signal.signal(signal.SIGINT, before)
