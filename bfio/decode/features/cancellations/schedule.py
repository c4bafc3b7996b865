"""Clients that give up: a schedule, written by hand, read from a file or drawn."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.common.options import NUMBER, read_texts, split_options
from bfio.decode.features.schedules import ScheduleOption, in_order
from bfio.decode.options import RANDOM
from formulations.arrays import FloatArray, IntArray
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Columns of a file.
COLUMNS = ("time_s", "request")
#: Number of the random stream; policies, predictors and failures have others.
_STREAM = 4
_FORM = "write random:patience=30, or the name of a CSV file with time_s,request"


class Cancellations(NamedTuple):
    """When clients give up, in order of time.

    Parameters
    ----------
    time_s : FloatArray
        Shape (E,) [s]; one takes effect with the first step that starts then or later, and does
        nothing if the request is done by then.
    request : IntArray
        Shape (E,): index in the workload; no request twice.
    """

    time_s: FloatArray
    request: IntArray


def cancellations_of(
    given: str | Iterable[tuple[float, int]], arrival_s: FloatArray, seed: int
) -> Cancellations:
    """Return the schedule that an option of a run stands for, in arrays of its own.

    Parameters
    ----------
    given : str or iterable of (float, int)
        ``none``; ``random:patience=SECONDS``, exponential from each arrival on, with
        ``share=0.1`` of that share of the requests alone; the name of a CSV file, or its rows:
        time [s], request.
    arrival_s : FloatArray
        Shape (n,): when requests arrive [s].
    seed : int
        Seed of the run.

    Raises
    ------
    InputError
        If it cannot be read, is out of order, or lets a request give up twice, before it arrives,
        or that there is not.
    """
    rows = _OPTION.read(
        given,
        lambda text: _drawn(text, arrival_s, seed),
        lambda rows, where: _checked(rows, arrival_s, where),
    )
    return Cancellations(
        np.array([time for time, _ in rows], dtype=np.float64),
        np.array([request for _, request in rows], dtype=np.int64),
    )


def _row(line: Mapping[str, str]) -> tuple[float, int]:
    return float(line["time_s"]), int(line["request"])


_OPTION = ScheduleOption("cancellations", COLUMNS, _row, _FORM, example="12.5,7")


def _drawn(text: str, arrival_s: FloatArray, seed: int) -> list[tuple[float, int]]:
    """Draw patience, exponential from each arrival on."""
    _, texts = split_options(text, (RANDOM,))
    kinds = {"patience": NUMBER, "share": NUMBER}
    values = {"share": 1.0, **read_texts(kinds, texts, "cancellations")}
    if not 0 < values.get("patience", 0.0) < math.inf:
        raise InputError("cancellations", f"{text!r} has no patience > 0", _FORM)
    if not 0 < values["share"] <= 1:
        raise InputError("cancellations", f"{text!r} has no share in (0, 1]", _FORM)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM,)))
    is_impatient = rng.random(len(arrival_s)) < values["share"]
    time_s = arrival_s + rng.exponential(values["patience"], len(arrival_s))
    who = np.flatnonzero(is_impatient)
    order = who[np.lexsort((who, time_s[who]))]
    return list(zip(time_s[order].tolist(), order.tolist(), strict=True))


def _checked(
    rows: list[tuple[float, int]], arrival_s: FloatArray, where: str
) -> list[tuple[float, int]]:
    gone: set[int] = set()
    for place, (time, request) in in_order(rows, where, "request", len(arrival_s)):
        if request in gone:
            raise InputError(place, f"request {request} gives up twice", "write it once")
        if time < arrival_s[request]:
            what = f"request {request} gives up at {time} s, before it arrives"
            raise InputError(place, what, f"it arrives at {arrival_s[request]:g} s")
        gone.add(request)
    return rows
