"""What happens before anything else of a step: to workers, to clients, to full memories."""

from bfio.common.compilable import compilable
from bfio.decode.features.prefill.phases import close_up
from bfio.decode.machine.cancellation import cancel_due
from bfio.decode.machine.counters import (
    CANCELLATIONS,
    NOW,
    OUTAGES,
    RECOMPUTE,
    SLOTS,
    SWAP,
)
from bfio.decode.machine.interruption import fail, relieve
from bfio.decode.machine.state import Record, State


@compilable(part_of="interruptions")
def begin_step(state: State, record: Record) -> None:
    """Let workers fail and recover, clients give up, and overflows be resolved, in this order."""
    counters, outages = state.counters, state.outages
    while (
        counters[OUTAGES] < len(outages.time_s)
        and outages.time_s[counters[OUTAGES]] <= state.clock[NOW]
    ):
        worker = int(outages.worker[counters[OUTAGES]])
        if outages.is_up[counters[OUTAGES]] == 1:
            state.machine.slots[worker] = outages.slots[worker]
            counters[SLOTS] += outages.slots[worker]
        else:
            state.machine.slots[worker] = 0
            counters[SLOTS] -= outages.slots[worker]
            fail(state, record, worker)
        counters[OUTAGES] += 1
    cancelled = counters[CANCELLATIONS]
    cancel_due(state, record)
    if state.settings.overflow in (RECOMPUTE, SWAP):
        relieve(state, record)
    if state.tier.is_on and counters[CANCELLATIONS] > cancelled:
        close_up(state, record)
