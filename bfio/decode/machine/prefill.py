"""What happens in the prefill tier between steps: `bfio.decode.prefill` states the rule."""

import numpy as np

from bfio.common.compilable import compilable
from bfio.decode.machine.counters import EXPIRED, NOW, STEP, WAITING
from bfio.decode.machine.state import Record, State
from bfio.decode.machine.tier import (
    ARRIVED,
    BUSY,
    COMING,
    COMPUTED,
    DUE,
    HANDED_ON,
    HELD,
    JOINED,
    JUMPED_AT,
    JUMPS,
    LEFT,
    MOVING,
    OUTSIDE,
    QUEUED_UP,
    READY,
    STOPPED,
    join_prefill,
    note_due,
    take_due,
)
from bfio.decode.machine.waiting import join_pool, leave_pool
from bfio.decode.tally import worker_tally

#: Jumps of the clock per request and event, after which a policy that starts nobody has stalled:
#: each may become ready, expire and become ready again.
_MOST_JUMPS = 4


@compilable(part_of="prefill", otherwise=True)
def catch_up(state: State, record: Record) -> bool:
    """Let the tier go on until the clock says now; False if the record has no room before that."""
    return bool(go_on(state, record, state.clock[NOW], False) >= 0)


@compilable(part_of="prefill")
def close_up(state: State, record: Record) -> None:
    """Let those follow at once who can, now that clients have given up who were before them."""
    while go_on(state, record, state.clock[NOW], True) < np.inf:
        # One after the other is ready; nobody's time is over who is ready only now.
        pass


@compilable(part_of="prefill", otherwise=np.inf)
def go_on(state: State, record: Record, until_s: float, to_ready: bool) -> float:
    """Let the tier go on up to a time, or to when somebody is ready, and say when that is [s].

    If nobody is asked about or ready it is `inf`; -1 if the record has no room.
    """
    while True:
        # While the clock jumps to who is ready everybody in the pool may expire.
        if not to_ready and len(record.expiries) - state.counters[EXPIRED] <= len(state.pool):
            return -1.0
        soonest = next_s(state)
        if soonest == np.inf or soonest > until_s:
            break
        if happen(state, record) and to_ready:
            return soonest
    if not to_ready:
        state.tier.now_s[0] = until_s
    return np.inf


@compilable(part_of="prefill", otherwise=False)
def may_jump(state: State, comes: bool) -> bool:
    """Whether the clock may jump once more: not if nothing starts however often it does.

    Workers that are down, or wait for the host, may be why nothing does: then it may as long as
    something else comes (``comes``), and is of no use once all of them are so for ever.
    """
    counts, step, num_open = state.tier.counts, state.counters[STEP], 0
    for g in range(len(state.workers.load)):
        num_open += worker_tally(state, g).free > 0
    if num_open == 0 or (comes and num_open < len(state.workers.load)):
        return comes
    if counts[JUMPED_AT] != step:
        counts[JUMPED_AT] = step
        counts[JUMPS] = 0
    counts[JUMPS] += 1
    events = len(state.outages.time_s) + len(state.cancellations.time_s)
    return bool(counts[JUMPS] <= _MOST_JUMPS * (len(state.pool) + events))


@compilable
def next_s(state: State) -> float:
    """Hand on and take up whom the tier can now, and return when something happens next [s]."""
    tier = state.tier
    counts, soonest = tier.counts, np.inf
    hand_on(state)
    take_up(state)
    if counts[DUE] > 0:
        soonest = tier.due_s[0]
    if counts[ARRIVED] < len(state.arrival_s):
        soonest = min(soonest, state.arrival_s[counts[ARRIVED]])
    return float(soonest)


@compilable
def hand_on(state: State) -> None:
    """Let those leave their prefill workers that these hold, while the pool has places."""
    tier, counts = state.tier, state.tier.counts
    while (
        counts[HANDED_ON] < counts[STOPPED]
        and state.counters[WAITING] + counts[COMING] < tier.places
    ):
        request = tier.held[counts[HANDED_ON] % len(tier.held)]
        counts[HANDED_ON] += 1
        if tier.where[request] == HELD:
            now = tier.now_s[0]
            tier.held_s[request] += now - tier.done_s[request]
            tier.where[request] = MOVING
            counts[BUSY] -= 1
            counts[COMING] += 1
            note_due(tier, request, now + tier.transfer_time_s * state.requests.prompt[request])


@compilable
def take_up(state: State) -> None:
    """Let free prefill workers begin with those that wait for them."""
    tier, counts = state.tier, state.tier.counts
    while counts[LEFT] < counts[JOINED] and counts[BUSY] < tier.workers:
        request = tier.queue[counts[LEFT] % len(tier.queue)]
        counts[LEFT] += 1
        if tier.where[request] == QUEUED_UP:
            tier.where[request] = COMPUTED
            counts[BUSY] += 1
            takes_s = tier.overhead_s + tier.token_time_s * state.requests.prompt[request]
            note_due(tier, request, tier.now_s[0] + takes_s)


@compilable
def happen(state: State, record: Record) -> bool:
    """Let happen what is next, arrivals after all else; whether a request became ready."""
    tier, counts = state.tier, state.tier.counts
    arrives = counts[ARRIVED] < len(state.arrival_s)
    if arrives and counts[DUE] > 0:
        arrives = state.arrival_s[counts[ARRIVED]] < tier.due_s[0]
    if arrives:
        request = int(counts[ARRIVED])
        tier.now_s[0] = state.arrival_s[request]
        counts[ARRIVED] += 1
        join_prefill(tier, request)
        return False
    tier.now_s[0] = tier.due_s[0]
    request = take_due(tier)
    where = tier.where[request]
    if where == COMPUTED:
        tier.where[request] = HELD
        tier.done_s[request] = tier.now_s[0]
        tier.held[counts[STOPPED] % len(tier.held)] = request
        counts[STOPPED] += 1
    elif where == MOVING:
        become_ready(state, request)
        return True
    elif where == READY:
        expire(state, record, request)
    return False


@compilable
def become_ready(state: State, request: int) -> None:
    """Let a request join the pool, which keeps its cache for a while."""
    tier, now = state.tier, state.tier.now_s[0]
    tier.counts[COMING] -= 1
    tier.where[request] = READY
    tier.ready_s[request] = now
    join_pool(state, request)
    state.marks.reveal[request] = state.counters[STEP]
    state.reveal_s[request] = max(now, state.clock[NOW])
    # Later by so little that the clock cannot tell is never.
    if now < now + tier.ttl_s < np.inf:
        note_due(tier, request, now + tier.ttl_s)


@compilable
def expire(state: State, record: Record, request: int) -> None:
    """Let a request that still waits in the pool lose its cache, and go through prefill again."""
    tier, marks = state.tier, state.marks
    if marks.worker[request] >= 0 or marks.first[request] >= 0 or is_cancelled(state, request):
        tier.where[request] = OUTSIDE
        return
    entry = record.expiries[state.counters[EXPIRED]]
    entry[0], entry[1], entry[2] = request, marks.reveal[request], state.counters[STEP]
    state.counters[EXPIRED] += 1
    leave_pool(state, request)
    marks.reveal[request] = -1
    state.reveal_s[request] = np.nan
    tier.ready_s[request] = np.nan
    join_prefill(tier, request)


@compilable
def is_cancelled(state: State, request: int) -> bool:
    """Whether the client of a request has given up."""
    return bool(len(state.marks.cancel) > 0 and state.marks.cancel[request] >= 0)
