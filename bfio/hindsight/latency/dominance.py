"""Kernels that discard states: left shifts (rule 4 of the search) and dominance (rule 2)."""

import numpy as np

from bfio.exact.compiled import compiled
from formulations.arrays import BoolArray, IntArray


@compiled
def drop_improvable(
    alive: BoolArray,
    starts: IntArray,
    memory: int,
    prompt: IntArray,
    duration: IntArray,
    arrival: IntArray,
    now: int,
) -> None:
    """Unmark the states in which a request could have run earlier (rule 4)."""
    n = len(prompt)
    # Looking back further than three longest requests finds nothing more in practice.
    first = max(0, now - 3 * duration.max())
    used = np.zeros(now - first + 1, np.int64)
    for state in range(len(alive)):
        if not alive[state]:
            continue
        used[:] = 0
        for i in range(n):
            start = starts[state, i]
            if start >= 0:
                for t in range(max(start, first), min(now, start + duration[i] - 1) + 1):
                    used[t - first] += prompt[i] + t - start
        for i in range(n):
            start = starts[state, i]
            if start < 0:
                latest, earliest = now - duration[i] + 1, now - duration[i] + 1
            elif start + duration[i] - 1 == now:
                latest, earliest = start - 1, first
            else:
                continue
            earliest = max(earliest, max(first, arrival[i]))
            if start >= 0:
                for t in range(max(start, first), now + 1):
                    used[t - first] -= prompt[i] + t - start
            for k in range(latest, earliest - 1, -1):
                fits = True
                for age in range(duration[i] - 1, -1, -1):
                    if used[k + age - first] + prompt[i] + age > memory:
                        fits = False
                        break
                if fits:
                    alive[state] = False
                    break
            if not alive[state]:
                break
            if start >= 0:
                for t in range(max(start, first), now + 1):
                    used[t - first] += prompt[i] + t - start


@compiled
def undominated(
    order: IntArray,
    starts: IntArray,
    mark: IntArray,
    prompt: IntArray,
    duration: IntArray,
    now: int,
    compared: int,
) -> BoolArray:
    """Mark the positions whose state no other of the same started requests dominates.

    ``order`` sorts by started requests, then by sum of starts, so that only earlier ones of a
    group can dominate. Beyond ``compared`` kept ones, a group keeps everything.
    """
    n = len(prompt)
    keep = np.zeros(len(order), np.bool_)
    span = duration.max()
    profiles = np.zeros((compared, span), np.int32)
    areas = np.zeros(compared, np.int64)
    profile = np.zeros(span, np.int32)
    kept = 0
    for position in range(len(order)):
        state = order[position]
        previous = order[position - 1] if position else state
        if position == 0 or (
            mark[state, 0] != mark[previous, 0] or mark[state, 1] != mark[previous, 1]
        ):
            kept = 0
        profile[:] = 0
        for i in range(n):
            if starts[state, i] >= 0:
                for age in range(now + 1 - starts[state, i], duration[i]):
                    profile[starts[state, i] + age - now - 1] += prompt[i] + age
        area = profile.sum()
        dominated = False
        for other in range(kept - 1, -1, -1):
            if areas[other] > area:
                continue
            dominated = True
            for t in range(span):
                if profiles[other, t] > profile[t]:
                    dominated = False
                    break
            if dominated:
                break
        if dominated:
            continue
        keep[position] = True
        if kept < compared:
            profiles[kept] = profile
            areas[kept] = area
            kept += 1
    return keep
