"""The time limit of a command: it begins before the file is read, and is kept whatever runs."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any

from bfio.cli import so_far
from bfio.cli.command import NOTHING_FOUND
from formulations.deadline import Deadline

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
        so_far.keep(args.json, nothing, lambda: [line], NOTHING_FOUND, on_signals=False)
    return Deadline(inf if args.time_limit is None else args.time_limit, view)


class View:
    """Shows answers on the way as the command shows its last one.

    Parameters
    ----------
    args : Namespace
        With ``time_limit`` and ``json``.
    document : callable
        Returns the JSON document of an answer.
    lines : callable
        Returns what a person reads instead.
    status : callable
        Returns the exit status.
    """

    def __init__(
        self,
        args: argparse.Namespace,
        document: Callable[[Any], Mapping[str, Any]],
        lines: Callable[[Any], Sequence[str]],
        status: Callable[[Any], int],
    ) -> None:
        self._args = args
        self._document, self._lines, self._status = document, lines, status

    def ends_in(self, seconds: float | None) -> None:
        """Have the command ended a little after its limit, should it not end by itself."""
        if seconds is not None and self._args.time_limit is not None:
            so_far.limit(seconds + _SLACK * self._args.time_limit + _SLACK_S)
        else:
            so_far.limit(None)

    def found(self, answer: Any) -> None:
        """Keep an answer."""
        so_far.keep(
            self._args.json,
            self._document(answer),
            lambda: self._lines(answer),
            self._status(answer),
        )
