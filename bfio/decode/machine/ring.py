"""The ring of endings: which running requests end at which step of the window, by worker."""

from bfio.common.compilable import compilable
from bfio.decode.machine.state import STEP, State
from formulations.arrays import IntArray


@compilable
def gained(gains: IntArray, steps: int) -> int:
    """Return ``D(steps)``, the drift of the first ``steps`` steps [tokens]."""
    period = len(gains) - 1
    if period == 1:
        return int(steps * gains[1])
    return int((steps // period) * gains[period] + gains[steps % period])


@compilable
def column_of(state: State, step: int) -> int:
    """Return the column of a step in the ring, whose width is a power of two."""
    return int(step & (state.ending_load.shape[1] - 1))


@compilable(allocates=True)
def gained_each(gains: IntArray, steps: IntArray) -> IntArray:
    """Return ``D`` of each entry of ``steps``, shape (n,) [tokens]."""
    period = len(gains) - 1
    gained: IntArray = (steps // period) * gains[period] + gains[steps % period]
    return gained


@compilable
def add_ending(state: State, request: int, last: int, times: int) -> None:
    """Add a request to the column of its last step, or take it away.

    Parameters
    ----------
    state : State
        A state whose ring is kept.
    request, last : int
        The request and its last step, known or predicted, within the window.
    times : int
        1 or -1.
    """
    column = column_of(state, last)
    worker = state.marks.worker[request]
    drift = gained(state.gains, int(state.marks.start[request]))
    state.ending_load[worker, column] += times * (state.requests.size[request] - drift)
    state.ending_count[worker, column] += times


@compilable
def enter_window(state: State) -> None:
    """Note the running requests whose last step, which is known, has just come into the window."""
    last = int(state.counters[STEP] + state.settings.horizon)
    request = int(state.wheel[last & (len(state.wheel) - 1)])
    while request >= 0:
        if state.marks.last[request] == last:
            add_ending(state, request, last, 1)
        request = int(state.requests.next[request])


@compilable
def leave_window(state: State) -> None:
    """Clear the column of the step that is about to end."""
    column = column_of(state, int(state.counters[STEP]))
    state.ending_load[:, column] = 0
    state.ending_count[:, column] = 0
