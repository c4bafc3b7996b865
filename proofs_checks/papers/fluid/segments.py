"""Queues between segments: the exponent θ (Lemma 8), dominating walks (Lemmas 7, 9), tails."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import accumulate, pairwise, product
from math import exp, log, prod

import numpy as np

from formulations.arrays import FloatArray
from formulations.thresholds import drift_exponent
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Findings, Outcome, dismiss_if, verifier
from proofs_checks.papers.fluid.equilibrium import printed_exponent_bound
from proofs_checks.papers.fluid.queues import (
    MARGIN,
    binomial_law,
    poisson_law,
    queue_laws,
    queue_path,
    reflected_path,
    tail,
)
from proofs_checks.search import Domain, examine
from proofs_checks.statistics import ExactLaw, binomial, gathered

CLAIMS = Claims()


#: ``n_{k−1}``, ``n_k`` and ``P_k``.
Triple = tuple[int, int, Fraction]


def cumulant(triple: Triple, theta: float) -> float:
    """Return ``g(θ) = −θ n_k + n_{k−1} ln(1 − P + P e^θ)``; (16) defines its positive root."""
    before, threshold, share = triple
    p = float(share)
    # ln(1 − P + P e^θ) = θ + ln(P + (1 − P) e^{−θ}), which does not overflow.
    return before * (theta + log(p + (1 - p) * exp(-theta))) - theta * threshold


def triples(context: Context) -> Iterator[Triple]:
    """Yield every triple with ``n_{k−1} > n_k > n_{k−1} P`` up to a size, and random ones."""
    most = context.choose(7, 14, 30)
    shares = [Fraction(a, 8) for a in range(1, 8)]
    for before in range(2, most):
        for share in shares:
            yield from ((before, n, share) for n in range(1, before) if n > before * share)
    for _ in range(context.choose(20, 1000, 20_000)):
        before = int(context.rng.integers(2, 300))
        share = Fraction(int(context.rng.integers(1, 100)), 100)
        least = int(before * share) + 1
        if least < before:
            yield before, int(context.rng.integers(least, before)), share


def drift(triple: Triple) -> Fraction:
    """Return ``D = n_k − n_{k−1} P``."""
    before, threshold, share = triple
    return threshold - before * share


def _domain(context: Context) -> Domain[Triple]:
    """The domain of these triples."""
    return context.domain(
        f"all with n_(k−1) < {context.choose(7, 14, 30)}, P = 1/8 .. 7/8, and random ones "
        "below 300",
        list(triples(context)),
    )


_DRIFT = ("n_{k−1} > n_k > n_{k−1}P_k", "0 < P_k < 1")


@CLAIMS.result(
    "fluid.lemma8",
    Mutation("9 in place of 8", factor=9),
    Mutation("n_k from 1 on, no drift", from_zero=True),
    hypotheses=_DRIFT,
)
def _lemma8_check(context: Context, *, factor: int = 8, from_zero: bool = False) -> Outcome:
    """The exponent of a queue between segments.

    Source: fluid paper, Lemma 8 and (16), (18) (appendices C and E.5)
    Statement: (16) has exactly one positive root θ_k; it increases with n_k − n_{k−1}P_k and is at
        least 8(n_k − n_{k−1}P_k)/n_{k−1}.
    Formula: e^{−θ n_k}(1 − P_k + P_k e^θ)^{n_{k−1}} = 1  ⇒  θ ≥ 8(n_k − n_{k−1}P_k)/n_{k−1}
    Summary: The sign of g decides, so that no root needs to be computed to many digits.
    """
    domain = _domain(context)

    def has_one_root(triple: Triple) -> bool:
        theta = drift_exponent(*triple)
        below = all(cumulant(triple, theta * t) < 0 for t in (0.01, 0.3, 0.7, 0.99))
        return below and all(cumulant(triple, theta * t) > 0 for t in (1.01, 1.5, 3))

    def bounded(triple: Triple) -> bool:
        # θ exceeds a number iff g is not positive there.
        return cumulant(triple, float(factor * drift(triple) / triple[0])) <= MARGIN

    def increases(before: int, share: Fraction) -> bool:
        least = 1 if from_zero else int(before * share) + 1
        some = range(least, before, max(1, (before - least) // 6))
        thetas = [drift_exponent(before, n, share) for n in some]
        return all(a < b for a, b in pairwise(thetas))

    roots = domain.examine("(16) has one positive root", has_one_root)
    lower = domain.examine("θ ≥ 8(n_k − n_{k−1}P)/n_{k−1}, (18)", bounded)
    grows = examine(
        "θ increases with n_k",
        domain.made,
        sorted({(b, p) for b, _, p in domain.instances}),
        increases,
    )
    small = (1000, 501, Fraction(1, 2))
    approximate = 2 * float(drift(small)) / (1000 * 0.25)
    return Findings(
        roots,
        lower,
        grows,
        numbers={
            "θ at (4, 3, 1/2)": drift_exponent(4, 3, Fraction(1, 2)),
            "θ over 2D/(n_{k−1}P(1−P)) at (1000, 501, 1/2)": drift_exponent(*small) / approximate,
        },
    )


@verifier
def verify_bound(before: int, threshold: int, share: list[int]) -> str:
    """Confirm that θ is below Theorem 2's bound."""
    p = Fraction(*share)
    dismiss_if(not 0 < p < 1 or not before > threshold > before * p)
    bound = printed_exponent_bound(before, threshold, p)
    dismiss_if(cumulant((before, threshold, p), float(bound)) <= MARGIN)
    return (
        f"n_(k−1) = {before}, n_k = {threshold}, P = {p}: g({float(bound):.4f}) > 0, so θ = "
        f"{drift_exponent(before, threshold, p):.4f} is below 8(n_k − n_(k−1)P)/n_k = "
        f"{float(bound):.4f}"
    )


@CLAIMS.result(
    "fluid.theorem2-exponent",
    Mutation("both denominators swapped", swapped=True),
    hypotheses=_DRIFT,
    defect=Defect.MISPRINT,
    verify=verify_bound,
)
def _bound_check(context: Context, *, swapped: bool = False) -> Outcome:
    """Lower bound on θ in the theorems.

    Source: fluid paper, Theorems 2 and 4 (sections 5.2 and 7.2)
    Statement: θ_j is at least 8(n_j − n_{j−1}p_j)/n_j.
    Formula: θ_j ≥ 8(n_j − n_{j−1}p_j)/n_j
    Summary: A bound that is too large makes the memory of (12) too small.
    Correction: The denominator is n_{j−1}, as Lemma 8 and (18) have it.
    """
    domain = _domain(context)

    def over(triple: Triple, denominator: int) -> bool:
        return cumulant(triple, float(8 * drift(triple) / denominator)) <= MARGIN

    printed = domain.refute(
        "θ_k ≥ 8(n_k − n_{k−1}P)/n_k", holds=lambda t: over(t, t[0] if swapped else t[1])
    )
    corrected = domain.examine(
        "θ_k ≥ 8(n_k − n_{k−1}P)/n_{k−1}", lambda t: over(t, t[1] if swapped else t[0])
    )
    return printed, corrected


@CLAIMS.step(
    "fluid.eq17", Mutation("the smallest p in place of it", largest=False), hypotheses=_DRIFT
)
def _eq17_check(context: Context, *, largest: bool = True) -> Outcome:
    """The exponent under time-varying rates.

    Source: fluid paper, eq. (17) and after it (appendix D)
    Statement: Of all p_j(s), the largest gives the smallest θ_j, which serves for all.
    Formula: p* = max_s p(s)  ⇒  θ(p*) = min_s θ(p(s)),  E[e^{θ(p*)X^s}] ≤ 1
    Summary: So e^{θS} is a supermartingale, which is all that Doob's inequality needs.
    Reading: the printed 'p* = argmin {n_j − p_j n_{j−1}}' means the largest p that occurs.
    """

    def holds(before: int, threshold: int, shares: tuple[Fraction, ...]) -> bool:
        star = drift_exponent(before, threshold, max(shares) if largest else min(shares))
        # With θ* every transfer's generating function is at most 1.
        return all(cumulant((before, threshold, p), star) <= MARGIN for p in shares) and all(
            star <= drift_exponent(before, threshold, p) for p in shares
        )

    domain = _domain(context)
    return examine(
        "the largest p gives the smallest θ, and E[e^{θX}] ≤ 1 for all p",
        domain.made,
        [
            (before, threshold, tuple(share * Fraction(k, 4) for k in (1, 2, 3, 4)))
            for before, threshold, share in domain.instances
        ],
        holds,
    )


# Walks that dominate queues between segments (Lemmas 7 and 9).


QUEUE = ("W' = W + Y − n_k·1{W + Y ≥ n_k}", "steps are batches with segment k − 1")
BINOMIAL = (*QUEUE, "Y independent Binomial(n_{k−1}, P_k)", "n_{k−1} > n_k > n_{k−1}P_k")


#: Transfers of each step, ``n_{k−1}`` and ``n_k``.
Path = tuple[tuple[int, ...], int, int]


def _paths(context: Context) -> Domain[Path]:
    """Yield all short sequences of small transfer numbers."""
    steps, below = context.choose((5, 4), (6, 5), (7, 6))
    return context.domain(
        f"every sequence of {steps} transfers, n_(k−1) below {below}",
        (
            (moved, before, threshold)
            for before in range(2, below)
            for threshold in range(1, before + 1)
            for moved in product(range(before + 1), repeat=steps)
        ),
    )


@CLAIMS.result("fluid.lemma7", Mutation("reflected at 0", base=0), hypotheses=QUEUE)
def _lemma7_check(context: Context, *, base: int = 1) -> Outcome:
    """A reflected walk dominates a segment's queue.

    Source: fluid paper, Lemma 7 (appendices C and E.4)
    Statement: The walk reflected at n_k is at least the queue before segment k.
    Formula: W̃^0 = n_k, W̃' = max{n_k, W̃ + Y − n_k}  ⇒  W̃^s ≥ W^s
    Summary: Path by path, whatever is moved.
    """
    return _paths(context).examine(
        "W̃_k^s ≥ W_k^s for all s",
        lambda moved, _, threshold: walk_dominates(moved, threshold, threshold, base),
    )


def walk_dominates(moved: Sequence[int], threshold: int, service: int, base: int = 1) -> bool:
    """Whether the walk with ``X = Y − service``, reflected at ``base·n_k``, is above the queue."""
    walk = reflected_path(moved, service, base * threshold)
    return all(v >= w for v, w in zip(walk, queue_path(moved, threshold), strict=True))


@verifier
def verify_lemma9(moved: list[int], first: int, threshold: int) -> str:
    """Confirm that the walk with ``X = Y − n_1`` falls below the queue."""
    dismiss_if(
        min(first, threshold) < 1 or min(moved, default=0) < 0 or max(moved, default=0) > first
    )
    # Segment 2 follows segment 1: (10) requires n_2 > p·n_1, which holds for some p < 1.
    dismiss_if(threshold > first or walk_dominates(moved, threshold, first))
    queue = queue_path(moved, threshold)
    walk = reflected_path(moved, first, threshold)
    return f"transfers {moved}: W = {queue}, W̃ = {walk} with X = Y − {first}"


@CLAIMS.result(
    "fluid.lemma9",
    Mutation("n_k as printed", printed=False),
    Mutation("n_1 in the correction", corrected=False),
    hypotheses=(*QUEUE, "the numbers of transfers have any distribution"),
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
    as_printed = _paths(context).refute(
        "X = Y − n_1",
        holds=lambda moved, first, own: walk_dominates(moved, own, first if printed else own),
    )
    as_corrected = _paths(context).examine(
        "X = Y − n_k",
        lambda moved, first, own: walk_dominates(moved, own, own if corrected else first),
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


def drifts_down(before: int, threshold: int, share: Fraction, _: int) -> bool:
    """Return whether ``n_{k−1} > n_k > n_{k−1}P_k``, of appendix C."""
    return 0 < share < 1 and before > threshold > before * share


@verifier
def verify_maximum(before: int, threshold: int, share: list[int], s: int) -> str:
    """Confirm that ``W̃^{s+1}`` is not ``n_k + max{0, S^1, ..., S^s}`` in law."""
    walk = before, threshold, Fraction(*share), s
    dismiss_if(not drifts_down(*walk) or not 0 <= s <= 3 or before > 4)
    reached, most = laws_of(walk, sums=s)
    dismiss_if(reached == most)
    more, printed = (
        sum((chance for value, chance in law.items() if value > threshold), Fraction(0))
        for law in (reached, most)
    )
    return (
        f"n_(k−1) = {before}, n_k = {threshold}, P_k = {walk[2]}: W̃^{s + 1} exceeds n_k with "
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

    printed = context.refute(
        "W̃^{s+1} = n_k + max{0, S^1, ..., S^s}",
        "small n, P = 1/4 and 1/2, all transfers; in fractions",
        cases,
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


# Queues between segments: their tails.


def _laws(triple: Triple, steps: int) -> list[FloatArray]:
    before, threshold, share = triple
    return list(queue_laws([binomial_law(before, float(share))] * steps, threshold))


@CLAIMS.step(
    "fluid.theorem2-tail",
    Mutation("the queue before the decision, W + Y", before_service=True),
    Mutation("three times the exponent", faster=3),
    hypotheses=BINOMIAL,
)
def _tail_check(context: Context, *, before_service: bool = False, faster: float = 1) -> Outcome:
    """Tail of the queue before a segment.

    Source: fluid paper, proof of Theorem 2 (appendix C), after Lemma 8
    Statement: At least c wait before segment k with probability at most e^{−θ_k(c − n_k)}.
    Formula: P(W_k^s ≥ c) ≤ e^{−θ_k(c − n_k)}
    Summary: W is what is left after the decision about a batch with segment k − 1.
    Reading: '<' in one place as '≤'; W after the decision, at batches with segment k − 1.
    """
    steps, below = context.choose(40, 200, 1000), context.choose(7, 12, 20)
    small = [triple for triple in triples(context) if triple[0] < below]

    def holds(triple: Triple) -> bool:
        theta, threshold = faster * drift_exponent(*triple), triple[1]
        arrival = binomial_law(triple[0], float(triple[2]))
        for law in _laws(triple, steps):
            seen = np.convolve(law, arrival) if before_service else law
            tails = tail(seen)
            # A bound above 1 is trivial.
            bounds = np.exp(np.minimum(theta * (threshold - np.arange(len(tails))), 0.0))
            if (tails > bounds + MARGIN).any():
                return False
        return True

    seen = examine(
        "P(W_k^s ≥ c) ≤ e^{−θ_k(c − n_k)} for every c and s",
        f"all n_(k−1)·P < n_k < n_(k−1) < {below} with P in eighths (at quick effort every "
        f"third), some with P in hundredths; s up to {steps}; laws by convolution",
        small[:: context.choose(3, 1, 1)],
        holds,
    )
    law = _laws((4, 3, Fraction(1, 2)), 60)[-1]
    return Findings(
        seen,
        numbers={
            "P(W ≥ 4) at (4, 3, 1/2)": float(tail(law)[4:5].sum()),
            "its bound": exp(-drift_exponent(4, 3, Fraction(1, 2))),
        },
    )


# Queues of segment 1, with the arrivals of longer batches (appendices C and D).


def longer_dominate(arrivals: Sequence[Sequence[int]], threshold: int, *, reflected: bool) -> bool:
    """Whether the queue stays below that with more arrivals, or below its reflected walk."""
    few, many = arrivals
    above = (
        reflected_path(many, threshold, 2 * threshold)
        if reflected
        else queue_path(many, threshold)
    )
    return all(w <= v for w, v in zip(queue_path(few, threshold), above, strict=True))


@verifier
def verify_domination(arrivals: list[list[int]], threshold: int) -> str:
    """Confirm that a queue with fewer arrivals exceeds the one with more."""
    few, many = (tuple(row) for row in arrivals)
    dismiss_if(not few or len(few) != len(many) or threshold < 1 or min(few) < 0)
    dismiss_if(any(a > b for a, b in zip(few, many, strict=True)))
    dismiss_if(longer_dominate(arrivals, threshold, reflected=False))
    return (
        f"n_1 = {threshold}, Y = {list(few)} ≤ Ȳ = {list(many)}: W = "
        f"{queue_path(few, threshold)}, W̄ = {queue_path(many, threshold)}"
    )


def mean_after_one(threshold: int, rate: float) -> float:
    """Return ``E[W^1] = E[Y − n·1{Y ≥ n}]`` with Y Poisson."""
    law = poisson_law(rate)
    numbers = np.arange(len(law))
    return float(law @ np.where(numbers >= threshold, numbers - threshold, numbers))


@CLAIMS.step(
    "fluid.theorem2-domination",
    Mutation("the reflected walk as printed", reflected=True),
    Mutation("the queue in the correction", still_queue=True),
    defect=Defect.FORMULA,
    verify=verify_domination,
)
def _domination_check(
    context: Context, *, reflected: bool = False, still_queue: bool = False
) -> Outcome:
    """Longer batches in the first segment.

    Source: fluid paper, proof of Theorem 2 (appendix C), and of Theorem 3 (appendix D): W ≤ W̄
    Statement: With the arrivals of the longest batch in place of its own, the queue of segment 1
        becomes a process that dominates it.
    Formula: Y^s ≤ Ȳ^s, W' = W + Y − n_1·1{W + Y ≥ n_1}, W̄ likewise with Ȳ  ⇒  W^s ≤ W̄^s
    Assumes: W^0 = W̄^0 = 0; Y^s ≤ Ȳ^s: batches last ΔT at most
    Summary: One arrival more may complete a cohort. The means do not obey either: with n_1 = 6 a
        first batch that sees 4 come on average leaves more than one that sees 5.
    Reading: path by path, as the chain of inequalities in appendix D has it.
    Correction: The reflected walk max{2n_1, W̃ + Ȳ − n_1} dominates both: it is monotone in what
        comes. The proof needs no more, so that its bounds stand; only the link by W̄ is to be left
        out.
    """
    steps = context.choose(2, 3, 4)
    cases = [
        ((few, many), threshold)
        for threshold in (1, 2, 3)
        for few in product(range(4), repeat=steps)
        for many in product(range(4), repeat=steps)
        if all(a <= b for a, b in zip(few, many, strict=True))
    ]
    domain = context.domain(
        f"every pair of sequences of {steps} arrivals up to 3, n_1 = 1, 2, 3", cases
    )
    shorter, longer = (mean_after_one(6, rate) for rate in (4.0, 5.0))
    printed = domain.refute("W ≤ W̄", holds=partial(longer_dominate, reflected=reflected))
    corrected = domain.examine(
        "W ≤ the walk reflected at 2n_1 with Ȳ",
        partial(longer_dominate, reflected=not still_queue),
    )
    return Findings(
        printed,
        corrected,
        numbers={"E[W^1], n_1 = 6, 4 come": shorter, "E[W̄^1], n_1 = 6, 5 come": longer},
    )
