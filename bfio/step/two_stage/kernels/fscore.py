"""The F-score in 64-bit integers, compiled; twin of `bfio.step.two_stage.fscore`.

Nothing here guards against overflow: callers check the magnitudes first, as
`bfio.step.two_stage.kernels.two_stage.two_stage_decide` does.
"""

from typing import NamedTuple

from bfio.common.compilable import compilable
from formulations.arrays import IntArray

#: Above any sum of tokens: where a score that never decreases has its peak.
NO_LIMIT = 1 << 62


class Score(NamedTuple):
    """Data of the F-score for one worker, each of shape (H+1,).

    Parameters
    ----------
    reward, penalty : IntArray
        Integer factors, see `bfio.step.two_stage.fscore.ScoreWeights`.
    margins : IntArray
        ``m(h)`` of the worker under consideration [tokens].
    drift : IntArray
        ``d(h)`` with ``v_i(h) = s_i + d(h)``; unused while requests grow differently.
    """

    reward: IntArray
    penalty: IntArray
    margins: IntArray
    drift: IntArray


@compilable
def score_of(trajectory: IntArray, score: Score) -> int:
    """F-score of a set that adds ``D(h)``, any trajectory of shape (H+1,) [tokens]."""
    total = 0
    for h in range(len(trajectory)):
        over = max(0, trajectory[h] - score.margins[h])
        total += score.reward[h] * trajectory[h] - score.penalty[h] * over
    return total


@compilable
def fits(trajectory: IntArray, allowance: IntArray) -> bool:
    """Whether a set that adds ``D(h)`` adds at no step more than is allowed there."""
    within = True
    for h in range(len(trajectory)):
        within = within and trajectory[h] <= allowance[h]
    return within


@compilable
def score_at(score: Score, count: int, total: int) -> int:
    """F-score of ``count`` requests that grow alike and have ``total`` tokens now."""
    value = 0
    for h in range(len(score.margins)):
        added = total + count * score.drift[h]
        over = max(0, added - score.margins[h])
        value += score.reward[h] * added - score.penalty[h] * over
    return value


@compilable
def most_total(score: Score, count: int, allowances: IntArray) -> int:
    """Return the largest total of ``count`` requests that adds at no step more than allowed.

    ``allowances[count, h]`` is what they may add at step h; without rows, anything.
    """
    most = NO_LIMIT
    if len(allowances) > 0:
        for h in range(len(score.drift)):
            most = min(most, allowances[count, h] - count * score.drift[h])
    return most


@compilable
def slope(score: Score, count: int, total: int) -> int:
    """Slope of the score just right of a total: rewards less the penalties already due."""
    value = 0
    for h in range(len(score.margins)):
        due = score.margins[h] - count * score.drift[h] <= total
        value += score.reward[h] - (score.penalty[h] if due else 0)
    return value


@compilable
def peak_end(score: Score, count: int, right: bool) -> int:
    """Right or left end of the totals of ``count`` requests where the score is largest.

    The slope only falls as the total grows, and changes at integers. The right end is the smallest
    total with a slope below 0, the left end the smallest with none above 0, found by bisection;
    `NO_LIMIT` if there is none, −`NO_LIMIT` if the score never increases.
    """
    bar = 0 if right else 1
    if score.reward.sum() < bar:
        return -NO_LIMIT
    least = most = score.margins[0] - count * score.drift[0]
    for h in range(1, len(score.margins)):
        position = score.margins[h] - count * score.drift[h]
        least, most = min(least, position), max(most, position)
    if slope(score, count, most) >= bar:
        return NO_LIMIT
    while least < most:
        middle = (least + most) >> 1
        if slope(score, count, middle) < bar:
            most = middle
        else:
            least = middle + 1
    return int(least)
