"""Compiled choice of the best requests with different growth.

All bounds follow from one fact: the penalty ``Σ_h penalty_h·max(0, D(h) − m(h))`` never decreases
when requests are added. So adding T to S raises the score by at most the rewards
``Σ_h reward_h·v_i(h)`` of T.
"""

import numpy as np

from bfio.common.compilable import compilable
from bfio.step.two_stage.kernels.fscore import Score, fits, score_of
from formulations.arrays import IntArray


@compilable(allocates=True)
def rewards_of(contribution: IntArray, reward: IntArray) -> IntArray:
    """Return ``Σ_h reward_h·v_i(h)`` of each request, shape (N,)."""
    rewards = np.zeros(len(contribution), np.int64)
    for i in range(len(contribution)):
        for h in range(len(reward)):
            rewards[i] += reward[h] * contribution[i, h]
    return rewards


@compilable
def best_row(
    ids: IntArray, contribution: IntArray, rewards: IntArray, score: Score, prefer_oldest: bool
) -> int:
    """Position of the request of highest score.

    Parameters
    ----------
    ids : IntArray
        Requests, largest first, ties oldest first.
    contribution : IntArray
        Shape (N, H+1) of all requests [tokens].
    rewards : IntArray
        Shape (N,), from `rewards_of`.
    score : Score
        Data of the score.
    prefer_oldest : bool
        Whether ties go to the oldest request, or else to the largest and then the oldest.
    """
    best, value = 0, score_of(contribution[ids[0]], score)
    for k in range(1, len(ids)):
        # The reward bounds the score from above.
        if rewards[ids[k]] < value:
            continue
        found = score_of(contribution[ids[k]], score)
        if found > value or (found == value and prefer_oldest and ids[k] < ids[best]):
            best, value = k, found
    return best


@compilable(allocates=True)
def best_by_enumeration(
    ids: IntArray,
    contribution: IntArray,
    rewards: IntArray,
    most: int,
    score: Score,
    allowances: IntArray,
    chosen: IntArray,
) -> tuple[int, int]:
    """Choose 1 to ``most`` requests of highest score by branch and bound over all subsets.

    Parameters
    ----------
    ids, contribution, rewards, score
        As in `best_row`; at most 62 ids.
    most : int
        Free slots of the worker, 1 to the number of ids.
    allowances : IntArray
        Shape (at least most + 1, H+1): most that c requests may add; empty if unlimited.
    chosen : IntArray
        Its first entries are filled with request numbers.

    Returns
    -------
    tuple of (int, int)
        Number chosen and their score. Ties: largest size, then oldest requests.
    """
    by_reward = _by_reward(ids, rewards)
    bits = _age_bits(by_reward)
    prefix = np.zeros(len(ids) + 1, np.int64)
    for k in range(len(ids)):
        prefix[k + 1] = prefix[k] + rewards[by_reward[k]]
    trajectories = np.zeros((most + 1, contribution.shape[1]), np.int64)
    path = np.zeros(most + 1, np.int64)
    # Score and members of each prefix of the path; the oldest member is the highest bit.
    values = np.zeros(most + 1, np.int64)
    members = np.zeros(most + 1, np.int64)
    best, size, subset = -(1 << 62), 0, 0
    depth = position = 0
    while True:
        # The next requests in order of reward bound the gain of every extension of the path.
        last = min(len(ids), position + most - depth)
        if position < last and values[depth] + prefix[last] - prefix[position] >= best:
            added = contribution[by_reward[position]]
            for h in range(len(added)):
                trajectories[depth + 1, h] = trajectories[depth, h] + added[h]
            path[depth] = position
            depth += 1
            position += 1
            values[depth] = score_of(trajectories[depth], score)
            members[depth] = members[depth - 1] | bits[position - 1]
            found = (int(values[depth]), int(trajectories[depth, 0]), int(members[depth]))
            allowed = len(allowances) == 0 or fits(trajectories[depth], allowances[depth])
            if allowed and found > (best, size, subset):
                best, size, subset = found
        elif depth == 0:
            break
        else:
            depth -= 1
            position = path[depth] + 1
    return _write_members(by_reward, bits, subset, chosen), best


@compilable(allocates=True)
def _by_reward(ids: IntArray, rewards: IntArray) -> IntArray:
    """Return the requests in decreasing order of reward, which makes the bounds tight."""
    ordered = ids.copy()
    for k in range(1, len(ordered)):
        request, place = ordered[k], k
        while place > 0 and rewards[ordered[place - 1]] < rewards[request]:
            ordered[place] = ordered[place - 1]
            place -= 1
        ordered[place] = request
    return ordered


@compilable(allocates=True)
def _age_bits(ids: IntArray) -> IntArray:
    """Return one bit per request; older requests have higher bits."""
    bits = np.empty(len(ids), np.int64)
    for k in range(len(ids)):
        newer = 0
        for other in ids:
            newer += other > ids[k]
        bits[k] = 1 << newer
    return bits


@compilable
def _write_members(ids: IntArray, bits: IntArray, members: int, chosen: IntArray) -> int:
    count = 0
    for k in range(len(ids)):
        if members & bits[k]:
            chosen[count] = ids[k]
            count += 1
    return count
