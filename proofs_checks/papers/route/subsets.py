"""Choosing a subset by its reachable sums, against all subsets."""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations

from bfio.step.two_stage.fscore import ScoreWeights, right_end, score
from proofs_checks.claim import Context


def reachable_sums(sizes: Sequence[int], capacity: int) -> list[int]:
    """Return the sums of 1 to ``capacity`` of the sizes, in rising order."""
    return sorted({sum(s) for c in range(1, capacity + 1) for s in combinations(sizes, c)})


def best_near(
    points: Iterable[int | None],
    sizes: Sequence[int],
    capacity: int,
    margins: Sequence[int],
    weights: ScoreWeights,
    probes: int = 2,
) -> int:
    """Best score of the reachable sums next to each point: the largest up to it, the next above.

    Parameters
    ----------
    points : iterable of int or None
        Where to probe; None is infinity.
    sizes, margins : sequence of int
        Sizes of the candidates, and safe margins of the worker over the window.
    capacity : int
        Free slots.
    weights : ScoreWeights
        Reward, penalty and discounts.
    probes : int
        2, or 1 for the lower one alone.
    """
    sums = reachable_sums(sizes, capacity)
    tried: list[int] = []
    for point in points:
        tried += [x for x in sums if point is None or x <= point][-1:]
        if probes == 2:
            tried += [x for x in sums if point is not None and x > point][:1]
    return max((score([x] * len(margins), margins, weights) for x in tried), default=-(10**9))


def best_by_probes(
    sizes: Sequence[int], capacity: int, margins: Sequence[int], weights: ScoreWeights, probes: int
) -> int:
    """Best score of the sums next to the right end of the maximising interval."""
    peak = right_end(margins, [0] * len(margins), weights)
    return best_near([peak], sizes, capacity, margins, weights, probes)


def best_by_enumeration(
    sizes: Sequence[int], capacity: int, margins: Sequence[int], weights: ScoreWeights
) -> int:
    """Best score of all non-empty subsets of up to ``capacity`` requests."""
    return max(
        score([sum(s)] * len(margins), margins, weights)
        for c in range(1, capacity + 1)
        for s in combinations(sizes, c)
    )


def choices(context: Context, horizon: int) -> Iterator[tuple[list[int], int, list[int], int]]:
    """Yield random sizes, capacities, margins and penalties."""
    rng = context.rng
    for _ in range(context.choose(150, 1500, 20_000)):
        sizes = rng.integers(1, 15, int(rng.integers(1, 6))).tolist()
        margins = rng.integers(0, 30, int(rng.integers(0, horizon + 1)) + 1).tolist()
        yield sizes, int(rng.integers(1, len(sizes) + 1)), margins, int(rng.integers(1, 5))


def discounted(margins: Sequence[int], beta: int) -> ScoreWeights:
    """Return weights with α = 1 and falling discounts over the window."""
    return ScoreWeights.of(Fraction(1), Fraction(beta), [8 - h for h in range(len(margins))])
