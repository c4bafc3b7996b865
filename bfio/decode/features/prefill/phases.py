"""The prefill tier of a run: who is where in it, and what happens there between steps.

All that takes its time stands in one heap, by the time of its end, ties by request: prefills,
transfers, and the stays of those that are ready. What an end means follows from where its request
is then, so that nothing is ever taken from the middle of the heap.
`bfio.decode.features.prefill` states the rule.
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
# request; requests on their way to the pool; entries of the heap; how many have joined and left
# the queue of prefill, and those that prefill workers hold; jumps of the clock since the last
# step, and that step.
(ARRIVED, BUSY, COMING, DUE, JOINED, LEFT, STOPPED, HANDED_ON, JUMPS, JUMPED_AT) = range(10)

# Values of `Tier.where`: not in the tier (or not yet), waiting for prefill, computed, held by its
# prefill worker as the pool is full, on its way, and in the pool with its cache.
(OUTSIDE, QUEUED_UP, COMPUTED, HELD, MOVING, READY) = range(6)


class Tier(NamedTuple):
    """The tier; arrays of requests have no entries where there is none."""

    is_on: bool  #: Whether there is a tier.
    #: See `bfio.decode.option_kinds.PrefillTier`.
    workers: int
    places: int
    overhead_s: float
    token_time_s: float
    transfer_time_s: float
    ttl_s: float
    counts: IntArray  #: See the names of its entries above.
    now_s: FloatArray  #: Shape (1,): up to when it has gone on [s].
    where: IntArray  #: Shape (n,): see the names of its values above.
    #: Shape (n,): rings of those that wait for prefill and for a place in the pool. Who has left
    #: otherwise is passed over.
    queue: IntArray
    held: IntArray
    #: Shape (n,): heap of what ends when [s], and of whose that is.
    due_s: FloatArray
    due: IntArray
    #: Shape (n,): when prefill ended and when each became ready, the last time [s].
    done_s: FloatArray
    ready_s: FloatArray
    held_s: FloatArray  #: Shape (n,): for how long prefill workers held each [s].


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
    """Put what ends at a time into the heap."""
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
    """Put a request behind all others that wait for prefill."""
    tier.queue[tier.counts[JOINED] % len(tier.queue)] = request
    tier.counts[JOINED] += 1
    tier.where[request] = QUEUED_UP


@compilable(part_of="prefill")
def leave_tier(tier: Tier, request: int) -> None:
    """Let a request go whose client has given up, wherever it is before the pool."""
    where = tier.where[request]
    tier.where[request] = OUTSIDE
    if where in (COMPUTED, HELD):
        tier.counts[BUSY] -= 1
    if where == HELD:
        tier.held_s[request] += tier.now_s[0] - tier.done_s[request]
    if where == MOVING:
        tier.counts[COMING] -= 1


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
