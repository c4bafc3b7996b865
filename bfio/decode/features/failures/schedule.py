"""Workers that fail and come back: a schedule, written by hand, read from a file or drawn."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.decode.features.schedules import ScheduleOption, drawn_turns, in_order
from formulations.arrays import FloatArray, IntArray
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: What happens to a worker.
EVENTS = ("fail", "recover")
#: Columns of a file.
COLUMNS = ("time_s", "worker", "event")
#: Number of the random stream; policies and predictors have others.
_STREAM = 3
_FORM = "write random:mtbf=3600:mttr=60, or the name of a CSV file with time_s,worker,event"


class Failures(NamedTuple):
    """When workers fail and recover, in order of time.

    Parameters
    ----------
    time_s : FloatArray
        Shape (E,) [s]; an event takes effect with the first step that starts then or later.
    worker : IntArray
        Shape (E,).
    is_up : IntArray
        Shape (E,): 1 if it recovers, 0 if it fails.
    until_s : float
        Up to when the schedule says what happens [s].
    """

    time_s: FloatArray
    worker: IntArray
    is_up: IntArray
    until_s: float


def failures_of(
    given: str | Iterable[tuple[float, int, str]], num_workers: int, seed: int
) -> Failures:
    """Return the schedule that an option of a run stands for, in arrays of its own.

    Parameters
    ----------
    given : str or iterable of (float, int, str)
        ``none``, ``random:mtbf=SECONDS:mttr=SECONDS`` (``until=SECONDS`` beside, 1e6 by default),
        the name of a CSV file, or its rows: time [s], worker, ``fail`` or ``recover``.
    num_workers : int
        ``G``.
    seed : int
        Seed of the run.

    Raises
    ------
    InputError
        If it cannot be read, is out of order, names no worker, or lets one fail that is down.
    """
    return _OPTION.read(
        given,
        lambda text: _drawn(text, num_workers, seed),
        lambda rows, where: _checked(rows, num_workers, where),
    )


def _row(line: Mapping[str, str]) -> tuple[float, int, str]:
    return float(line["time_s"]), int(line["worker"]), line["event"].strip()


_OPTION = ScheduleOption("failures", COLUMNS, _row, _FORM, example="12.5,0,fail")


def _drawn(text: str, num_workers: int, seed: int) -> Failures:
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM,)))
    turns, values = drawn_turns(text, "failures", num_workers, rng, form=_FORM)
    return _made(turns, values["until"])


def _checked(rows: list[tuple[float, int, str]], num_workers: int, where: str) -> Failures:
    down: set[int] = set()
    for place, (_, worker, event) in in_order(rows, where, "worker", num_workers):
        if event not in EVENTS:
            raise InputError(place, f"{event!r} is no event", f"use one of {', '.join(EVENTS)}")
        if (worker in down) == (event == "fail"):
            state = "down" if worker in down else "up"
            what = f"worker {worker} is {state} and is to {event}"
            raise InputError(place, what, "let fail and recover take turns")
        (down.add if event == "fail" else down.remove)(worker)
    return _made([(time, worker, int(event == "recover")) for time, worker, event in rows])


def _made(events: list[tuple[float, int, int]], until_s: float = math.inf) -> Failures:
    times, workers, are_up = zip(*events, strict=True) if events else ((), (), ())
    return Failures(
        np.array(times, dtype=np.float64),
        np.array(workers, dtype=np.int64),
        np.array(are_up, dtype=np.int64),
        until_s,
    )
