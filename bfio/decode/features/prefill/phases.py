"""The prefill tier of a run: the place of each request in it, and its events between steps.

All events are in one heap, by time, ties by request: ends of prefills, ends of transfers, and
expiries of ready requests. The meaning of an event follows from the place of its request at that
time, so that no event is ever removed from the middle of the heap. `bfio.decode.features.prefill`
describes the rules.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.decode.machine.arrays import comes_first, pop_least
from bfio.decode.machine.counters import EXPIRED, NOW, STEP, WAITING
from bfio.decode.machine.moves import join_pool, leave_pool
from bfio.decode.option_kinds import PrefillTier
from bfio.decode.tally import worker_tally
from formulations.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from bfio.decode.machine.state import Record, State

# Entries of `Tier.counts`: requests that have arrived; prefill workers that compute or hold a
# request; requests in transfer to the pool; entries of the heap; number of requests that have
# joined and left the prefill queue, and the same for the queue of held requests; jumps of the
# clock since the last step, and the number of that step.
(ARRIVED, BUSY, COMING, DUE, JOINED, LEFT, STOPPED, HANDED_ON, JUMPS, JUMPED_AT) = range(10)

# Values of `Tier.where`: outside the tier, waiting for prefill, in prefill, held by its prefill
# worker because the pool is full, in transfer, and in the pool with its cache.
(OUTSIDE, QUEUED_UP, COMPUTED, HELD, MOVING, READY) = range(6)


class Tier(NamedTuple):
    """The state of the tier; without a tier, arrays of requests are empty."""

    is_on: bool  #: Whether there is a tier.
    #: See `bfio.decode.option_kinds.PrefillTier`.
    workers: int
    places: int
    overhead_s: float
    token_time_s: float
    transfer_time_s: float
    ttl_s: float
    counts: IntArray  #: See the names of its entries above.
    now_s: FloatArray  #: Shape (1,): time up to which events have been processed [s].
    where: IntArray  #: Shape (n,): see the names of its values above.
    #: Shape (n,): ring buffers of requests that wait for prefill, and of those held. Entries of
    #: requests that have left otherwise are skipped.
    queue: IntArray
    held: IntArray
    #: Shape (n,): heap of events: time [s], and request.
    due_s: FloatArray
    due: IntArray
    #: Shape (n,): end of the last prefill, and last time at which each became ready [s].
    done_s: FloatArray
    ready_s: FloatArray
    held_s: FloatArray  #: Shape (n,): time for which prefill workers held each [s].


def new_tier(given: PrefillTier | None, num_requests: int) -> Tier:
    """Return the empty tier of a run."""
    n = num_requests if given is not None else 0
    kept = given or PrefillTier(1, 0.0)
    where, queue, held, due = np.zeros((4, n), dtype=np.int64)
    return Tier(
        is_on=given is not None,
        workers=kept.workers,
        places=np.iinfo(np.int64).max if kept.places is None else kept.places,
        overhead_s=kept.overhead_s,
        token_time_s=kept.token_time_s,
        transfer_time_s=kept.transfer_time_s,
        ttl_s=kept.ttl_s,
        counts=np.zeros(JUMPED_AT + 1, dtype=np.int64),
        now_s=np.zeros(1),
        where=where,
        queue=queue,
        held=held,
        due_s=np.zeros(n),
        due=due,
        done_s=np.zeros(n),
        ready_s=np.full(n, math.nan),
        held_s=np.zeros(n),
    )


@compilable
def note_due(tier: Tier, request: int, time_s: float) -> None:
    """Add an event to the heap."""
    place = int(tier.counts[DUE])
    tier.counts[DUE] += 1
    while place > 0:
        above = (place - 1) // 2
        if not comes_first(time_s, request, tier.due_s[above], tier.due[above]):
            break
        tier.due_s[place] = tier.due_s[above]
        tier.due[place] = tier.due[above]
        place = above
    tier.due_s[place] = time_s
    tier.due[place] = request


@compilable
def join_prefill(tier: Tier, request: int) -> None:
    """Append a request to the prefill queue."""
    tier.queue[tier.counts[JOINED] % len(tier.queue)] = request
    tier.counts[JOINED] += 1
    tier.where[request] = QUEUED_UP


@compilable(part_of="prefill")
def leave_tier(tier: Tier, request: int) -> None:
    """Remove a cancelled request from the tier, wherever it is before the pool."""
    where = tier.where[request]
    tier.where[request] = OUTSIDE
    if where in (COMPUTED, HELD):
        tier.counts[BUSY] -= 1
    if where == HELD:
        tier.held_s[request] += tier.now_s[0] - tier.done_s[request]
    if where == MOVING:
        tier.counts[COMING] -= 1


#: Most clock jumps per request and event before a policy that starts no request has stalled: each
#: request may become ready, expire and become ready again.
_MOST_JUMPS = 4


@compilable(part_of="prefill", otherwise=True)
def catch_up(state: State, record: Record) -> bool:
    """Process tier events up to the current time; False if the record is full before that."""
    return bool(go_on(state, record, state.clock[NOW], False) >= 0)


@compilable(part_of="prefill")
def close_up(state: State, record: Record) -> None:
    """After cancellations, let requests that can advance to the pool at the current time do so."""
    while go_on(state, record, state.clock[NOW], True) < np.inf:
        # Each turn makes one request ready; no request that has just become ready expires.
        pass


@compilable(part_of="prefill", otherwise=np.inf)
def go_on(state: State, record: Record, until_s: float, to_ready: bool) -> float:
    """Process tier events up to a time, or until a request is ready; return its time [s].

    Returns `inf` if no request becomes ready or if that is not asked for, and -1 if the record is
    full.
    """
    while True:
        # All requests in the pool may expire while the clock jumps to the next ready one.
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
    """Whether the clock may jump again; not if no request starts however often it jumps.

    If some workers are down or wait for the host, they may be the reason. The clock may then jump
    as long as other events (``comes``) are pending. If all workers are down for good, jumps are of
    no use.
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
    """Advance requests to transfer and prefill where possible; return the next event time [s]."""
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
    """Start the transfer of held requests while the pool has places."""
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
    """Start prefills of waiting requests on free prefill workers."""
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
    """Process the next event, arrivals last among ties; return whether a request became ready."""
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
    request = pop_least(tier.due_s, tier.due, counts[DUE])
    counts[DUE] -= 1
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
    """Put a request into the pool, and schedule the expiry of its cache."""
    tier, now = state.tier, state.tier.now_s[0]
    tier.counts[COMING] -= 1
    tier.where[request] = READY
    tier.ready_s[request] = now
    join_pool(state, request)
    state.marks.reveal[request] = state.counters[STEP]
    state.reveal_s[request] = max(now, state.clock[NOW])
    # A time to live below the resolution of the clock, or infinite, never expires.
    if now < now + tier.ttl_s < np.inf:
        note_due(tier, request, now + tier.ttl_s)


@compilable
def expire(state: State, record: Record, request: int) -> None:
    """Drop the cache of a request that still waits in the pool, and return it to prefill."""
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
    """Whether the client of a request has cancelled it."""
    return bool(len(state.marks.cancel) > 0 and state.marks.cancel[request] >= 0)
