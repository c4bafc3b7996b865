"""What compiled runs keep of predicted lengths; `bfio.decode.machine.endings` says how."""

from typing import NamedTuple

import numpy as np

from bfio.decode.prediction.length_history import LengthHistory, new_history
from formulations.arrays import IntArray

#: Steps from now to the end of a request of which nothing is predicted but that it is far.
FAR = 2**40


class Calendar(NamedTuple):
    """Who is to be predicted again at which step: lists linked both ways.

    Parameters
    ----------
    first : IntArray
        Shape (2^k,): first request of those that are due at the step modulo 2^k; -1 for none.
    following, previous : IntArray
        Shape (n,): its neighbours in that list; -1 for none.
    """

    first: IntArray
    following: IntArray
    previous: IntArray


class Prediction(NamedTuple):
    """What is predicted, and from what.

    Parameters
    ----------
    learns, draws : bool
        Whether tables are read and requests that finish are learnt from, or lengths were drawn
        for each request beforehand; neither if nothing is predicted.
    refresh : int
        ``q``, where tables are read.
    counts_down : bool
        Whether what was predicted to outlive the window comes a step closer with each token, too.
    last, due, turn : IntArray
        Shape (n,): the last step that a running request is predicted to have, the step at which
        the calendar has it, and the one at which ``q`` more tokens are out, where that counts.
    noted : IntArray
        Shape (n,): 1 if it stands in the ring of endings, or stood there until the step passed.
    calendar : Calendar
        See there.
    history : LengthHistory
        See there.
    table : IntArray
        Shape (classes, L): predicted remaining steps by class and age.
    kinds : IntArray
        Shape (n,): the class of each request.
    drawn : IntArray
        Shape (n,): the length drawn for each request [tokens].
    """

    learns: bool
    draws: bool
    refresh: int
    counts_down: bool
    last: IntArray
    due: IntArray
    turn: IntArray
    noted: IntArray
    calendar: Calendar
    history: LengthHistory
    table: IntArray
    kinds: IntArray
    drawn: IntArray


def no_prediction() -> Prediction:
    """Return what a run keeps of predictions that makes none."""
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

    Parameters
    ----------
    history, table, kinds, refresh, counts_down
        See `Prediction`; history and table change with the run.
    look_ahead : int
        ``H``.
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
    """Return predictions by lengths drawn beforehand, one for each request [tokens]."""
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
