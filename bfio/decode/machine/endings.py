"""Known or predicted end steps of running requests, in a ring buffer for the look-ahead window.

The ring buffer holds the requests that end at each step of the window, by worker. With predictions
(BalanceRoute, appendix C.2.3), a request is predicted when it starts, after every q tokens, and
when it outlives its prediction (the paper's floor). In between, each token reduces the remaining
steps by one, so the predicted last step stays fixed. A request predicted to outlive the window
keeps this prediction until the next one. (In the paper its ``ŷ``, reset to H, is decremented too:
`Prediction.counts_down`.) A calendar holds the step of the next prediction of each request. So the
cost of a step depends on the predictions due, not on the number of running requests. Compiled runs
use this module; interpreted runs do the same with whole arrays (`bfio.decode.engine`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bfio.common.array_kernels import sort_few
from bfio.common.compilable import compilable
from bfio.decode.machine.counters import FINISHED, STEP
from bfio.prediction.length_history import Calendar, Prediction, learn

if TYPE_CHECKING:
    from bfio.decode.machine.state import State
    from formulations.arrays import IntArray

#: Remaining steps of a request predicted to outlive the window.
FAR = 2**40


@compilable
def gained(gains: IntArray, steps: int) -> int:
    """Return ``D(steps)``, the load that a request gains in its first ``steps`` steps [tokens]."""
    period = len(gains) - 1
    if period == 1:
        return int(steps * gains[1])
    return int((steps // period) * gains[period] + gains[steps % period])


@compilable
def column_of(state: State, step: int) -> int:
    """Return the column of a step in the ring buffer, whose width is a power of two."""
    return int(step & (state.ending_load.shape[1] - 1))


def gained_each(gains: IntArray, steps: IntArray) -> IntArray:
    """Return the gain ``D`` for each entry of ``steps``, shape (n,) [tokens]."""
    period = len(gains) - 1
    gained: IntArray = (steps // period) * gains[period] + gains[steps % period]
    return gained


def _write_gains(target: IntArray, gains: IntArray, first: int) -> None:
    for k in range(len(target)):
        target[k] = gained(gains, first + k)


@compilable(compiled_as=_write_gains)
def write_gains(target: IntArray, gains: IntArray, first: int) -> None:
    """Write the gains ``D`` after ``first``, ``first + 1``, ... steps [tokens]."""
    target[:] = gained_each(gains, np.arange(first, first + len(target)))


@compilable
def add_ending(state: State, request: int, last: int, times: int) -> None:
    """Add a request to the ring column of its last step, or remove it.

    ``times`` is 1 to add and -1 to remove.
    """
    column = column_of(state, last)
    worker = state.marks.worker[request]
    drift = gained(state.gains, int(state.marks.start[request]))
    state.ending_load[worker, column] += times * (state.requests.size[request] - drift)
    state.ending_count[worker, column] += times


@compilable
def enter_window(state: State) -> None:
    """Add running requests to the ring whose known last step has just entered the window."""
    last = int(state.counters[STEP] + state.settings.look_ahead)
    request = int(state.wheel[last & (len(state.wheel) - 1)])
    while request >= 0:
        if state.marks.last[request] == last:
            add_ending(state, request, last, 1)
        request = int(state.requests.next[request])


@compilable
def leave_window(state: State) -> None:
    """Clear the ring column of the step that is about to end."""
    column = column_of(state, int(state.counters[STEP]))
    state.ending_load[:, column] = 0
    state.ending_count[:, column] = 0


@compilable
def predicts(state: State) -> bool:
    """Return whether this run uses predictions."""
    return bool(state.prediction.learns or state.prediction.draws)


@compilable
def predicted_steps(prediction: Prediction, request: int, age: int) -> int:
    """Return the predicted remaining steps of a request, including the next one."""
    if prediction.draws:
        return max(1, int(prediction.drawn[request]) - age)
    table = prediction.table
    return int(table[prediction.kinds[request], min(age, table.shape[1] - 1)])


@compilable
def predict(state: State, request: int, age: int) -> None:
    """Predict the end of a request that is in neither the ring nor the calendar."""
    prediction, step = state.prediction, int(state.counters[STEP])
    steps, look_ahead = predicted_steps(prediction, request, age), state.settings.look_ahead
    if prediction.learns and steps > look_ahead and not prediction.counts_down:
        steps = FAR
    last = step + steps - 1
    in_ring = steps <= look_ahead + 1
    if in_ring:
        add_ending(state, request, last, 1)
    prediction.last[request] = last
    prediction.noted[request] = in_ring
    # A request that ends further away enters the window before it can end.
    due = last + 1 if in_ring else last - look_ahead
    if prediction.learns:
        prediction.turn[request] = step + prediction.refresh - age % prediction.refresh
        due = min(due, int(prediction.turn[request]))
    enlist(prediction, request, due)


@compilable
def predict_due(state: State) -> None:
    """Predict again the ends of the requests that are due."""
    prediction, step = state.prediction, int(state.counters[STEP])
    calendar = prediction.calendar
    slot = step & (len(calendar.first) - 1)
    request = int(calendar.first[slot])
    calendar.first[slot] = -1
    while request >= 0:
        following = int(calendar.following[request])
        due = int(prediction.due[request])
        if step < due:
            # This request is due after more turns of the calendar: put it back.
            enlist(prediction, request, due)
        else:
            leave_ring(state, request)
            age = int(state.requests.emitted[request]) + step - int(state.marks.start[request])
            predict(state, request, age)
        request = following


@compilable
def forget(state: State, request: int) -> None:
    """Remove a request that ends with this step from the ring and the calendar."""
    leave_ring(state, request)
    strike(state.prediction.calendar, request, int(state.prediction.due[request]))


@compilable
def leave_ring(state: State, request: int) -> None:
    """Remove a request from the ring of endings, unless its step has passed."""
    last = int(state.prediction.last[request])
    if state.prediction.noted[request] == 1 and last >= state.counters[STEP]:
        add_ending(state, request, last, -1)


@compilable
def learn_lengths(state: State) -> None:
    """Let the predictor learn from requests that finished, in order of arrival."""
    prediction = state.prediction
    ended = state.lists.ended[: state.counters[FINISHED]]
    sort_few(ended)
    for request in ended:
        length, kind = int(state.requests.output[request]), int(prediction.kinds[request])
        learn(prediction.history, prediction.table, int(state.settings.look_ahead), length, kind)


@compilable
def enlist(prediction: Prediction, request: int, due: int) -> None:
    """Add a request to the calendar at step ``due``."""
    calendar = prediction.calendar
    prediction.due[request] = due
    slot = due & (len(calendar.first) - 1)
    first = int(calendar.first[slot])
    calendar.previous[request] = -1
    calendar.following[request] = first
    if first >= 0:
        calendar.previous[first] = request
    calendar.first[slot] = request


@compilable
def strike(calendar: Calendar, request: int, due: int) -> None:
    """Remove a request from the calendar of predictions."""
    previous, following = calendar.previous[request], calendar.following[request]
    if previous >= 0:
        calendar.following[previous] = following
    else:
        calendar.first[due & (len(calendar.first) - 1)] = following
    if following >= 0:
        calendar.previous[following] = previous
