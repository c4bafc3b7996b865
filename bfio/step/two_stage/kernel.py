"""The two-stage heuristic, compiled; `bfio.step.two_stage.heuristic` is the reference.

Both make identical decisions. The kernel returns `NEEDS_REFERENCE` if the data could overflow
64-bit integers, need long masks, or are refused by the reference.

Waiting requests are kept in order of size, largest first, so that a choice among requests with
common growth is a bisection. Margins are stored for the current worker only. A worker's least
margin is cached until its loads or the envelope change.
"""

from typing import NamedTuple

import numpy as np

from bfio.common.array_kernels import copy_to, peak_of, sort, sum_of
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.step.two_stage.fscore import Score, fits, peak_end, score_at, score_of, slope
from bfio.step.two_stage.subset_kernel import (
    Candidates,
    best_by_enumeration,
    best_by_sums,
    best_row,
    rewards_of,
)
from formulations.arrays import IntArray

#: The assignment is complete.
DECIDED = 0
#: Use `bfio.step.two_stage.heuristic.two_stage_reference` with the original data instead.
NEEDS_REFERENCE = 1
#: Most candidates for enumeration of all subsets, as in `bfio.step.two_stage.subset_choice`.
MAX_ENUMERATED = 16
#: Default numbers of candidates, as in `bfio.step.two_stage.heuristic`.
_CANDIDATES_BY_SUMS = 64
_CANDIDATES_BY_ENUMERATION = 12
#: Sums below this are exact in 64 bits, with a margin for rounding of the estimate itself.
_SAFE = 2.0**61
#: Positions in `Admission.counts`.
_WAITING, _FREE, _ENVELOPES, _SLOTS, _TIME = 0, 1, 2, 3, 4


class Bounds(NamedTuple):
    """Token capacities and speeds, as in `bfio.step.two_stage.limits`.

    Parameters
    ----------
    time : IntArray
        Shape (G,): time per token of each worker.
    most_time : IntArray
        Shape (G,): most time of each worker at any look-ahead step; empty if unlimited.
    slots : IntArray
        Shape (G,): initially free slots.
    allowances : IntArray
        Shape (most slots + 1, H+1): most time that c requests may add to the current worker; empty
        if ``most_time`` is.
    """

    time: IntArray
    most_time: IntArray
    slots: IntArray
    allowances: IntArray


class Admission(NamedTuple):
    """State of one decision; the compiled form of `bfio.step.two_stage.heuristic._Admission`.

    Parameters
    ----------
    free, loads, contribution, by_size, assignment : IntArray
        See `two_stage_decide`. The front of ``by_size`` has the waiting requests. Loads are in
        units of time, and so are contributions, on the current worker; the latter are used if
        requests grow differently.
    sizes, rewards : IntArray
        Shape (N,): ``v_i(0)`` of each request, and its rewards if requests grow differently; also
        in units of time.
    envelope : IntArray
        Shape (H+1,), largest load at each step.
    least, known : IntArray
        Shape (G,): least margin of each worker and the envelope for which it was computed.
    counts : IntArray
        Waiting requests, slots that they can fill, number of rises of the envelope, slots that may
        still be filled in total, and the time per token of the contributions.
    chosen : IntArray
        Requests of the current choice.
    score : Score
        Factors, drift of the requests, margins of the current worker.
    alike : bool
        Whether all requests grow by ``score.drift``.
    """

    free: IntArray
    loads: IntArray
    contribution: IntArray
    by_size: IntArray
    assignment: IntArray
    sizes: IntArray
    rewards: IntArray
    envelope: IntArray
    least: IntArray
    known: IntArray
    counts: IntArray
    chosen: IntArray
    score: Score
    alike: bool


@entry_point
def two_stage_decide(
    free: IntArray,
    loads: IntArray,
    sizes: IntArray,
    growth: IntArray,
    contribution: IntArray,
    by_size: IntArray,
    reward: IntArray,
    penalty: IntArray,
    threshold: int,
    candidates: int,
    product_key: bool,
    assignment: IntArray,
) -> int:
    """Assign ``min(N, free slots)`` waiting requests to workers.

    All arrays are int64, C-contiguous and writeable.

    Parameters
    ----------
    free : IntArray
        Shape (G,), free slots; overwritten.
    loads : IntArray
        Shape (G, H+1), projected loads without new admissions [tokens]; overwritten.
    sizes : IntArray
        Shape (N,), ``v_i(0)`` of the waiting requests in arrival order [tokens].
    growth : IntArray
        Shape (H+1,), ``d(h)`` of requests with common growth [tokens].
    contribution : IntArray
        Shape (N, H+1), their projected loads; (0, H+1) if all are ``sizes[i] + d(h)``.
    by_size : IntArray
        Shape (N,), the requests in the order of `order_by_size`; overwritten.
    reward, penalty : IntArray
        Shape (H+1,), see `bfio.step.two_stage.fscore.ScoreWeights`.
    threshold : int
        Free slots up to which subsets are chosen (stage 2).
    candidates : int
        Requests considered per subset; 0 for the default.
    product_key : bool
        Order workers by free slots times margin in stage 2.
    assignment : IntArray
        Shape (N,), filled with the worker of each request, −1 for those that keep waiting.

    Returns
    -------
    int
        `DECIDED` or `NEEDS_REFERENCE`; with the latter the assignment is void.
    """
    assignment[:] = -1
    if len(assignment) == 0:
        return DECIDED
    largest = _largest_sum(sizes, growth) if len(contribution) == 0 else largest_of(contribution)
    if not _is_exact(free, loads, len(sizes) * largest, reward, penalty):
        return NEEDS_REFERENCE
    admission = _admission(
        free,
        loads,
        sizes,
        growth,
        contribution,
        by_size,
        by_size,
        reward,
        penalty,
        assignment,
        sum_of(free),
    )
    if candidates == 0:
        candidates = _default_candidates(admission)
    counts = admission.counts
    # Stage 1: single requests.
    while counts[_FREE] > threshold and counts[_WAITING] > 0:
        worker = _emptiest_worker(admission)
        _set_margins(admission, worker)
        _admit_single(admission, worker, admission.by_size[: counts[_WAITING]])
    # Stage 2: subsets.
    while counts[_FREE] > 0 and counts[_WAITING] > 0:
        worker = _largest_product(admission) if product_key else _emptiest_worker(admission)
        _set_margins(admission, worker)
        waiting = admission.by_size[: counts[_WAITING]]
        if not _admit_subset(admission, worker, waiting, candidates, loads[:0]):
            return NEEDS_REFERENCE
    return DECIDED


@entry_point
def two_stage_decide_within(
    free: IntArray,
    loads: IntArray,
    contribution: IntArray,
    by_size: IntArray,
    num_required: int,
    num_slots: int,
    time: IntArray,
    most_time: IntArray,
    reward: IntArray,
    penalty: IntArray,
    threshold: int,
    candidates: int,
    product_key: bool,
    assignment: IntArray,
) -> int:
    """Decide as `two_stage_decide`, within the limits of `bfio.step.two_stage.limits.Limits`.

    Parameters
    ----------
    free, reward, penalty, threshold, candidates, product_key, assignment
        As in `two_stage_decide`.
    loads : IntArray
        Shape (G, H+1), projected times; overwritten.
    contribution : IntArray
        Shape (N, H+1), projected loads of the waiting requests [tokens]; overwritten.
    by_size : IntArray
        Shape (N,): the required requests in the order of `order_by_size`, then the others.
    num_required, num_slots : int
        Number of required requests, and slots that may be filled.
    time, most_time : IntArray
        Shape (G,): see `Bounds`; ``most_time`` is empty without token capacities.

    Returns
    -------
    int
        `DECIDED` or `NEEDS_REFERENCE`; with the latter the assignment is void.
    """
    assignment[:] = -1
    if len(assignment) == 0:
        return DECIDED
    most_added = largest_of(contribution) * len(contribution) * float(peak_of(time))
    if not _is_exact(free, loads, most_added, reward, penalty):
        return NEEDS_REFERENCE
    sizes, growth = contribution[:, 0].copy(), contribution[0] - contribution[0, 0]
    rows = peak_of(free) + 1 if len(most_time) > 0 else 0
    allowances = np.empty((rows, loads.shape[1]), np.int64)
    bounds = Bounds(time, most_time, free.copy(), allowances)
    everyone = by_size.copy()
    for pool in (by_size[:num_required], by_size[num_required:]):
        # Workers that were closed for the required requests may take other requests.
        copy_to(free, bounds.slots)
        for g in assignment:
            if g >= 0:
                free[g] -= 1
        admission = _admission(
            free,
            loads,
            sizes,
            growth,
            contribution,
            pool,
            everyone,
            reward,
            penalty,
            assignment,
            num_slots,
        )
        if not _admit_within(admission, bounds, threshold, candidates, product_key):
            return NEEDS_REFERENCE
        _set_time(admission, 1)
        num_slots = admission.counts[_SLOTS]
    return DECIDED


@compilable(allocates=True)
def _admit_within(
    admission: Admission, bounds: Bounds, threshold: int, candidates: int, product_key: bool
) -> bool:
    """Run both stages within bounds; return False if the reference has to decide."""
    if candidates == 0:
        candidates = _default_candidates(admission)
    counts = admission.counts
    while counts[_FREE] > 0 and counts[_WAITING] > 0:
        is_single = counts[_FREE] > threshold
        by_product = product_key and not is_single
        worker = _largest_product(admission) if by_product else _emptiest_worker(admission)
        _set_margins(admission, worker)
        _set_time(admission, bounds.time[worker])
        fitting = _fitting(admission, bounds, worker)
        if len(fitting) == 0:
            # Close the worker: none of the waiting requests fits.
            admission.free[worker] = 0
            counts[_FREE] = min(sum_of(admission.free), counts[_SLOTS])
        elif is_single:
            _admit_single(admission, worker, fitting)
        elif not _admit_subset(admission, worker, fitting, candidates, bounds.allowances):
            return False
    return True


@entry_point
def order_by_size(sizes: IntArray, by_size: IntArray) -> None:
    """Write the requests to ``by_size`` by current size, largest first, ties oldest first.

    The order is valid only if sizes times N are below 2^62; other data go to the reference.
    """
    bits = 0
    while len(sizes) >> bits > 0:
        bits += 1
    keys = np.empty(len(sizes), np.int64)
    for i in range(len(sizes)):
        keys[i] = i - (sizes[i] << bits)
    sort(keys)
    # The index is in the lowest bits of the key, also in two's complement.
    for k in range(len(sizes)):
        by_size[k] = keys[k] & ((1 << bits) - 1)


@compilable
def _is_exact(
    free: IntArray, loads: IntArray, most_added: float, reward: IntArray, penalty: IntArray
) -> bool:
    """Whether no score and no product of slots and margin can overflow.

    The estimate uses floats, because integers could overflow in the estimate itself.
    """
    tokens = largest_of(loads) + most_added
    factor, slots = 1.0, 0.0
    for h in range(len(reward)):
        factor += float(reward[h]) + float(penalty[h])
    for g in range(len(free)):
        slots += float(free[g])
    return tokens * max(factor, slots) < _SAFE and slots < _SAFE


@compilable
def largest_of(matrix: IntArray) -> float:
    """Return the largest entry of a matrix."""
    largest = matrix[0, 0]
    for row in range(len(matrix)):
        for h in range(matrix.shape[1]):
            largest = max(largest, matrix[row, h])
    return float(largest)


@compilable
def _largest_sum(sizes: IntArray, growth: IntArray) -> float:
    """Return the largest contribution of requests with common growth."""
    size, grown = sizes[0], growth[0]
    for i in range(1, len(sizes)):
        size = max(size, sizes[i])
    for h in range(1, len(growth)):
        grown = max(grown, growth[h])
    return float(size + grown)


@compilable(allocates=True)
def _admission(
    free: IntArray,
    loads: IntArray,
    sizes: IntArray,
    growth: IntArray,
    contribution: IntArray,
    by_size: IntArray,
    everyone: IntArray,
    reward: IntArray,
    penalty: IntArray,
    assignment: IntArray,
    num_slots: int,
) -> Admission:
    drift = growth.copy()
    alike = len(contribution) == 0 or _all_grow_by(drift, contribution, everyone)
    if not alike:
        drift[:] = 0
    envelope = loads[0].copy()
    for g in range(1, len(loads)):
        _raise_envelope(envelope, loads[g])
    counts = np.zeros(5, np.int64)
    counts[_WAITING], counts[_SLOTS], counts[_TIME] = len(by_size), num_slots, 1
    counts[_FREE] = min(sum_of(free), num_slots)
    return Admission(
        free,
        loads,
        contribution,
        by_size,
        assignment,
        sizes.copy(),
        rewards_of(contribution[: 0 if alike else len(contribution)], reward),
        envelope,
        np.empty(len(free), np.int64),
        np.full(len(free), -1, np.int64),
        counts,
        np.empty(len(sizes), np.int64),
        Score(reward, penalty, np.empty(len(reward), np.int64), drift),
        alike,
    )


@compilable
def _default_candidates(admission: Admission) -> int:
    return _CANDIDATES_BY_SUMS if admission.alike else _CANDIDATES_BY_ENUMERATION


@compilable
def _all_grow_by(drift: IntArray, contribution: IntArray, ids: IntArray) -> bool:
    """Whether ``v_i(h) = v_i(0) + d(h)`` for each of these requests."""
    for i in ids:
        for h in range(1, len(drift)):
            if contribution[i, h] - contribution[i, 0] != drift[h]:
                return False
    return True


@compilable
def _raise_envelope(envelope: IntArray, loads: IntArray) -> bool:
    """Raise the envelope to at least one worker's loads; return whether it rose."""
    rose = False
    for h in range(len(envelope)):
        if loads[h] > envelope[h]:
            envelope[h] = loads[h]
            rose = True
    return rose


@compilable
def _set_margins(admission: Admission, worker: int) -> None:
    for h in range(len(admission.envelope)):
        admission.score.margins[h] = admission.envelope[h] - admission.loads[worker, h]


@compilable
def _set_time(admission: Admission, time: int) -> None:
    """Convert contributions, sizes, rewards and drift to times, at this time per token."""
    before = admission.counts[_TIME]
    if time == before:
        return
    contribution, sizes, rewards = admission.contribution, admission.sizes, admission.rewards
    # All values are multiples of the previous time per token, so the divisions are exact.
    for i in range(len(contribution)):
        for h in range(contribution.shape[1]):
            contribution[i, h] = contribution[i, h] // before * time
        sizes[i] = contribution[i, 0]
    for i in range(len(rewards)):
        rewards[i] = rewards[i] // before * time
    drift = admission.score.drift
    for h in range(len(drift)):
        drift[h] = drift[h] // before * time
    admission.counts[_TIME] = time


@compilable(allocates=True)
def _fitting(admission: Admission, bounds: Bounds, worker: int) -> IntArray:
    """Return the waiting requests that fit on a worker, largest first."""
    waiting = admission.by_size[: admission.counts[_WAITING]]
    if len(bounds.most_time) == 0:
        return waiting
    _set_allowances(admission, bounds, worker)
    fitting = np.empty(len(waiting), np.int64)
    found = 0
    for i in waiting:
        if fits(admission.contribution[i], bounds.allowances[1]):
            fitting[found] = i
            found += 1
    return fitting[:found]


@compilable(allocates=True)
def _set_allowances(admission: Admission, bounds: Bounds, worker: int) -> None:
    """Write the most time that c requests may add to a worker, for c = 0 .. its free slots.

    If further slots of the worker must be filled, room for the smallest unassigned requests is
    reserved, for as many of them as fit.
    """
    assignment, free = admission.assignment, admission.free[worker]
    unassigned = 0
    for worker_of in assignment:
        unassigned += worker_of < 0
    others = sum_of(bounds.slots) - (len(assignment) - unassigned) - free
    must = max(0, min(admission.counts[_SLOTS], unassigned) - others)
    smallest = np.empty(unassigned, np.int64)
    fitting = _keep_room(admission, bounds, worker, smallest, must)
    if fitting < must:
        _keep_room(admission, bounds, worker, smallest, fitting)


@compilable(allocates=True)
def _keep_room(
    admission: Admission, bounds: Bounds, worker: int, smallest: IntArray, must: int
) -> int:
    """Write the allowances if a worker must take ``must`` requests; return how many fit."""
    assignment, fitting = admission.assignment, must
    for h in range(len(admission.envelope)):
        found = 0
        for i in range(len(assignment)):
            if assignment[i] < 0:
                smallest[found] = admission.contribution[i, h]
                found += 1
        sort(smallest)
        room = bounds.most_time[worker] - admission.loads[worker, h]
        total, together = 0, 0
        for k in range(must):
            total += smallest[k]
            together += total <= room
        fitting = min(fitting, together)
        for c in range(admission.free[worker] + 1):
            bounds.allowances[c, h] = room - sum_of(smallest[: max(0, must - c)])
    return fitting


@compilable
def _least_margin(admission: Admission, worker: int) -> int:
    if admission.known[worker] != admission.counts[_ENVELOPES]:
        least = admission.envelope[0] - admission.loads[worker, 0]
        for h in range(1, len(admission.envelope)):
            least = min(least, admission.envelope[h] - admission.loads[worker, h])
        admission.least[worker] = least
        admission.known[worker] = admission.counts[_ENVELOPES]
    return int(admission.least[worker])


@compilable
def _emptiest_worker(admission: Admission) -> int:
    """Worker with most free slots; ties: largest least margin, then lowest index."""
    best, margin, most = -1, -1, 0
    for g in range(len(admission.free)):
        if admission.free[g] < most:
            continue
        found = _least_margin(admission, g)
        if admission.free[g] > most or found > margin:
            best, margin, most = g, found, admission.free[g]
    return best


@compilable
def _largest_product(admission: Admission) -> int:
    """Worker with a free slot and the largest (free slots · least margin); ties: lowest index."""
    best, product = -1, -1
    for g in range(len(admission.free)):
        if admission.free[g] > 0:
            found = admission.free[g] * _least_margin(admission, g)
            if found > product:
                best, product = g, found
    return best


@compilable
def _admit_single(admission: Admission, worker: int, waiting: IntArray) -> None:
    """Admit the request of highest score; ties: oldest. ``waiting`` is sorted, largest first."""
    _take(admission, worker, waiting, _best_single(admission, waiting, True))


@compilable
def _best_single(admission: Admission, ids: IntArray, prefer_oldest: bool) -> int:
    """Position of the request of highest score; ties: the oldest, or the largest, then oldest."""
    if admission.alike:
        return _best_alike(admission, ids, prefer_oldest)
    return best_row(ids, admission.contribution, admission.rewards, admission.score, prefer_oldest)


@compilable
def _best_alike(admission: Admission, ids: IntArray, prefer_oldest: bool) -> int:
    """Decide as `_best_single`, for requests with common growth.

    The score increases up to the left end of its peak, is constant up to the right end, and then
    decreases. So the best request is next to the right end, on either side, or has the same score
    as the one below.
    """
    score, sizes = admission.score, admission.sizes
    below = _first_at_most(sizes, ids, peak_end(score, 1, True))
    if below == 0:
        return _oldest_level(admission, ids, below) if prefer_oldest else below
    above = _first_at_most(sizes, ids, sizes[ids[below - 1]])
    if below == len(ids):
        return above
    lead = score_at(score, 1, sizes[ids[above]]) - score_at(score, 1, sizes[ids[below]])
    if not prefer_oldest:
        return above if lead >= 0 else below
    below = _oldest_level(admission, ids, below)
    return above if lead > 0 or (lead == 0 and ids[above] < ids[below]) else below


@compilable
def _oldest_level(admission: Admission, ids: IntArray, position: int) -> int:
    """Position of the oldest request with the score of the given one, the best up to the peak."""
    sizes = admission.sizes
    size = sizes[ids[position]]
    if slope(admission.score, 1, size - 1) > 0:
        return position
    level = min(size, peak_end(admission.score, 1, False))
    best = position
    for k in range(position + 1, _first_at_most(sizes, ids, level - 1)):
        if ids[k] < ids[best]:
            best = k
    return best


@compilable
def _first_at_most(sizes: IntArray, waiting: IntArray, limit: int) -> int:
    """First position of a request with size <= limit; the number of requests if there is none."""
    low, high = 0, len(waiting)
    while low < high:
        middle = (low + high) // 2
        if sizes[waiting[middle]] <= limit:
            high = middle
        else:
            low = middle + 1
    return low


@compilable(allocates=True)
def _admit_subset(
    admission: Admission,
    worker: int,
    waiting: IntArray,
    num_candidates: int,
    allowances: IntArray,
) -> bool:
    """Admit the best subset, or the best single request if none scores above 0.

    Returns
    -------
    bool
        False if the reference has to decide.
    """
    candidates = waiting[: min(num_candidates, len(waiting))]
    most = min(admission.free[worker], len(candidates), admission.counts[_FREE])
    if most == 1:
        best = _best_single(admission, candidates, False)
        if _single_score(admission, candidates[best]) > 0:
            _take(admission, worker, candidates, best)
        else:
            _admit_single(admission, worker, waiting)
        return True
    count, value = _best_subset(admission, candidates, most, allowances)
    if count > 0 and value > 0:
        for request in admission.chosen[:count]:
            _admit(admission, worker, request)
        _forget_admitted(admission)
    elif count > 0:
        _admit_single(admission, worker, waiting)
    return count > 0


@compilable
def _single_score(admission: Admission, request: int) -> int:
    if admission.alike:
        return score_at(admission.score, 1, admission.sizes[request])
    return score_of(admission.contribution[request], admission.score)


@compilable(allocates=True)
def _best_subset(
    admission: Admission, candidates: IntArray, most: int, allowances: IntArray
) -> tuple[int, int]:
    """Write the best subset to ``chosen``; return its size (<= 0: undecided) and its score."""
    score, chosen = admission.score, admission.chosen
    if admission.alike:
        sizes = np.empty(len(candidates), np.int64)
        for k in range(len(candidates)):
            sizes[k] = admission.sizes[candidates[k]]
        return best_by_sums(Candidates(candidates, sizes), most, score, allowances, chosen)
    if len(candidates) > MAX_ENUMERATED:
        return 0, 0
    contribution, rewards = admission.contribution, admission.rewards
    return best_by_enumeration(candidates, contribution, rewards, most, score, allowances, chosen)


@compilable
def _admit(admission: Admission, worker: int, request: int) -> None:
    """Admit a request to a worker; the caller removes it from the waiting requests."""
    admission.assignment[request] = worker
    loads = admission.loads[worker]
    for h in range(len(loads)):
        if admission.alike:
            loads[h] += admission.sizes[request] + admission.score.drift[h]
        else:
            loads[h] += admission.contribution[request, h]
    admission.known[worker] = -1
    if _raise_envelope(admission.envelope, loads):
        admission.counts[_ENVELOPES] += 1
    admission.free[worker] -= 1
    admission.counts[_FREE] -= 1
    admission.counts[_SLOTS] -= 1


@compilable
def _take(admission: Admission, worker: int, ids: IntArray, k: int) -> None:
    """Admit request k of ``ids``, a subsequence of the waiting requests, and remove it there."""
    _admit(admission, worker, ids[k])
    position = k
    while admission.by_size[position] != ids[k]:
        position += 1
    admission.counts[_WAITING] -= 1
    for k in range(position, admission.counts[_WAITING]):
        admission.by_size[k] = admission.by_size[k + 1]


@compilable
def _forget_admitted(admission: Admission) -> None:
    kept = 0
    for k in range(admission.counts[_WAITING]):
        request = admission.by_size[k]
        if admission.assignment[request] < 0:
            admission.by_size[kept] = request
            kept += 1
    admission.counts[_WAITING] = kept
