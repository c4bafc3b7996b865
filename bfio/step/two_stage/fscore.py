"""The F-score of BalanceRoute, in exact integers.

For worker g with margins ``m(h) = max_g b_g(h) − b_g(h) >= 0`` and a set S of waiting requests
that would add ``D(h) = Σ_{i∈S} v_i(h)``::

    F(S, g) = α·Σ_h w_h·D(h) − β·Σ_h w_h·max(0, D(h) − m(h))          (BalanceRoute, eq. 2)

with integer weights ``w_h`` (``γ^h`` scaled). BalanceRoute takes ``D(h) = Δ = Σ s_i`` for all h;
here contributions may change along the window. With ``H = 0``, ``α = 1`` and ``β = G`` it is eq.
1, ``Δ − G·max(0, Δ − m)``, which is minus the change of the imbalance. Rational α and β are
brought to a common denominator, so that scores are compared in exact integers.

Compiled code states the score again, and tests compare: the functions of `Score` below, in 64-bit
integers, and `best_worker` of `bfio.decode.machine.two_stage` for immediate dispatch. Functions of
`Score` do not check for overflow. Callers check the magnitudes first, as `two_stage_decide` of
`bfio.step.two_stage.kernel` does. The bounds of `subset_kernel` use that the
penalty never decreases. A change of the score is a change of all of them, and of docs/policies.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import Any, NamedTuple

import numpy as np

from bfio.common.array_kernels import sum_of
from bfio.common.compilable import compilable
from formulations.arrays import IntArray

#: Sums below this are exact in 64 bits; for larger ones numpy arrays hold Python ints.
_INT64_SAFE = 2**62


@dataclass(frozen=True)
class ScoreWeights:
    """Integer factors of the F-score, ``α·w_h`` and ``β·w_h`` on a common scale.

    Parameters
    ----------
    reward, penalty : tuple of int
        One entry per look-ahead step.
    benefit : int
        Factor of the benefits of placements; 0 without benefits.
    """

    reward: tuple[int, ...]
    penalty: tuple[int, ...]
    benefit: int = 0

    @classmethod
    def of(
        cls, alpha: Fraction, beta: Fraction, weights: Sequence[int], *, has_benefit: bool = False
    ) -> "ScoreWeights":
        """Scale ``α·w_h``, ``β·w_h`` and the benefit factor 1 to the smallest common integers."""
        scale = lcm(alpha.denominator, beta.denominator)
        reward = [int(alpha * scale) * w for w in weights]
        penalty = [int(beta * scale) * w for w in weights]
        benefit = scale if has_benefit else 0
        common = gcd(*reward, *penalty, benefit) or 1
        return cls(
            tuple(r // common for r in reward),
            tuple(p // common for p in penalty),
            benefit // common,
        )

    def exact_dtype(self, most_tokens: int, most_benefit: int = 0) -> np.dtype[Any]:
        """Dtype in which scores are exact if no trajectory exceeds ``most_tokens``."""
        largest = most_tokens * (sum(self.reward) + sum(self.penalty))
        largest += most_benefit * self.benefit
        return np.dtype(np.int64) if largest < _INT64_SAFE else np.dtype(np.object_)


def score(trajectory: Sequence[int], margins: Sequence[int], weights: ScoreWeights) -> int:
    """F-score of one set of requests, in Python integers.

    Parameters
    ----------
    trajectory, margins : sequence of int
        ``D(h)`` and ``m(h)``, shape (H+1,) [tokens].
    weights : ScoreWeights
        Factors.
    """
    total = 0
    for added, margin, reward, penalty in zip(
        trajectory, margins, weights.reward, weights.penalty, strict=True
    ):
        total += reward * added - penalty * max(0, added - margin)
    return total


def scores(trajectories: IntArray, margins: IntArray, weights: ScoreWeights) -> IntArray:
    """F-scores of n sets at once, in the dtype of ``trajectories``.

    Parameters
    ----------
    trajectories : IntArray
        Shape (n, H+1), ``D(h)`` of each set [tokens]; of a dtype from `ScoreWeights.exact_dtype`.
    margins : IntArray
        Shape (H+1,) [tokens].

    Returns
    -------
    IntArray
        Shape (n,).
    """
    if trajectories.shape[1] == 1:
        added = trajectories[:, 0]
        over = np.maximum(added - margins[0], 0)
        return weights.reward[0] * added - weights.penalty[0] * over  # type: ignore[no-any-return]
    reward = np.array(weights.reward, dtype=trajectories.dtype)
    penalty = np.array(weights.penalty, dtype=trajectories.dtype)
    over = np.maximum(trajectories - margins, 0)
    return trajectories @ reward - over @ penalty  # type: ignore[no-any-return]


def right_end(margins: Sequence[int], drift: Sequence[int], weights: ScoreWeights) -> int | None:
    """Right end ``D*`` of the interval of Δ where ``F(Δ + drift(h))`` is largest.

    Returns
    -------
    int or None
        The smallest Δ from which F strictly decreases; None if it never does.

    Notes
    -----
    F is concave and piecewise linear in Δ. Just right of Δ its slope is ``Σ_h reward_h`` less the
    penalties of the steps with ``m(h) − drift(h) <= Δ``, so D* is one of these breakpoints.
    """
    slope = sum(weights.reward)
    breakpoints = sorted(
        (m - d, p) for m, d, p in zip(margins, drift, weights.penalty, strict=True)
    )
    # Pass the breakpoints from left to right; each one reduces the slope by its penalty.
    for position, penalty in breakpoints:
        slope -= penalty
        if slope < 0:
            return position
    return None


#: Above any sum of tokens; the peak of a score that never decreases.
NO_LIMIT = 1 << 62


class Score(NamedTuple):
    """Data of the F-score for one worker, each of shape (H+1,).

    Parameters
    ----------
    reward, penalty : IntArray
        Integer factors, see `ScoreWeights`.
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
    if sum_of(score.reward) < bar:
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
