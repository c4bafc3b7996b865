"""Predictions of a compiled run, as arrays; `bfio.decode.machine.endings` updates them."""

from typing import NamedTuple

import numpy as np

from bfio.prediction.length_history import LengthHistory, new_history
from formulations.arrays import IntArray


class Calendar(NamedTuple):
    """Steps at which requests are predicted again, as doubly linked lists of requests."""

    #: Shape (2^k,): first request due at the step modulo 2^k; -1 for none.
    first: IntArray
    #: Shape (n,): its neighbours in that list; -1 for none.
    following: IntArray
    previous: IntArray


class Prediction(NamedTuple):
    """Predictions of a run, and their sources."""

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
