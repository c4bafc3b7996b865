"""Swap requests of a placement under a given peak at random.

If few workers have tight margins, nearly all of the largest requests can be admitted. The
difficulty is to fill the tight workers exactly. Single swaps, some thousand per millisecond,
achieve this sooner than refilling whole workers.
"""

import numpy as np

from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.common.words import RandomState, next_random
from formulations.arrays import IntArray

#: Tokens of admission that a token above a margin outweighs while requests are swapped.
_OVERFLOW_PENALTY = 16
#: Half of the partners are at most this far away in the order of sizes.
_NEAR = 8
#: Turns between two steps of cooling.
_STEP = 1024
#: Bits of a random number that make one choice; times the most tokens they fit 64 bits.
_BITS = 20
_MASK = np.uint64((1 << _BITS) - 1)
#: Operations of one swap looked at.
_LOOK = 50


@compilable
def _slots_of(owner: IntArray, held: IntArray, worker: IntArray, slot_of: IntArray) -> int:
    """Write request and worker of each slot, and slot of each request; return the count."""
    slots = 0
    for i in range(len(owner)):
        slot_of[i] = -1
        if owner[i] >= 0:
            held[slots] = i
            worker[slots] = owner[i]
            slot_of[i] = slots
            slots += 1
    return slots


@entry_point
def _part(random: np.uint64, shift: int, count: int) -> int:
    """Extract one number in 0..count-1 from some bits of a random number."""
    return int((np.int64((random >> np.uint64(shift)) & _MASK) * count) >> _BITS)


@compilable
def _partner(i: int, count: int, random: np.uint64) -> int:
    """Return a random request, or one of nearly the same size as request i."""
    if random >> np.uint64(63):
        return _part(random, _BITS, count)
    near = i + _part(random, _BITS, 2 * _NEAR + 1) - _NEAR
    return min(max(near, 0), count - 1)


@compilable
def _overflow_change(room: int, more: int) -> int:
    """Return the rise of the excess over the margin if a load grows by ``more`` tokens."""
    return max(0, more - room) - max(0, -room)


@compilable
def _exchange(
    k: int,
    j: int,
    more: int,
    held: IntArray,
    worker: IntArray,
    slot_of: IntArray,
    room: IntArray,
) -> None:
    """Put request j into slot k, and the request of slot k in the place of j."""
    i = held[k]
    other = slot_of[j]
    room[worker[k]] -= more
    held[k] = j
    slot_of[j] = k
    slot_of[i] = other
    if other >= 0:
        held[other] = i
        room[worker[other]] += more


@entry_point
def swap_requests(
    margins: IntArray,
    sizes: IntArray,
    target: int,
    heat: int,
    turns: int,
    owner: IntArray,
    state: RandomState,
    spent: IntArray,
) -> int:
    """Swap pairs of requests, admitted or not; keep the best placement within the margins.

    A swap may reduce the total size, or exceed margins (weighted by `_OVERFLOW_PENALTY`), up to a
    random share of a ceiling. The ceiling falls from ``heat`` to 0 (threshold accepting; Dueck and
    Scheuer 1990).

    Parameters
    ----------
    margins : IntArray
        Shape (W,): tokens that each worker can take.
    sizes : IntArray
        Shape (N,), ascending.
    target, heat, turns : int
        Total at which to stop, initial ceiling [tokens], and number of swaps tried.
    owner : IntArray
        Shape (N,): worker of each size or -1, margins possibly exceeded; replaced by the best
        placement found.
    state : IntArray
        State of the generator `bfio.common.words.random_below`, shape (1,), uint64; updated.
    spent : IntArray
        Shape (1,): number of operations (`bfio.step.exact.effort`); increased.

    Returns
    -------
    int
        The total size; -1 if no placement was found within all margins.
    """
    held = np.empty(len(sizes), np.int64)
    worker = np.empty(len(sizes), np.int64)
    slot_of = np.empty(len(sizes), np.int64)
    slots = _slots_of(owner, held, worker, slot_of)
    room = margins.copy()
    total = 0
    for k in range(slots):
        room[worker[k]] -= sizes[held[k]]
        total += sizes[held[k]]
    above = -np.minimum(room, 0).sum()
    best = total if above == 0 else -1
    ceiling = heat
    x = state[0]
    for turn in range(turns):
        if best >= target:
            break
        if turn % _STEP == 0:
            share = _STEP - _STEP * turn // turns
            ceiling = heat * share // _STEP * share // _STEP
            spent[0] += _LOOK * min(_STEP, turns - turn)
        x = next_random(x)
        k = _part(x, 0, slots)
        j = _partner(held[k], len(sizes), x)
        other = slot_of[j]
        if other >= 0 and worker[other] == worker[k]:
            continue
        more = sizes[j] - sizes[held[k]]
        change = _overflow_change(room[worker[k]], more)
        gain = more
        if other >= 0:
            change += _overflow_change(room[worker[other]], -more)
            gain = 0
        if _OVERFLOW_PENALTY * change - gain > _part(x, 2 * _BITS, ceiling + 1):
            continue
        _exchange(k, j, more, held, worker, slot_of, room)
        total += gain
        above += change
        if above == 0 and total > best:
            best = total
            owner[:] = -1
            for k in range(slots):
                owner[held[k]] = worker[k]
    state[0] = x
    return best
