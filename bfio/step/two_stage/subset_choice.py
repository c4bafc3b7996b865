"""Exact choice of the subset of waiting requests with the best F-score for one worker.

Ties: highest score, then largest current size ``Σ v_i(0)``, then oldest requests (the set that
contains the oldest request on which two sets differ).
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from bfio.step.two_stage.fscore import ScoreWeights, right_end, score, scores
from bfio.step.two_stage.subset_sums import ReachableSums, reachable_sums
from formulations.arrays import IntArray
from formulations.errors import InputError

#: Most candidates for enumeration of all subsets.
MAX_ENUMERATED = 16
#: Above any sum of tokens and any index.
_NO_LIMIT = 2**62


def best_subset(
    contribution: IntArray,
    margins: IntArray,
    capacity: int,
    weights: ScoreWeights,
    allowances: IntArray | None = None,
    worth: IntArray | None = None,
) -> tuple[tuple[int, ...], int]:
    """Choose 1 to ``capacity`` candidates of highest F-score.

    Parameters
    ----------
    contribution : IntArray
        Shape (K, H+1), K >= 1 candidates, oldest first [tokens].
    margins : IntArray
        Shape (H+1,), margins of the worker [tokens].
    capacity : int
        Free slots of the worker, >= 1.
    weights : ScoreWeights
        Factors of the score.
    allowances : IntArray, optional
        Shape (at least ``capacity`` + 1, H+1): most tokens that c requests may add at each step.
        Every single candidate must be allowed.
    worth : IntArray, optional
        Shape (K,): amount that each candidate adds to the score of every set that contains it.

    Returns
    -------
    tuple of (tuple of int, int)
        Chosen candidates in increasing order, and their score.

    Raises
    ------
    InputError
        If candidates grow differently, or differ in worth, and there are more than
        `MAX_ENUMERATED`.
    """
    capacity = min(capacity, len(contribution))
    if worth is None and capacity == 1:
        return _best_single(contribution, margins, weights)
    if worth is None and grows_alike(contribution):
        return _best_by_sums(contribution, margins, capacity, weights, allowances)
    return _best_by_enumeration(contribution, margins, capacity, weights, allowances, worth)


def grows_alike(contribution: IntArray) -> bool:
    """Whether ``v_i(h) − v_i(0)`` is the same for all requests i, as with constant loads."""
    if contribution.shape[1] == 1 or len(contribution) <= 1:
        return True
    drift = contribution - contribution[:, :1]
    return bool((drift == drift[0]).all())


def _best_single(
    contribution: IntArray, margins: IntArray, weights: ScoreWeights
) -> tuple[tuple[int, ...], int]:
    values = scores(contribution, margins, weights)
    best = _first_best(values, contribution[:, 0])
    return (best,), int(values[best])


def _best_by_sums(
    contribution: IntArray,
    margins: IntArray,
    capacity: int,
    weights: ScoreWeights,
    allowances: IntArray | None,
) -> tuple[tuple[int, ...], int]:
    """Two probes of the reachable sums per cardinality.

    Notes
    -----
    *Exactness.* With ``v_i(h) = s_i + d(h)`` a set of c requests adds ``Δ + c·d(h)`` at step h,
    so for fixed c the score depends on Δ alone. It is a linear function minus non-negative
    multiples of ``max(0, Δ − const)``, hence concave: it does not decrease up to the right end
    ``D*`` of its maximisers and strictly decreases after it. Therefore no reachable sum below the
    largest one ``<= D*`` scores higher, and none above the smallest one ``> D*`` scores as high.
    The better of these two is the best of cardinality c. If loads are constant (``d = 0``), they
    are the paper's two probes. With slope 0 left of ``D*`` the first probe is also the largest of
    the tied sums, as the tie rule requires. If sums have an upper limit below ``D*``, the limit
    takes the place of ``D*``.
    """
    drift = [int(d) for d in contribution[0] - contribution[0, 0]]
    slack = [int(m) for m in margins]
    sums = reachable_sums(contribution[:, 0].tolist(), capacity)
    found: list[tuple[int, int, int]] = []
    for c in range(1, capacity + 1):
        growth = [c * d for d in drift]
        most = None if allowances is None else _most_sum(allowances[c], growth)
        for total in _probes(sums, c, right_end(slack, growth, weights), most):
            value = score([total + d for d in growth], slack, weights)
            found.append((value, total, c))
    value, total, _ = max(found)
    tied = [c for v, t, c in found if (v, t) == (value, total)]
    return _oldest([sums.members(c, total) for c in tied]), value


def _most_sum(allowance: IntArray, growth: Sequence[int]) -> int:
    """Return the largest total current size that stays within the allowance of every step."""
    return min(int(most) - d for most, d in zip(allowance, growth, strict=True))


def _probes(
    sums: ReachableSums, cardinality: int, peak: int | None, most: int | None
) -> list[int]:
    """Return the reachable sums next to ``peak`` on both sides, up to ``most``.

    If there is no peak, return the largest sum.
    """
    if peak is None:
        peak = _NO_LIMIT
    if most is None:
        most = _NO_LIMIT
    around = (sums.at_most(cardinality, min(peak, most)), sums.above(cardinality, peak))
    return [total for total in around if total is not None and total <= most]


def _oldest(sets: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the set with the oldest requests (see the tie rule of this module)."""
    # The sentinel after the last member places a set before its own proper prefixes.
    return min(sets, key=lambda members: (*members, _NO_LIMIT))


def _best_by_enumeration(
    contribution: IntArray,
    margins: IntArray,
    capacity: int,
    weights: ScoreWeights,
    allowances: IntArray | None,
    worth: IntArray | None,
) -> tuple[tuple[int, ...], int]:
    if len(contribution) > MAX_ENUMERATED:
        in_what = "grow differently" if worth is None else "differ in benefit"
        alike = ", or a projection with the same growth for all requests" if worth is None else ""
        raise InputError(
            "candidates",
            f"{len(contribution)} requests that {in_what} have too many subsets",
            f"use --candidates {MAX_ENUMERATED} or less{alike}",
        )
    members = _subsets(len(contribution), capacity)
    trajectories = members.astype(contribution.dtype) @ contribution
    if allowances is not None:
        allowed = (trajectories <= allowances[members.sum(axis=1)]).all(axis=1).astype(np.bool_)
        members, trajectories = members[allowed], trajectories[allowed]
    values = scores(trajectories, margins, weights)
    if worth is not None:
        values = values + members.astype(worth.dtype) @ worth
    best = _first_best(values, trajectories[:, 0])
    return tuple(np.flatnonzero(members[best]).tolist()), int(values[best])


def _first_best(values: IntArray, sizes: IntArray) -> int:
    """First index of the highest value and, among ties, of the largest size."""
    tied = np.flatnonzero(values == values.max())
    return int(tied[np.argmax(sizes[tied])])


@lru_cache(maxsize=64)
def _subsets(num_items: int, most: int) -> IntArray:
    """Incidence rows of all subsets of 1 to ``most`` items, ordered by oldest items first."""
    masks = np.arange(2**num_items - 1, 0, -1, dtype=np.int64)
    rows = masks[:, None] >> np.arange(num_items - 1, -1, -1) & 1
    kept: IntArray = rows[rows.sum(axis=1) <= most]
    kept.flags.writeable = False
    return kept
