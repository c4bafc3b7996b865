"""The loop of a run with a baseline policy, as one kernel call per chunk of steps."""

from bfio.common.kernels import entry_point, kernel
from bfio.decode.compiled.baselines import choose, decide
from bfio.decode.compiled.phases import (
    bind,
    reveal,
    run_step,
    start_queued,
    tally_queues,
    wait_for_arrival,
)
from bfio.decode.compiled.state import (
    ACTIVE,
    COMPLETED,
    IMMEDIATE,
    REVEALED,
    STEP,
    STEPS,
    Record,
    State,
)


@kernel
def reveal_and_start(state: State) -> None:
    """Do the phases before the step itself: reveal, decide, admit."""
    first = reveal(state)
    if not state.settings[IMMEDIATE]:
        decide(state)
        return
    if state.counters[REVEALED] > first:
        tally_queues(state)
        for request in range(first, state.counters[REVEALED]):
            bind(state, request, choose(state))
    start_queued(state)


@entry_point
def run_baseline(state: State, record: Record) -> int:
    """Run until the record is full, the step limit is reached or all requests are done.

    Returns the number of steps run.
    """
    row = 0
    while (
        row < record.times.shape[1]
        and state.counters[STEP] != state.settings[STEPS]
        and state.counters[COMPLETED] < len(state.pool)
    ):
        reveal_and_start(state)
        if state.counters[ACTIVE] == 0:
            wait_for_arrival(state)
            continue
        run_step(state, record, row)
        row += 1
    return row
