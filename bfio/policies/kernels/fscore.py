"""The F-score in 64-bit integers, compiled; `bfio.policies.fscore` is its readable statement.

Nothing here guards against overflow: callers check the magnitudes first, as
`bfio.policies.kernels.two_stage.two_stage_decide` does.
"""

from typing import NamedTuple

from bfio.exact.compiled import compiled
from formulations.arrays import IntArray

#: Above any sum of tokens: where a score that never decreases has its peak.
NO_LIMIT = 1 << 62


class Score(NamedTuple):
    """Data of the F-score for one worker, each of shape (H+1,).

    Parameters
    ----------
    reward, penalty : IntArray
        Integer factors, see `bfio.policies.fscore.ScoreWeights`.
    margins : IntArray
        ``m(h)`` of the worker under consideration [tokens].
    drift : IntArray
        ``d(h)`` with ``v_i(h) = s_i + d(h)``; unused while requests grow differently.
    """

    reward: IntArray
    penalty: IntArray
    margins: IntArray
    drift: IntArray


@compiled
def score_of(trajectory: IntArray, score: Score) -> int:
    """F-score of a set that adds ``D(h)``, any trajectory of shape (H+1,) [tokens]."""
    total = 0
    for h in range(len(trajectory)):
        over = max(0, trajectory[h] - score.margins[h])
        total += score.reward[h] * trajectory[h] - score.penalty[h] * over
    return total


@compiled
def score_at(score: Score, count: int, total: int) -> int:
    """F-score of ``count`` requests that grow alike and have ``total`` tokens now."""
    value = 0
    for h in range(len(score.margins)):
        added = total + count * score.drift[h]
        over = max(0, added - score.margins[h])
        value += score.reward[h] * added - score.penalty[h] * over
    return value


@compiled
def peak_end(score: Score, count: int, right: bool) -> int:
    """Right or left end of the totals of ``count`` requests where the score is largest.

    Just right of Δ the slope is ``Σ_h reward_h`` less the penalties of the steps with
    ``m(h) − count·d(h) <= Δ``, which only falls as Δ grows; the right end is the smallest Δ with
    a negative slope, the left end the smallest with none above 0. Both are integers, found by
    bisection; `NO_LIMIT` if there is none, −`NO_LIMIT` if the score never increases.
    """
    bar = 0 if right else 1
    rewards = score.reward.sum()
    if rewards < bar:
        return -NO_LIMIT
    if rewards - score.penalty.sum() >= bar:
        return NO_LIMIT
    least = score.margins[0] - count * score.drift[0]
    most = least
    for h in range(1, len(score.margins)):
        position = score.margins[h] - count * score.drift[h]
        least, most = min(least, position), max(most, position)
    while least < most:
        middle = (least + most) >> 1
        if rewards - _penalties_up_to(score, count, middle) < bar:
            most = middle
        else:
            least = middle + 1
    return least


@compiled
def _penalties_up_to(score: Score, count: int, total: int) -> int:
    penalties = 0
    for h in range(len(score.margins)):
        if score.margins[h] - count * score.drift[h] <= total:
            penalties += score.penalty[h]
    return penalties
