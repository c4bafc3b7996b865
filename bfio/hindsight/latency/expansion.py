"""Every child of every state: which of the waiting requests start at this round.

A kernel without objects; `bfio.hindsight.latency.search` says what the bounds are.
"""

import numpy as np
from numpy.typing import NDArray

from bfio.exact.compiled import compiled
from bfio.hindsight.latency.bound import SCALE
from formulations.arrays import IntArray


@compiled
def _least_from(least: IntArray, arrival: IntArray, i: int, t: int) -> int:
    rounds = least.shape[1] - 1
    value: int = least[i, min(t, rounds)]
    return value if t <= rounds else max(value, SCALE * max(t, arrival[i]))


@compiled
def expand(
    now: int,
    cutoff: int,
    starts: IntArray,
    bound: IntArray,
    total: IntArray,
    count: IntArray,
    cost: IntArray,
    least: IntArray,
    prices: IntArray,
    dearest: IntArray,
    loss: IntArray,
    pair: NDArray[np.int32],
    begin: IntArray,
    row: IntArray,
    size: IntArray,
    of_age: IntArray,
    memory: int,
    prompt: IntArray,
    duration: IntArray,
    arrival: IntArray,
    twin: IntArray,
    child_starts: IntArray,
    child_mark: IntArray,
    child_bound: IntArray,
    child_reach: IntArray,
    child_total: IntArray,
    child_count: IntArray,
) -> int:
    """Write every child of every state after round ``now``; return how many.

    -1 if there are too many, or too many choices lead to none.
    """
    n = len(prompt)
    priced = now < len(prices)
    span = of_age.shape[1]
    used = np.zeros(span + 1, np.int64)
    waiting = np.zeros(n, np.int64)
    choice = np.zeros(n + 1, np.int64)
    start = np.zeros(n, np.int64)
    # Per number of starts now: the greatest loss of this and each later round, the latter's sum.
    worst = np.zeros((n + 1, span + 1), np.int64)
    running = np.zeros(n + 1, np.int64)
    ahead = np.zeros(n + 1, np.int64)
    here, stay, price = _choices(now, cost, least, prices, of_age, arrival)
    written = 0
    # One state alone need not be expanded at any price: a narrower search would not be either.
    left = min(1_000_000 + 50 * len(child_bound), 10_000_000 * len(bound))
    for parent in range(len(bound)):
        start[:] = starts[parent]
        paid, num_waiting, num_running = _enter(
            now, start, used, waiting, running, prices, of_age, prompt, duration, arrival
        )
        worst[0, :] = 0
        for r in range(num_running):
            _raise_worst(
                now, running, r, worst[0], start, duration, of_age, loss, pair, begin, row, size
            )
        ahead[0] = worst[0, 1:].sum()
        value = bound[parent]
        level = 0
        sum_starts = total[parent]
        # Depth first over the waiting requests: 0 not tried, 1 starts now, 2 keeps waiting.
        depth = 0
        choice[0] = 0
        while depth >= 0:
            left -= 1
            if left < 0:
                return -1
            if depth == num_waiting:
                settled = value + (dearest[now] - paid if priced else 0)
                if settled + ahead[level] <= cutoff:
                    if written == len(child_bound):
                        return -1
                    _write_marks(start, child_mark[written])
                    child_starts[written] = start
                    child_bound[written] = settled
                    child_reach[written] = settled + ahead[level]
                    child_total[written] = sum_starts
                    child_count[written] = count[parent] + level
                    written += 1
                depth -= 1
                continue
            i = waiting[depth]
            if choice[depth] == 0:
                choice[depth] = 1
                fits = (
                    (twin[i] < 0 or start[twin[i]] >= 0)
                    and value + here[i] + ahead[level] + worst[level, 0] <= cutoff
                    and _fits(used, prompt[i], duration[i], memory)
                )
                if fits:
                    start[i] = now
                    running[num_running + level] = i
                    worst[level + 1] = worst[level]
                    _raise_worst(
                        now, running, num_running + level, worst[level + 1], start, duration,
                        of_age, loss, pair, begin, row, size,
                    )  # fmt: skip
                    level += 1
                    ahead[level] = worst[level, 1:].sum()
                    value += here[i]
                    sum_starts += now
                    paid += price[i]
                    for age in range(duration[i]):
                        used[age] += prompt[i] + age
                    depth += 1
                    choice[depth] = 0
                    continue
            if choice[depth] == 1:
                if start[i] == now:
                    start[i] = -1
                    level -= 1
                    value -= here[i]
                    sum_starts -= now
                    paid -= price[i]
                    for age in range(duration[i]):
                        used[age] -= prompt[i] + age
                if value + stay[i] + ahead[level] + worst[level, 0] <= cutoff:
                    choice[depth] = 2
                    value += stay[i]
                    depth += 1
                    choice[depth] = 0
                    continue
                depth -= 1
                continue
            value -= stay[i]
            depth -= 1
    return written


@compiled
def _choices(
    now: int,
    cost: IntArray,
    least: IntArray,
    prices: IntArray,
    of_age: IntArray,
    arrival: IntArray,
) -> tuple[IntArray, IntArray, IntArray]:
    """Return what each request loses if it starts now, if it stays, and its price now."""
    n = len(arrival)
    here, stay, price = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    for i in range(n):
        base = _least_from(least, arrival, i, now)
        stay[i] = _least_from(least, arrival, i, now + 1) - base
        if now < len(prices):
            here[i] = cost[i, now] - base
            price[i] = prices[now, of_age[i, 0]]
    return here, stay, price


@compiled
def _enter(
    now: int,
    start: IntArray,
    used: IntArray,
    waiting: IntArray,
    running: IntArray,
    prices: IntArray,
    of_age: IntArray,
    prompt: IntArray,
    duration: IntArray,
    arrival: IntArray,
) -> tuple[int, int, int]:
    """Lay out a state; return what is paid now, how many wait and how many run."""
    used[:] = 0
    paid, num_waiting, num_running = 0, 0, 0
    for i in range(len(start)):
        if start[i] < 0:
            # Requests that have not arrived wait at no loss: their least cost stays the same.
            if arrival[i] <= now:
                waiting[num_waiting] = i
                num_waiting += 1
        elif start[i] + duration[i] > now:
            running[num_running] = i
            num_running += 1
            for age in range(now - start[i], duration[i]):
                used[start[i] + age - now] += prompt[i] + age
            if now < len(prices):
                paid += prices[now, of_age[i, now - start[i]]]
    return paid, num_waiting, num_running


@compiled
def _raise_worst(
    now: int,
    running: IntArray,
    newest: int,
    worst: IntArray,
    start: IntArray,
    duration: IntArray,
    of_age: IntArray,
    loss: IntArray,
    pair: NDArray[np.int32],
    begin: IntArray,
    row: IntArray,
    size: IntArray,
) -> None:
    """Raise the losses from ``now`` on to those of one more request, alone and in pairs."""
    i = running[newest]
    for t in range(now, min(start[i] + duration[i], len(loss))):
        cell = of_age[i, t - start[i]]
        most = max(worst[t - now], loss[t, cell])
        if len(pair):
            table = begin[t] + row[t, cell] * size[t]
            for r in range(newest):
                j = running[r]
                if start[j] + duration[j] > t:
                    other = row[t, of_age[j, t - start[j]]]
                    if other != row[t, cell]:
                        most = max(most, pair[table + other])
        worst[t - now] = most


@compiled
def _fits(used: IntArray, prompt: int, duration: int, memory: int) -> bool:
    # The peak is the likeliest to overflow.
    for age in range(duration - 1, -1, -1):  # noqa: SIM110 (Numba compiles no generators)
        if used[age] + prompt + age > memory:
            return False
    return True


@compiled
def _write_marks(start: IntArray, mark: IntArray) -> None:
    """Mark the started requests, 60 to a word."""
    mark[:] = 0
    for i in range(len(start)):
        if start[i] >= 0:
            mark[i // 60] |= 1 << (i % 60)
