"""Lengths of requests that have finished, and what they tell of one that runs.

`BalanceRoute, appendix C.2.1`: of the past outputs longer than the age a, a share p̂ ended within
the next H tokens, after μ̂ tokens on average. As these are counts and sums of integers, gate and
composite estimate are exact:

    p̂ >= 1/2        if and only if  2·c >= n,
    ŷ = p̂·μ̂ + (1 - p̂)·H  =  (s + (n - c)·H) / n,

with n outputs longer than a, c of them at most ``a + H``, and s >= c the sum of what those had
left; so ŷ is in [1, H] without being clipped.
Runs interpreted and compiled share these functions.
"""

from typing import NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from formulations.arrays import IntArray

#: Entries of `LengthHistory.counters`: where the next length is kept, how many are, how many have
#: come since tables were last made, and the longest that ever came.
(CURSOR, KEPT, FRESH, TOP) = range(4)

#: Longest output that is told from longer ones [tokens].
LONGEST = 2**16


class LengthHistory(NamedTuple):
    """The last W outputs, by class of request.

    Parameters
    ----------
    counts : IntArray
        Shape (classes + 1, L + 1): kept outputs of each length; the last row is of all classes.
        Lengths above L count as L.
    lengths, kinds : IntArray
        Shape (W,): the kept outputs and their classes, a ring.
    counters : IntArray
        See the names of its entries above.
    refit, least : int
        How many lengths come before tables are made again; with fewer lengths than ``least`` a
        class is predicted as all are.
    gate : IntArray
        Shape (2,): numerator and denominator of the least ``p̂`` that is taken.
    """

    counts: IntArray
    lengths: IntArray
    kinds: IntArray
    counters: IntArray
    refit: int
    least: int
    gate: IntArray


def new_history(
    classes: int,
    window: int,
    refit: int = 1,
    least: int = 1,
    gate: tuple[int, int] = (1, 2),
    longest: int = LONGEST,
) -> LengthHistory:
    """Return a history of no lengths; see there. ``longest`` is L."""
    return LengthHistory(
        counts=np.zeros((classes + 1, longest + 1), dtype=np.int64),
        lengths=np.zeros(window, dtype=np.int64),
        kinds=np.zeros(window, dtype=np.int64),
        counters=np.zeros(4, dtype=np.int64),
        refit=refit,
        least=least,
        gate=np.array(gate, dtype=np.int64),
    )


def new_table(history: LengthHistory, look_ahead: int) -> IntArray:
    """Return predicted remaining steps by class and age, shape (classes, L), in ``1..H+1``."""
    classes, lengths = history.counts.shape
    table = np.full((classes - 1, lengths - 1), look_ahead + 1, dtype=np.int64)
    fit(history, table, look_ahead)
    return table


@compilable
def keep(history: LengthHistory, length: int, kind: int) -> None:
    """Keep an output; the oldest makes room for it."""
    counters, counts = history.counters, history.counts
    size, place = len(history.lengths), counters[CURSOR]
    if counters[KEPT] == size:
        counts[history.kinds[place], history.lengths[place]] -= 1
        counts[-1, history.lengths[place]] -= 1
    else:
        counters[KEPT] += 1
    known = min(length, counts.shape[1] - 1)
    history.lengths[place] = known
    history.kinds[place] = kind
    counts[kind, known] += 1
    counts[-1, known] += 1
    counters[CURSOR] = place + 1 if place + 1 < size else 0
    counters[FRESH] += 1
    counters[TOP] = max(counters[TOP], known)


@compilable
def learn(
    history: LengthHistory, table: IntArray, look_ahead: int, length: int, kind: int
) -> None:
    """Keep an output, and make the tables again if it is time."""
    keep(history, length, kind)
    if history.counters[FRESH] >= history.refit:
        history.counters[FRESH] = 0
        fit(history, table, look_ahead)


@compilable
def fit(history: LengthHistory, table: IntArray, look_ahead: int) -> None:
    """Make the tables of all classes; beyond the longest output seen nothing is known."""
    top = history.counters[TOP]
    for kind in range(len(table)):
        counts = history.counts[kind, : top + 1]
        if counts.sum() < history.least:
            counts = history.counts[-1, : top + 1]
        steps_left(counts, look_ahead, history.gate, table[kind, :top])


def _steps_left(counts: IntArray, look_ahead: int, gate: IntArray, steps: IntArray) -> None:
    # From the oldest age down: n, c and s change by the lengths that come in and drop out.
    longer = ended = left = 0
    for age in range(len(steps) - 1, -1, -1):
        left += ended
        came = counts[age + 1]
        longer += came
        ended += came
        left += came
        if age + look_ahead + 1 < len(counts):
            dropped = counts[age + look_ahead + 1]
            ended -= dropped
            left -= dropped * (look_ahead + 1)
        if longer == 0 or ended * gate[1] < longer * gate[0]:
            steps[age] = look_ahead + 1
        else:
            steps[age] = (left + (longer - ended) * look_ahead + longer - 1) // longer


@compilable(compiled_as=_steps_left)
def steps_left(counts: IntArray, look_ahead: int, gate: IntArray, steps: IntArray) -> None:
    """Write predicted remaining steps at the ages 0..L-1, in ``1..H+1``.

    Parameters
    ----------
    counts : IntArray
        Shape (L + 1,): outputs of each length.
    look_ahead, gate
        ``H``; see `LengthHistory`.
    steps : IntArray
        Shape (L,), overwritten.
    """
    steps[:] = gated_steps(*stages(counts, look_ahead), look_ahead, gate)


def gated_steps(
    longer: IntArray, ended: IntArray, left: IntArray, look_ahead: int, gate: IntArray
) -> IntArray:
    """Return ŷ of n, c and s, shape (k,): rounded up, and ``H + 1`` where the gate is closed."""
    steps = (left + (longer - ended) * look_ahead + longer - 1) // np.maximum(longer, 1)
    closed = (longer == 0) | (ended * gate[1] < longer * gate[0])
    predicted: IntArray = np.where(closed, look_ahead + 1, steps)
    return predicted


def stages(counts: IntArray, look_ahead: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return n, c and s at the ages 0..L-1, each of shape (L,); see the module."""
    size = len(counts)
    ages = np.arange(size - 1)
    later = np.minimum(ages + look_ahead, size - 1)
    up_to = np.cumsum(counts)
    tokens = np.cumsum(counts * np.arange(size))
    ended = up_to[later] - up_to[:-1]
    left = tokens[later] - tokens[:-1] - ages * ended
    return up_to[-1] - up_to[:-1], ended, left


class Walk(NamedTuple):
    """Points of requests, those of one request together and by age.

    Parameters
    ----------
    requests : IntArray
        Shape (m,): index of the request.
    ages : IntArray
        Shape (m,): tokens it has emitted.
    remaining : IntArray
        Shape (m,), each >= 1: tokens it is still to emit.
    """

    requests: IntArray
    ages: IntArray
    remaining: IntArray


def walk(outputs: IntArray, every: int, max_age: int | None = None) -> Walk:
    """Return requests at ages 0, K, 2K, ... below their output length (BalanceRoute, C.2.2).

    A request has a point for each K tokens, as a cluster that asks every K tokens meets it: long
    ones weigh more.

    Parameters
    ----------
    outputs : IntArray
        Shape (n,), output lengths ``o_i >= 1`` [tokens].
    every : int
        ``K >= 1`` [tokens].
    max_age : int, optional
        No point beyond this age.
    """
    last = outputs - 1 if max_age is None else np.minimum(outputs - 1, max_age)
    counts = last // every + 1
    requests = np.repeat(np.arange(len(outputs)), counts)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    ages = (np.arange(len(requests)) - first) * every
    return Walk(requests, ages, outputs[requests] - ages)
