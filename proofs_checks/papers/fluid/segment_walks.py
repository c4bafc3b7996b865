"""Walks that dominate the queues between segments (Lemmas 7 and 9)."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate, product
from math import prod

from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.exact_laws import ExactLaw, binomial, gathered
from proofs_checks.papers.fluid.queues import (
    queue_path,
    reflected_path,
)
from proofs_checks.search import examine, refute

CLAIMS = Claims()


QUEUE = ("W' = W + Y − n_k·1{W + Y ≥ n_k}", "steps are batches with segment k − 1")
BINOMIAL = (*QUEUE, "Y independent Binomial(n_{k−1}, P_k)", "n_{k−1} > n_k > n_{k−1}P_k")


#: Transfers of each step, ``n_{k−1}`` and ``n_k``.
Path = tuple[tuple[int, ...], int, int]


def _paths(context: Context) -> Iterator[Path]:
    for before in range(2, context.choose(4, 5, 6)):
        for threshold in range(1, before + 1):
            for moved in product(range(before + 1), repeat=context.choose(5, 6, 7)):
                yield moved, before, threshold


def _made(context: Context) -> str:
    return (
        f"every sequence of {context.choose(5, 6, 7)} transfers, n_(k−1) below "
        f"{context.choose(4, 5, 6)}"
    )


@CLAIMS.result("fluid.lemma7", Mutation("reflected at 0", base=0), hypotheses=QUEUE)
def _lemma7_check(context: Context, *, base: int = 1) -> Outcome:
    """A reflected walk dominates a segment's queue.

    Source: fluid paper, Lemma 7 (appendices C and E.4)
    Statement: The walk reflected at n_k is at least the queue before segment k.
    Formula: W̃^0 = n_k, W̃' = max{n_k, W̃ + Y − n_k}  ⇒  W̃^s ≥ W^s
    Summary: Path by path, whatever is moved.
    """

    def holds(path: Path) -> bool:
        moved, _, threshold = path
        walk = reflected_path(moved, threshold, base * threshold)
        return all(v >= w for v, w in zip(walk, queue_path(moved, threshold), strict=True))

    return examine("W̃_k^s ≥ W_k^s for all s", _made(context), _paths(context), holds)


def walk_dominates(path: Path, service: int) -> bool:
    """Whether the walk with ``X = Y − service``, reflected at n_k, stays above the queue."""
    moved, _, threshold = path
    walk = reflected_path(moved, service, threshold)
    return all(v >= w for v, w in zip(walk, queue_path(moved, threshold), strict=True))


def verify_lemma9(data: Data) -> str | None:
    """Confirm that the walk with ``X = Y − n_1`` falls below the queue."""
    moved, first, threshold = tuple(data["moved"]), data["first"], data["threshold"]
    if min(first, threshold) < 1 or min(moved, default=0) < 0 or max(moved, default=0) > first:
        return None
    # Segment 2 after segment 1: (10) wants n_2 > p·n_1, which some p < 1 allows.
    if threshold > first or walk_dominates((moved, first, threshold), first):
        return None
    queue = queue_path(moved, threshold)
    walk = reflected_path(moved, first, threshold)
    return f"transfers {list(moved)}: W = {queue}, W̃ = {walk} with X = Y − {first}"


@CLAIMS.result(
    "fluid.lemma9",
    Mutation("n_k as printed", printed=False),
    Mutation("n_1 in the correction", corrected=False),
    hypotheses=(*QUEUE, "transfers of any law"),
    defect=Defect.MISPRINT,
    verify=verify_lemma9,
)
def _lemma9_check(context: Context, *, printed: bool = True, corrected: bool = True) -> Outcome:
    """The walk under time-varying rates.

    Source: fluid paper, Lemma 9 (appendix D)
    Statement: With X = Y − n_1, the walk reflected at n_k is at least the queue before segment k.
    Formula: W̃' = max{n_k, W̃ + X}, X = Y − n_1  ⇒  W̃^s ≥ W^s
    Summary: A slip of the index: segment k serves n_k.
    Correction: X = Y − n_k, as in Lemma 7 and as the proof goes on.
    """
    as_printed = refute(
        "X = Y − n_1",
        _made(context),
        _paths(context),
        verify_lemma9,
        lambda p: {"moved": list(p[0]), "first": p[1], "threshold": p[2]},
        holds=lambda p: walk_dominates(p, p[1] if printed else p[2]),
    )
    as_corrected = examine(
        "X = Y − n_k",
        _made(context),
        _paths(context),
        lambda p: walk_dominates(p, p[2] if corrected else p[1]),
    )
    return as_printed, as_corrected


#: ``n_{k−1}``, ``n_k``, ``P_k`` and s.
Walk = tuple[int, int, Fraction, int]


def laws_of(walk: Walk, *, sums: int) -> tuple[ExactLaw, ExactLaw]:
    """Return the laws of ``W̃^{s+1}`` and of ``n_k + max{0, S^1, ..., S^sums}``."""
    before, threshold, share, s = walk
    weights = binomial(before, share)
    weighed = [
        (moved, prod((weights[y] for y in moved), start=Fraction(1)))
        for moved in product(weights, repeat=s + 1)
    ]
    reached = gathered((reflected_path(x, threshold, threshold)[-1], p) for x, p in weighed)
    most = gathered(
        (threshold + max(0, *accumulate(y - threshold for y in x[:sums]), 0), p)
        for x, p in weighed
    )
    return reached, most


def drifts_down(walk: Walk) -> bool:
    """Whether ``n_{k−1} > n_k > n_{k−1}P_k``, of appendix C."""
    before, threshold, share, _ = walk
    return 0 < share < 1 and before > threshold > before * share


def verify_maximum(data: Data) -> str | None:
    """Confirm that ``W̃^{s+1}`` is not ``n_k + max{0, S^1, ..., S^s}`` in law."""
    walk: Walk = (data["before"], data["threshold"], Fraction(*data["share"]), data["s"])
    before, threshold, share, s = walk
    if not drifts_down(walk) or not 0 <= s <= 3 or before > 4:
        return None
    reached, most = laws_of(walk, sums=s)
    if reached == most:
        return None
    more, printed = (
        sum((chance for value, chance in law.items() if value > threshold), Fraction(0))
        for law in (reached, most)
    )
    return (
        f"n_(k−1) = {before}, n_k = {threshold}, P_k = {share}: W̃^{s + 1} exceeds n_k with "
        f"probability {more}, the printed maximum of {s} sums with probability {printed}"
    )


@CLAIMS.step(
    "fluid.lemma7-maximum",
    Mutation("one sum less in the correction", late=1),
    hypotheses=BINOMIAL,
    kind=Kind.IDENTITY,
    defect=Defect.MISPRINT,
    verify=verify_maximum,
)
def _maximum_check(context: Context, *, late: int = 0) -> Outcome:
    """The walk as a maximum of partial sums.

    Source: fluid paper, proof of Theorem 2 (appendix C), after Lemma 7
    Statement: The walk is equivalent to n_k plus the largest of 0 and the sums of X^1 to X^i, i ≤
        s.
    Formula: W̃^{s+1} = n_k + max{0, S^1, ..., S^s}
    Summary: In law, not path by path: the steps are reversed. The printed index is one step
        behind.
    Reading: 'equivalent' as equal in law; path by path it fails in either form.
    Correction: W̃^s = n_k + max{0, S^1, ..., S^s} in law; bounds for every s are the same.
    """
    cases: list[Walk] = [
        (before, n, share, s) for before in (2, 3) for n in range(1, before)
        for share in (Fraction(1, 4), Fraction(1, 2)) for s in range(context.choose(3, 4, 5))
    ]  # fmt: skip

    def agree(walk: Walk, sums: int) -> bool:
        reached, most = laws_of(walk, sums=sums)
        return reached == most

    printed = refute(
        "W̃^{s+1} = n_k + max{0, S^1, ..., S^s}",
        "small n, P = 1/4 and 1/2, all transfers; in fractions",
        cases,
        verify_maximum,
        lambda c: {
            "before": c[0],
            "threshold": c[1],
            "share": list(c[2].as_integer_ratio()),
            "s": c[3],
        },
        holds=lambda c: agree(c, c[3]),
        applies=drifts_down,
    )
    corrected = examine(
        "W̃^s = n_k + max{0, S^1, ..., S^s}",
        "the same",
        cases,
        lambda c: agree(c, c[3] + 1 - late),
        drifts_down,
    )
    return printed, corrected
