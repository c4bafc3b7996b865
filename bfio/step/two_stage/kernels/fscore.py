"""The F-score in 64-bit integers, compiled; see `bfio.step.two_stage.fscore`.

These functions do not check for overflow. Callers check the magnitudes first, as
`bfio.step.two_stage.kernels.two_stage.two_stage_decide` does.
"""

from typing import NamedTuple

from bfio.common.compilable import compilable
from formulations.arrays import IntArray

#: Above any sum of tokens; the peak of a score that never decreases.
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
        ``d(h)`` with ``v_i(h) = s_i + d(h)``; unused if requests grow differently.
    """

    reward: IntArray
    penalty: IntArray
    margins: IntArray
    drift: IntArray


@compilable
def score_of(trajectory: IntArray, score: Score) -> int:
    """F-score of a set with an arbitrary trajectory ``D(h)``, shape (H+1,) [tokens]."""
    total = 0
    for h in range(len(trajectory)):
        over = max(0, trajectory[h] - score.margins[h])
        total += score.reward[h] * trajectory[h] - score.penalty[h] * over
    return total


@compilable
def fits(trajectory: IntArray, allowance: IntArray) -> bool:
    """Whether the trajectory ``D(h)`` of a set is within the allowance at every step."""
    within = True
    for h in range(len(trajectory)):
        within = within and trajectory[h] <= allowance[h]
    return within


@compilable
def score_at(score: Score, count: int, total: int) -> int:
    """F-score of ``count`` requests with common growth and a current size of ``total`` tokens."""
    value = 0
    for h in range(len(score.margins)):
        added = total + count * score.drift[h]
        over = max(0, added - score.margins[h])
        value += score.reward[h] * added - score.penalty[h] * over
    return value


@compilable
def most_total(score: Score, count: int, allowances: IntArray) -> int:
    """Return the largest total size of ``count`` requests within the allowance at every step.

    ``allowances[count, h]`` is the most they may add at step h; without rows there is no limit.
    """
    most = NO_LIMIT
    if len(allowances) > 0:
        for h in range(len(score.drift)):
            most = min(most, allowances[count, h] - count * score.drift[h])
    return most


@compilable
def slope(score: Score, count: int, total: int) -> int:
    """Slope of the score just right of a total: rewards less penalties of overflowing steps."""
    value = 0
    for h in range(len(score.margins)):
        due = score.margins[h] - count * score.drift[h] <= total
        value += score.reward[h] - (score.penalty[h] if due else 0)
    return value


@compilable
def peak_end(score: Score, count: int, right: bool) -> int:
    """Right or left end of the totals of ``count`` requests with the largest score.

    The slope never increases with the total, and changes at integers only. Bisection finds the
    right end, the smallest total with a slope below 0, or the left end, the smallest with a slope
    of at most 0. The result is `NO_LIMIT` if there is none, and −`NO_LIMIT` if the score never
    increases.
    """
    bar = 0 if right else 1
    if score.reward.sum() < bar:
        return -NO_LIMIT
    # The slope changes only at m(h) − count·d(h), so the end is between the extremes of these.
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
