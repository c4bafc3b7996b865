"""Lengths of finished requests, and predictions for running requests from them.

`BalanceRoute, appendix C.2.1`: of the past outputs longer than the age a, a share p̂ ended within
the next H tokens, after μ̂ tokens on average. Both are ratios of integers, so the gate and the
composite estimate are exact:

    p̂ >= 1/2        if and only if  2·c >= n,
    ŷ = p̂·μ̂ + (1 - p̂)·H  =  (s + (n - c)·H) / n,

with n outputs longer than a, c of them at most ``a + H``, and s >= c the sum of their remaining
tokens. Therefore ŷ is in [1, H] without clipping. Interpreted and compiled runs share these
functions.

`bfio.decode.machine.endings` updates the arrays of predictions of a compiled run.
"""

from typing import NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from formulations.arrays import IntArray

#: Entries of `LengthHistory.counters`: index for the next length, number of kept lengths, number
#: of lengths since the last fit of the tables, and largest length so far.
(CURSOR, KEPT, FRESH, TOP) = range(4)

#: Outputs longer than this are counted as this long [tokens].
LONGEST = 2**16


class LengthHistory(NamedTuple):
    """The last W outputs, by class of request.

    Parameters
    ----------
    counts : IntArray
        Shape (classes + 1, L + 1): kept outputs of each length; the last row counts all classes.
        Lengths above L count as L.
    lengths, kinds : IntArray
        Shape (W,): ring buffers of the kept outputs and their classes.
    counters : IntArray
        See the names of its entries above.
    refit, least : int
        Number of new lengths between two fits of the tables; and number of lengths below which a
        class is predicted from all classes.
    gate : IntArray
        Shape (2,): numerator and denominator of the least ``p̂`` that is accepted.
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
    """Return an empty history; ``longest`` is L, other arguments are as in `LengthHistory`."""
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
    """Add an output; if the history is full, it replaces the oldest one."""
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
    """Add an output; fit the tables again after every ``refit`` outputs."""
    keep(history, length, kind)
    if history.counters[FRESH] >= history.refit:
        history.counters[FRESH] = 0
        fit(history, table, look_ahead)


@compilable
def fit(history: LengthHistory, table: IntArray, look_ahead: int) -> None:
    """Fit the tables of all classes; entries for ages beyond the longest output stay ``H+1``."""
    top = history.counters[TOP]
    for kind in range(len(table)):
        counts = history.counts[kind, : top + 1]
        if counts.sum() < history.least:
            counts = history.counts[-1, : top + 1]
        steps_left(counts, look_ahead, history.gate, table[kind, :top])


def _steps_left(counts: IntArray, look_ahead: int, gate: IntArray, steps: IntArray) -> None:
    # From the largest age down, n, c and s change by the lengths that enter and leave the window.
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
    """Write the predicted remaining steps at ages 0..L-1, in ``1..H+1``.

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
    """Return ŷ from n, c and s, shape (k,), rounded up; ``H + 1`` if the gate is closed."""
    steps = (left + (longer - ended) * look_ahead + longer - 1) // np.maximum(longer, 1)
    closed = (longer == 0) | (ended * gate[1] < longer * gate[0])
    return np.where(closed, look_ahead + 1, steps)


def stages(counts: IntArray, look_ahead: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return three arrays of shape (L,) about the requests that exceed each age 0..L-1.

    The arrays are the number n of these requests, the number c of them that end within the
    look-ahead, and the sum s of the remaining steps of the latter.
    """
    size = len(counts)
    ages = np.arange(size - 1)
    later = np.minimum(ages + look_ahead, size - 1)
    up_to = np.cumsum(counts)
    tokens = np.cumsum(counts * np.arange(size))
    ended = up_to[later] - up_to[:-1]
    left = tokens[later] - tokens[:-1] - ages * ended
    return up_to[-1] - up_to[:-1], ended, left


class Walk(NamedTuple):
    """Sample points of requests, grouped by request and ordered by age.

    Parameters
    ----------
    requests : IntArray
        Shape (m,): index of the request.
    ages : IntArray
        Shape (m,): tokens emitted.
    remaining : IntArray
        Shape (m,), each >= 1: tokens still to be emitted.
    """

    requests: IntArray
    ages: IntArray
    remaining: IntArray


def walk(outputs: IntArray, every: int, max_age: int | None = None) -> Walk:
    """Return requests at ages 0, K, 2K, ... below their output length (BalanceRoute, C.2.2).

    A request has one point per K tokens, as in a cluster that predicts every K tokens. So long
    requests have more weight.

    Parameters
    ----------
    outputs : IntArray
        Shape (n,), output lengths ``o_i >= 1`` [tokens].
    every : int
        ``K >= 1`` [tokens].
    max_age : int, optional
        Largest age of a point.
    """
    last = outputs - 1 if max_age is None else np.minimum(outputs - 1, max_age)
    counts = last // every + 1
    requests = np.repeat(np.arange(len(outputs)), counts)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    ages = (np.arange(len(requests)) - first) * every
    return Walk(requests, ages, outputs[requests] - ages)


class Calendar(NamedTuple):
    """Doubly linked lists of the requests to be predicted again at each step."""

    #: Shape (2^k,): first request due at the step modulo 2^k; -1 for none.
    first: IntArray
    #: Shape (n,): next and previous request in the list of a request; -1 for none.
    following: IntArray
    previous: IntArray


class Prediction(NamedTuple):
    """The predictions of a compiled run, and the tables or draws that they come from."""

    #: Whether predictions come from tables, learnt from finished requests; and whether they come
    #: from lengths drawn in advance. Both are false without predictions.
    learns: bool
    draws: bool
    refresh: int  #: ``q``, for tables.
    #: Whether a prediction beyond the window also decreases by one step with each token.
    counts_down: bool
    #: Shape (n,): predicted last step of a running request, step of its entry in the calendar,
    #: and, for tables, step at which ``q`` more tokens have been emitted.
    last: IntArray
    due: IntArray
    turn: IntArray
    #: Shape (n,): 1 if the request is in the ring of endings, or was until that step passed.
    noted: IntArray
    calendar: Calendar
    history: LengthHistory
    table: IntArray  #: Shape (classes, L): predicted remaining steps by class and age.
    kinds: IntArray  #: Shape (n,): the class of each request.
    drawn: IntArray  #: Shape (n,): the length drawn for each request [tokens].


def no_prediction() -> Prediction:
    """Return the empty predictions of a run without predictor."""
    return _new(0, 0)


def predicted_by_tables(
    history: LengthHistory,
    table: IntArray,
    kinds: IntArray,
    refresh: int,
    counts_down: bool,
    look_ahead: int,
) -> Prediction:
    """Return predictions by class and age, learnt from requests as they finish.

    History and table (see `Prediction`) are updated during the run.
    """
    return _new(len(kinds), look_ahead)._replace(
        learns=True,
        refresh=refresh,
        counts_down=counts_down,
        history=history,
        table=table,
        kinds=kinds.copy(),
    )


def predicted_by_draw(drawn: IntArray, look_ahead: int) -> Prediction:
    """Return predictions from lengths drawn in advance, one per request [tokens]."""
    return _new(len(drawn), look_ahead)._replace(draws=True, drawn=drawn.copy())


def _new(num_requests: int, look_ahead: int) -> Prediction:
    size = 1 << (look_ahead + 2).bit_length()
    last, due, turn, following, previous = np.full((5, num_requests), -1, dtype=np.int64)
    return Prediction(
        learns=False,
        draws=False,
        refresh=1,
        counts_down=False,
        last=last,
        due=due,
        turn=turn,
        noted=np.zeros(num_requests, dtype=np.int64),
        calendar=Calendar(np.full(size, -1, dtype=np.int64), following, previous),
        history=new_history(0, 0, longest=0),
        table=np.zeros((0, 0), dtype=np.int64),
        kinds=np.zeros(0, dtype=np.int64),
        drawn=np.zeros(0, dtype=np.int64),
    )
