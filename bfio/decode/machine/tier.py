"""The prefill tier of a run: who is where in it, and what happens there next.

All that takes its time stands in one heap, by the time of its end, ties by request: prefills,
transfers, and the stays of those that are ready. What an end means follows from where its request
is then, so that nothing is ever taken from the middle of the heap.
"""

import math
from typing import NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.decode.prefill import PrefillTier
from formulations.arrays import FloatArray, IntArray

# Entries of `Tier.counts`: requests that have arrived; prefill workers that compute or hold a
# request; requests on their way to the pool; entries of the heap; how many have joined and left
# the queue of prefill, and those that prefill workers hold; jumps of the clock since the last
# step, and that step.
(ARRIVED, BUSY, COMING, DUE, JOINED, LEFT, STOPPED, HANDED_ON, JUMPS, JUMPED_AT) = range(10)

# Values of `Tier.where`: not in the tier (or not yet), waiting for prefill, computed, held by its
# prefill worker as the pool is full, on its way, and in the pool with its cache.
(OUTSIDE, QUEUED_UP, COMPUTED, HELD, MOVING, READY) = range(6)


class Tier(NamedTuple):
    """The tier; arrays of requests have no entries where there is none.

    Parameters
    ----------
    is_on : bool
        Whether there is a tier.
    workers, places : int
        See `bfio.decode.prefill.PrefillTier`.
    overhead_s, token_time_s, transfer_time_s, ttl_s : float
        See there.
    counts : IntArray
        See the names of its entries above.
    now_s : FloatArray
        Shape (1,): up to when it has gone on [s].
    where : IntArray
        Shape (n,): see the names of its values above.
    queue, held : IntArray
        Shape (n,): rings of those that wait for prefill and for a place in the pool. Who has left
        otherwise is passed over.
    due_s, due : FloatArray and IntArray
        Shape (n,): heap of what ends when [s], and of whose that is.
    done_s, ready_s : FloatArray
        Shape (n,): when prefill ended and when each became ready, the last time [s].
    held_s : FloatArray
        Shape (n,): for how long prefill workers held each [s].
    """

    is_on: bool
    workers: int
    places: int
    overhead_s: float
    token_time_s: float
    transfer_time_s: float
    ttl_s: float
    counts: IntArray
    now_s: FloatArray
    where: IntArray
    queue: IntArray
    held: IntArray
    due_s: FloatArray
    due: IntArray
    done_s: FloatArray
    ready_s: FloatArray
    held_s: FloatArray


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
        if not is_earlier(time_s, request, tier.due_s[above], tier.due[above]):
            break
        tier.due_s[place] = tier.due_s[above]
        tier.due[place] = tier.due[above]
        place = above
    tier.due_s[place] = time_s
    tier.due[place] = request


@compilable
def take_due(tier: Tier) -> int:
    """Take what ends next from the heap, and return whose that is."""
    first = int(tier.due[0])
    tier.counts[DUE] -= 1
    num, place = int(tier.counts[DUE]), 0
    time_s, request = tier.due_s[num], tier.due[num]
    while 2 * place + 1 < num:
        below = 2 * place + 1
        if below + 1 < num and is_earlier(
            tier.due_s[below + 1], tier.due[below + 1], tier.due_s[below], tier.due[below]
        ):
            below += 1
        if not is_earlier(tier.due_s[below], tier.due[below], time_s, request):
            break
        tier.due_s[place] = tier.due_s[below]
        tier.due[place] = tier.due[below]
        place = below
    tier.due_s[place] = time_s
    tier.due[place] = request
    return first


@compilable
def is_earlier(time_s: float, request: int, other_s: float, other: int) -> bool:
    """Whether one end comes before another."""
    return time_s < other_s or (time_s == other_s and request < other)


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
