"""The loop of a run with a two-stage policy, `br-0` or `br-h`, one kernel call per chunk."""

from bfio.common.kernels import entry_point, kernel
from bfio.decode.compiled.phases import (
    admit,
    close_gaps,
    reveal,
    run_step,
    tally_free_slots,
    wait_for_arrival,
)
from bfio.decode.compiled.state import (
    ACTIVE,
    ADMITTED,
    COMPLETED,
    FREE,
    REVEALED,
    STEP,
    STEPS,
    WAITING,
    Record,
    State,
)
from bfio.decode.compiled.window import (
    CANDIDATES,
    PRODUCT,
    THRESHOLD,
    Window,
    enter_window,
    leave_window,
    note_start,
    project,
)
from bfio.step.two_stage.kernels.two_stage import DECIDED, order_by_size, two_stage_decide

#: What the kernel returns instead of a number of steps when the reference has to run.
NOT_EXACT = -1


@kernel
def decide(state: State, window: Window) -> bool:
    """Let the two-stage heuristic admit waiting requests; False if it would not be exact."""
    num_waiting = state.counters[WAITING]
    if num_waiting == 0 or tally_free_slots(state) == 0:
        return True
    project(state, window)
    contribution = window.contribution[:num_waiting]
    by_size, assignment = window.by_size[:num_waiting], window.assignment[:num_waiting]
    order_by_size(contribution, by_size)
    status = two_stage_decide(
        state.workers[FREE].copy(),
        window.base,
        contribution,
        by_size,
        window.reward,
        window.penalty,
        window.options[THRESHOLD],
        window.options[CANDIDATES],
        window.options[PRODUCT] != 0,
        assignment,
    )
    if status == DECIDED:
        admit_assigned(state, window)
    return bool(status == DECIDED)


@kernel
def admit_assigned(state: State, window: Window) -> None:
    """Let the requests start that have a worker."""
    first = state.counters[REVEALED] - state.counters[WAITING]
    for i in range(state.counters[WAITING]):
        if window.assignment[i] >= 0:
            request = state.pool[first + i]
            admit(state, first + i, window.assignment[i])
            note_start(state, window, request)
    if state.counters[ADMITTED] > 0:
        close_gaps(state)


@entry_point
def run_two_stage(state: State, window: Window, record: Record) -> int:
    """Run until the record is full, the step limit is reached or all requests are done.

    Returns the number of steps run, or `NOT_EXACT`.
    """
    row = 0
    while (
        row < record.times.shape[1]
        and state.counters[STEP] != state.settings[STEPS]
        and state.counters[COMPLETED] < len(state.pool)
    ):
        reveal(state)
        enter_window(state, window)
        if not decide(state, window):
            return NOT_EXACT
        if state.counters[ACTIVE] == 0:
            wait_for_arrival(state)
            continue
        leave_window(state, window)
        run_step(state, record, row)
        row += 1
    return row
