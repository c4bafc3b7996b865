"""Requests whose client gives up, wherever they are: waiting, bound, running or on the host."""

from bfio.common.compilable import compilable
from bfio.decode.features.memory.phases import leave_host
from bfio.decode.features.prefill.phases import leave_tier
from bfio.decode.machine.counters import CANCELLATIONS, COMPLETED, NOW, STEP
from bfio.decode.machine.moves import CANCELLED, interrupt
from bfio.decode.machine.phases import reveal
from bfio.decode.machine.state import Record, State
from bfio.decode.machine.waiting import leave_pool, leave_queue


@compilable(part_of="cancellations")
def cancel_due(state: State, record: Record) -> None:
    """Let requests go whose clients have given up by now and that are not done."""
    counters, due = state.counters, state.cancellations
    if (
        counters[CANCELLATIONS] < len(due.time_s)
        and due.time_s[counters[CANCELLATIONS]] <= state.clock[NOW]
    ):
        # Some may have come and gone since the last step.
        reveal(state)
    while (
        counters[CANCELLATIONS] < len(due.time_s)
        and due.time_s[counters[CANCELLATIONS]] <= state.clock[NOW]
    ):
        request = int(due.request[counters[CANCELLATIONS]])
        counters[CANCELLATIONS] += 1
        last, step = int(state.marks.last[request]), int(counters[STEP])
        if 0 <= last < step:
            continue
        worker = int(state.marks.worker[request])
        if last >= step:
            interrupt(state, record, request, CANCELLED)
            # The record says where each request was last.
            state.marks.worker[request] = worker
        elif state.tier.is_on and state.marks.reveal[request] < 0:
            leave_tier(state.tier, request)
        elif worker < 0:
            leave_pool(state, request)
        elif not leave_host(state, request, worker):
            leave_queue(state, request, worker)
        state.marks.cancel[request] = step
        counters[COMPLETED] += 1
