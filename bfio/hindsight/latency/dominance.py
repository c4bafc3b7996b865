"""Kernels that discard states: left shifts (rule 4 of the search) and dominance (rule 2)."""

import numpy as np
from numpy.typing import NDArray

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.hindsight.latency.states import States
from bfio.hindsight.latency.tables import Tables
from formulations.arrays import BoolArray, IntArray

#: Rounds looked back at, in longest requests; more finds nothing more in practice.
_LOOK_BACK = 3


@entry_point
def drop_improvable(alive: BoolArray, starts: NDArray[np.int32], tables: Tables, now: int) -> None:
    """Unmark the states in which a request could have run earlier (rule 4)."""
    first = max(0, now - _LOOK_BACK * tables.duration.max())
    used = np.zeros(now - first + 1, np.int64)
    for state in range(len(alive)):
        if alive[state]:
            alive[state] = not _is_improvable(starts[state], tables, first, now, used)


@compilable(into_caller=True)
def _is_improvable(
    starts: NDArray[np.int32], tables: Tables, first: int, now: int, used: IntArray
) -> bool:
    for t in range(len(used)):
        used[t] = 0
    for i in range(len(starts)):
        _occupy(i, starts[i], 1, tables, first, now, used)
    for i in range(len(starts)):
        start, ends = starts[i], now - tables.duration[i] + 1
        if start < 0:
            # Waiting: it need only end at this round; earlier ends were looked at then.
            earliest, latest = ends, ends
        elif start == ends:
            earliest, latest = first, start - 1
        else:
            continue
        earliest = max(earliest, first, tables.arrival[i])
        _occupy(i, start, -1, tables, first, now, used)
        if _fits_earlier(i, earliest, latest, tables, first, used):
            return True
        _occupy(i, start, 1, tables, first, now, used)
    return False


@compilable(into_caller=True)
def _occupy(
    i: int, start: int, sign: int, tables: Tables, first: int, now: int, used: IntArray
) -> None:
    """Add the tokens of a request to rounds ``first`` to ``now``, or take them away."""
    if start >= 0:
        for t in range(max(start, first), min(now, start + tables.duration[i] - 1) + 1):
            used[t - first] += sign * (tables.prompt[i] + t - start)


@compilable(into_caller=True)
def _fits_earlier(
    i: int, earliest: int, latest: int, tables: Tables, first: int, used: IntArray
) -> bool:
    for k in range(latest, earliest - 1, -1):
        age = tables.duration[i] - 1
        # The peak is the likeliest to overflow.
        while age >= 0 and used[k + age - first] + tables.prompt[i] + age <= tables.memory:
            age -= 1
        if age < 0:
            return True
    return False


@entry_point
def undominated(
    order: IntArray, states: States, tables: Tables, now: int, compared: int
) -> BoolArray:
    """Mark the positions whose state no other of the same started requests dominates.

    ``order`` sorts by started requests, then by sum of starts, so that only earlier ones of a
    group can dominate. Beyond ``compared`` kept ones, a group keeps everything.
    """
    keep = np.zeros(len(order), np.bool_)
    span = tables.duration.max()
    profiles = np.zeros((compared, span), np.int32)
    areas = np.zeros(compared, np.int64)
    profile = np.zeros(span, np.int32)
    kept = 0
    for position in range(len(order)):
        state = order[position]
        if position == 0 or not _is_same_group(states.mark, state, order[position - 1]):
            kept = 0
        area = _fill_profile(profile, states.starts, state, tables, now)
        if _is_dominated(profile, area, profiles, areas, kept):
            continue
        keep[position] = True
        if kept < compared:
            copy_to(profiles[kept], profile)
            areas[kept] = area
            kept += 1
    return keep


@compilable(into_caller=True)
def _is_same_group(mark: IntArray, one: int, other: int) -> bool:
    for word in range(mark.shape[1]):  # noqa: SIM110 (Numba compiles no generators)
        if mark[one, word] != mark[other, word]:
            return False
    return True


@compilable(into_caller=True)
def _fill_profile(
    profile: NDArray[np.int32], starts: NDArray[np.int32], state: int, tables: Tables, now: int
) -> int:
    """Fill the memory that a state uses at each later round; return the sum."""
    for t in range(len(profile)):
        profile[t] = 0
    area = 0
    for i in range(starts.shape[1]):
        start = starts[state, i]
        if start >= 0:
            for age in range(now + 1 - start, tables.duration[i]):
                profile[start + age - now - 1] += tables.prompt[i] + age
                area += tables.prompt[i] + age
    return area


@compilable(into_caller=True)
def _is_dominated(
    profile: NDArray[np.int32],
    area: int,
    profiles: NDArray[np.int32],
    areas: IntArray,
    kept: int,
) -> bool:
    """Whether one of the kept profiles, newest first, is nowhere above."""
    for other in range(kept - 1, -1, -1):
        if areas[other] <= area:
            t = 0
            while t < len(profile) and profiles[other, t] <= profile[t]:
                t += 1
            if t == len(profile):
                return True
    return False
