"""Predictions of running requests, kept between refreshes (BalanceRoute, appendix C.2.3).

A request is predicted when it starts, after every q tokens, and when it outlives its prediction
(the paper's floor); in between each token takes one step off, so that what is kept is the step it
is predicted to end with. Of one that is predicted to outlive the window nothing else is known: it
does so until it is predicted again. (In the paper its ``ŷ``, reset to H, is decremented like any
other: `Prediction.counts_down`.) A calendar holds who is to be predicted when: a step costs its
predictions, however many requests run. That is for compiled runs; interpreted ones keep the same
by whole arrays (`bfio.decode.prediction.refresh`).
"""

from bfio.common.compilable import compilable
from bfio.decode.machine.arrays import sort_few
from bfio.decode.machine.prediction import FAR, Calendar, Prediction
from bfio.decode.machine.ring import add_ending
from bfio.decode.machine.state import FINISHED, STEP, State
from bfio.decode.prediction.length_history import learn


@compilable(part_of="predictions", otherwise=False)
def predicts(state: State) -> bool:
    """Whether this run keeps predictions."""
    return bool(state.prediction.learns or state.prediction.draws)


@compilable(part_of="predictions", otherwise=0)
def predicted_steps(prediction: Prediction, request: int, age: int) -> int:
    """Return the predicted remaining steps of a request, counting the coming one."""
    if prediction.draws:
        return max(1, int(prediction.drawn[request]) - age)
    table = prediction.table
    return int(table[prediction.kinds[request], min(age, table.shape[1] - 1)])


@compilable(part_of="predictions")
def predict(state: State, request: int, age: int) -> None:
    """Predict a request that is neither in the ring of endings nor in the calendar."""
    prediction, step = state.prediction, int(state.counters[STEP])
    steps, horizon = predicted_steps(prediction, request, age), state.settings.horizon
    if prediction.learns and steps > horizon and not prediction.counts_down:
        steps = FAR
    last = step + steps - 1
    in_ring = steps <= horizon + 1
    if in_ring:
        add_ending(state, request, last, 1)
    prediction.last[request] = last
    prediction.noted[request] = in_ring
    # One that is further away comes into the window before it can end.
    due = last + 1 if in_ring else last - horizon
    if prediction.learns:
        prediction.turn[request] = step + prediction.refresh - age % prediction.refresh
        due = min(due, int(prediction.turn[request]))
    enlist(prediction, request, due, step)


@compilable(part_of="predictions")
def predict_due(state: State) -> None:
    """Predict those again whose turn it is."""
    prediction, step = state.prediction, int(state.counters[STEP])
    calendar = prediction.calendar
    slot = step & (len(calendar.first) - 1)
    request = int(calendar.first[slot])
    calendar.first[slot] = -1
    while request >= 0:
        following = int(calendar.following[request])
        due = int(min(prediction.turn[request], prediction.last[request] + 1))
        if prediction.learns and step < due:
            # The calendar ended before its turn came.
            enlist(prediction, request, due, step)
        else:
            leave_ring(state, request)
            age = int(state.requests.emitted[request]) + step - int(state.marks.start[request])
            predict(state, request, age)
        request = following


@compilable(part_of="predictions")
def forget(state: State, request: int) -> None:
    """Take a request that ends with this step out of the ring and the calendar."""
    leave_ring(state, request)
    strike(state.prediction.calendar, request, int(state.prediction.due[request]))


@compilable
def leave_ring(state: State, request: int) -> None:
    """Take a request out of the ring of endings, unless that step has passed."""
    last = int(state.prediction.last[request])
    if state.prediction.noted[request] == 1 and last >= state.counters[STEP]:
        add_ending(state, request, last, -1)


@compilable(part_of="predictions")
def learn_lengths(state: State) -> None:
    """Learn from the requests that have finished with this step, in their order."""
    prediction = state.prediction
    ended = state.lists.ended[: state.counters[FINISHED]]
    sort_few(ended)
    for request in ended:
        length, kind = int(state.requests.output[request]), int(prediction.kinds[request])
        learn(prediction.history, prediction.table, int(state.settings.horizon), length, kind)


@compilable
def enlist(prediction: Prediction, request: int, due: int, step: int) -> None:
    """Put a request on the list of those that are due at a step, or where the calendar ends."""
    calendar = prediction.calendar
    due = min(due, step + len(calendar.first) - 1)
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
    """Take a request off the list of those that are due at a step."""
    previous, following = calendar.previous[request], calendar.following[request]
    if previous >= 0:
        calendar.following[previous] = following
    else:
        calendar.first[due & (len(calendar.first) - 1)] = following
    if following >= 0:
        calendar.previous[following] = previous
