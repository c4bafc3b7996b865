"""The request table of the hindsight problems: arrival, prompt and output of each request."""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Protocol

import numpy as np

from formulations.arrays import IntArray, integer_vector, read_columns
from formulations.errors import InputError

#: Largest arrival, prompt and output, so that sums of completion times fit in 64 bits.
MAX_VALUE = 10**9
#: Minimum of each column.
_LEAST = {"arrival": 0, "prompt": 1, "output": 1}


class RequestTable(Protocol):
    """Interface of problem data with one row per request: arrival, prompt and output."""

    @property
    def arrival(self) -> IntArray:
        """Arrival of each request, shape (n,), at least 0 [steps or rounds]."""

    @property
    def prompt(self) -> IntArray:
        """Shape (n,), at least 1 [tokens]."""

    @property
    def output(self) -> IntArray:
        """Shape (n,), at least 1 [tokens]."""


def checked_columns(table: RequestTable) -> dict[str, IntArray]:
    """Return arrival, prompt and output as read-only vectors of one length n.

    Raises
    ------
    InputError
        If a value is out of range (the error names column and index), or lengths differ.
    """
    columns = {
        name: integer_vector(getattr(table, name), name, minimum=least, maximum=MAX_VALUE)
        for name, least in _LEAST.items()
    }
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        what = f"columns have different lengths {sorted(lengths)}"
        raise InputError("requests", what, "give one entry per request")
    return columns


def shortest_remaining_first(released: list[int], works: list[int], speed: int) -> list[int]:
    """Return the steps, ascending, after which the jobs of one preemptive machine are done.

    Parameters
    ----------
    released, works : list of int
        First step of each job, and its work.
    speed : int
        Work per step, of one job after the other; the job with the least work left comes first.
    """
    coming = sorted(zip(released, works, strict=True), reverse=True)
    remaining: list[int] = []
    ends: list[int] = []
    # The clock counts work, ``speed`` per step.
    now = speed * min(released, default=0)
    while coming or remaining:
        if not remaining:
            now = max(now, speed * coming[-1][0])
        while coming and speed * coming[-1][0] <= now:
            heappush(remaining, coming.pop()[1])
        least = heappop(remaining)
        until = speed * coming[-1][0] if coming else now + least
        if now + least <= until:
            now += least
            ends.append(-(-now // speed))
        else:
            heappush(remaining, least - (until - now))
            now = until
    return ends


@dataclass(frozen=True)
class RequestKind:
    """Interchangeable requests of a program, and the window of their start times.

    Parameters
    ----------
    prompt, output : int
        Common prompt and output [tokens].
    members : tuple of int
        Indices of the requests, ascending.
    first_start, last_start : int
        Window of start times that contains those of some optimum.
    lanes : int
        Number of lanes (workers or groups of slots) on which members may start, ``0..lanes-1``.
    """

    prompt: int
    output: int
    members: tuple[int, ...]
    first_start: int
    last_start: int
    lanes: int = 1

    @property
    def starts(self) -> range:
        """The allowed start times, ``first_start .. last_start``."""
        return range(self.first_start, self.last_start + 1)


def alike(*columns: IntArray | Sequence[int], aggregate: bool = True) -> dict[Any, list[int]]:
    """Group the requests with equal values in all columns, in order of first occurrence.

    Without ``aggregate`` each request is its own group; its index is then the last entry of the
    key.
    """
    groups: dict[Any, list[int]] = {}
    rows = zip(*(np.asarray(column).tolist() for column in columns), strict=True)
    for i, row in enumerate(rows):
        groups.setdefault((*row, -1 if aggregate else i), []).append(i)
    return groups


def read_requests(document: object, *, arrival_optional: bool = False) -> dict[str, IntArray]:
    """Return the columns of a JSON list of requests, ``[{"arrival", "prompt", "output"}...]``.

    Parameters
    ----------
    document : object
        The list, as parsed from JSON.
    arrival_optional : bool
        Whether a request without an arrival arrives at 0.

    Raises
    ------
    InputError
        If a value is missing or out of range; the error names row and key.
    """
    missing = {"arrival": 0} if arrival_optional else {}
    columns = {name: (least, missing.get(name)) for name, least in _LEAST.items()}
    return read_columns(document, "requests", columns, MAX_VALUE)


def written_requests(table: RequestTable) -> list[dict[str, Any]]:
    """Return the JSON list of requests that `read_requests` reads."""
    columns = (getattr(table, name).tolist() for name in _LEAST)
    return [dict(zip(_LEAST, values, strict=True)) for values in zip(*columns, strict=True)]
