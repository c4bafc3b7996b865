"""Subset choice by a few reachable sums (appendix D.4), and cases where two probes are exact."""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from typing import Any

from bfio.step.two_stage.fscore import ScoreWeights, right_end, score
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Examination, Findings, Outcome, dismiss_if, verifier
from proofs_checks.runs import multisets
from proofs_checks.search import examine

CLAIMS = Claims()


#: Bits of a machine word.
_WORD = 64


def masks(sizes: Sequence[int], slots: int, *, upwards: bool = False) -> tuple[list[int], int]:
    """Return bit sets of the sums by cardinality 0..slots, and the shift-ORs they took."""
    reached, operations = [1] + [0] * slots, 0
    counts = range(1, slots + 1)
    for size in sizes:
        for c in counts if upwards else reversed(counts):
            reached[c] |= reached[c - 1] << size
            operations += 1
    return reached, operations


def enumerated(sizes: Sequence[int], slots: int) -> list[int]:
    """Return the sums by cardinality, by enumerating all subsets."""
    return [sum({1 << sum(chosen) for chosen in combinations(sizes, c)}) for c in range(slots + 1)]


def word_operations(candidates: int, slots: int, largest: int) -> int:
    """Return ``K·cap·⌈(cap·s_max + 1)/w⌉``."""
    return candidates * slots * -(-(slots * largest + 1) // _WORD)


@CLAIMS.remark(
    "route.subset-cost",
    Mutation("scanned upwards, so that a candidate counts twice", upwards=True),
    Mutation("one cardinality fewer in the cost", fewer=1),
)
def _check(context: Context, *, upwards: bool = False, fewer: int = 0) -> Outcome:
    """Reachable sums by bit sets.

    Source: BalanceRoute paper, appendix D.4, recurrence and cost
    Statement: One shift-OR per candidate and cardinality, scanned downwards, gives all reachable
        sums; in word operations this is exponentially less than enumeration in K, and exact.
    Formula: mask[c] |= mask[c − 1] << s, c = cap..1;  K·cap·⌈(cap·s_max + 1)/w⌉ words
    Assumes: sizes are positive integers up to s_max
    Summary: Exact, each candidate used once. The cost does not grow exponentially in K, but with
        s_max: for 8 slots and prompts up to 4,096 tokens 2^K subsets are fewer up to K of about
        16, where the paper enumerates indeed.
    Reading: the printed formula of the cost is lost in the text at hand; this is the one of its
        words.
    """
    count, largest = context.choose((5, 4), (6, 5), (8, 6))
    cases = [
        (sizes, slots)
        for n in range(1, count + 1)
        for sizes in multisets(n, largest)
        for slots in range(1, n + 1)
    ]
    domain = context.domain(
        f"all pools of up to {count} sizes in 1..{largest}, all numbers of slots", cases
    )
    exact = domain.examine(
        "the bit sets hold the sums of all subsets, by cardinality",
        lambda *case: masks(*case, upwards=upwards)[0] == enumerated(*case)
    )  # fmt: skip
    cost = domain.examine(
        "K·cap shift-ORs, none on more than cap·s_max + 1 bits",
        lambda sizes, cap: masks(sizes, cap)[1] == len(sizes) * (cap - fewer)
        and max(mask.bit_length() for mask in masks(sizes, cap)[0]) <= cap * largest + 1
    )  # fmt: skip
    numbers = {
        f"word operations over 2^K, K = {K}, cap = 8, s_max = 4096": word_operations(K, 8, 4096)
        / 2.0**K
        for K in (8, 16, 32, 64)
    }
    return Findings(exact, cost, numbers=numbers)


# Subset choice by a few reachable sums (appendix D.4), and cases where two probes are exact.


def reachable_sums(sizes: Sequence[int], capacity: int) -> list[int]:
    """Return the sums of 1 to ``capacity`` sizes, in increasing order."""
    return sorted({sum(s) for c in range(1, capacity + 1) for s in combinations(sizes, c)})


def best_near(
    points: Iterable[int | None],
    sizes: Sequence[int],
    capacity: int,
    margins: Sequence[int],
    weights: ScoreWeights,
    probes: int = 2,
) -> int:
    """Best score of the reachable sums next to each point: largest up to it, smallest above it.

    Parameters
    ----------
    points : iterable of int or None
        Points to probe; None is infinity.
    sizes, margins : sequence of int
        Sizes of the candidates, and safe margins of the worker over the window.
    capacity : int
        Free slots.
    weights : ScoreWeights
        Rewards and penalties with discounts.
    probes : int
        2, or 1 for the lower probe alone.
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
    """Return the best score of the sums next to the right end of the maximising interval."""
    peak = right_end(margins, [0] * len(margins), weights)
    return best_near([peak], sizes, capacity, margins, weights, probes)


def best_by_enumeration(
    sizes: Sequence[int], capacity: int, margins: Sequence[int], weights: ScoreWeights
) -> int:
    """Return the best score of all non-empty subsets of up to ``capacity`` requests."""
    return max(
        score([sum(s)] * len(margins), margins, weights)
        for c in range(1, capacity + 1)
        for s in combinations(sizes, c)
    )


def choices(context: Context, look_ahead: int) -> Iterator[tuple[list[int], int, list[int], int]]:
    """Yield random sizes, capacities, margins and penalties."""
    rng = context.rng
    for _ in range(context.choose(150, 1500, 20_000)):
        sizes = rng.integers(1, 15, int(rng.integers(1, 6))).tolist()
        margins = rng.integers(0, 30, int(rng.integers(0, look_ahead + 1)) + 1).tolist()
        yield sizes, int(rng.integers(1, len(sizes) + 1)), margins, int(rng.integers(1, 5))


def discounted(margins: Sequence[int], beta: int) -> ScoreWeights:
    """Return weights with α = 1 and decreasing discounts over the window."""
    return ScoreWeights.of(Fraction(1), Fraction(beta), [8 - h for h in range(len(margins))])


_MADE = (
    "random sizes, capacities, margins over windows up to H = {}, penalties 1 to 4; all subsets"
)


def _two_probes(context: Context, probes: int, look_ahead: int) -> Examination[Any]:
    """Compare the best of the probed sums next to the peak with all subsets."""
    return examine(
        "the better of two reachable sums is the best subset",
        _MADE.format(look_ahead),
        choices(context, look_ahead),
        lambda sizes, cap, margins, beta: (
            best_by_probes(sizes, cap, margins, discounted(margins, beta), probes)
            == best_by_enumeration(sizes, cap, margins, discounted(margins, beta))
        ),
    )


@CLAIMS.remark("route.two-probes", Mutation("the lower probe alone", probes=1))
def _br_0_check(context: Context, *, probes: int = 2) -> Outcome:
    """Two probes are exact for BR-0.

    Source: BalanceRoute paper, appendix D.4
    Statement: For BR-0 the score has a single kink, and the better of the largest reachable sum up
        to the margin and the smallest one above it is the best subset.
    Formula: max_S F(S, g) = max{F(Δ⁻), F(Δ⁺)}
    Assumes: H = 0
    Summary: The score is concave in Δ: no sum below the largest one up to its peak is better, none
        above the next one either.
    """
    return _two_probes(context, probes, 0)


@CLAIMS.remark("route.margin-probes", Mutation("the smallest margin only", kept=1))
def _margins_check(context: Context, *, kept: int | None = None) -> Outcome:
    """Probing BR-H around every margin.

    Source: BalanceRoute paper, appendix D.4
    Statement: For BR-H the score has up to H + 1 kinks; a subset choice by reachable sums is exact
        if it probes around every distinct margin of the window.
    Formula: max_S F_H(S, g) = max over h of max{F_H(Δ⁻(h)), F_H(Δ⁺(h))},  Δ⁻(h) ≤ m_g(h) < Δ⁺(h)
    Assumes: contributions constant over the window; β ≥ α
    Summary: The score is piecewise linear with kinks at the margins only, so one of them is its
        peak. Which one can be told beforehand: two probes do (own.kinks).
    Reading: with β ≥ α, as in all of the paper's settings: otherwise overflow is rewarded, and the
        largest sum of all is best.
    """
    return examine(
        "the best of the reachable sums next to all margins is the best subset",
        _MADE.format(4),
        choices(context, 4),
        lambda sizes, cap, margins, beta: (
            best_near(sorted(set(margins))[:kept], sizes, cap, margins, discounted(margins, beta))
            == best_by_enumeration(sizes, cap, margins, discounted(margins, beta))
        ),
    )


# Two probes around the margin of the current step.


def _unit(margins: list[int]) -> ScoreWeights:
    return ScoreWeights.of(Fraction(1), Fraction(2), (1,) * len(margins))


@verifier
def verify_kinks(sizes: list[int], margins: list[int]) -> str:
    """Confirm that two probes around the first margin miss the best subset."""
    # With margins of 0 there is nothing to fill; positive ones are enough.
    dismiss_if(not sizes or min(sizes) < 1 or not margins or min(margins) < 1 or len(sizes) > 10)
    best = best_by_enumeration(sizes, len(sizes), margins, _unit(margins))
    probed = best_near(margins[:1], sizes, len(sizes), margins, _unit(margins))
    dismiss_if(probed >= best)
    return (
        f"β = 2, margins {margins}, reachable sums {reachable_sums(sizes, len(sizes))}: probes "
        f"around m(0) = {margins[0]} score {probed}, the best subset {best}"
    )


def _cases(context: Context, look_ahead: int) -> Iterator[tuple[list[int], list[int]]]:
    largest = context.choose(4, 5, 7)
    for n in (1, 2):
        for sizes in product(range(1, largest), repeat=n):
            for length in range(1, look_ahead + 1):
                for margins in product(range(1, largest), repeat=length):
                    yield list(sizes), list(margins)


@CLAIMS.own(
    "own.kinks",
    Mutation("one step only, H = 0", look_ahead=1),
    Mutation("the lower probe alone in the correction", probes=1),
    defect=Defect.INFERENCE,
    verify=verify_kinks,
)
def _kink_check(context: Context, *, look_ahead: int = 3, probes: int = 2) -> Outcome:
    """Probing BR-H where BR-0 is probed.

    Source: BalanceRoute paper, appendix D.4 (our question; the paper claims the rule for BR-0
        only)
    Statement: The two-probe rule that is exact for BR-0, around the margin of the current step, is
        exact for BR-H.
    Formula: max_S F_H(S, g) = max{F_H(Δ⁻), F_H(Δ⁺)} around m_g(0)
    Assumes: contributions constant over the window; margins m_g(h) ≥ 1
    Summary: Several kinks leave the score concave; only the place to probe moves.
    Correction: Around the right end D* of the maximising interval of F_H two probes are exact: the
        score is concave in Δ, so that no sum below the largest one up to D* is better, and none
        above the next one either. The paper enumerates subsets for BR-H, or probes around every
        margin (route.margin-probes); both are exact, neither is needed.
    """
    cases = list(_cases(context, look_ahead))
    domain = context.domain(
        f"up to two requests of small sizes, small margins over {look_ahead} steps, α = 1, β = 2",
        cases,
    )
    printed = domain.refute("probes around the first margin find the best subset")
    corrected = domain.examine(
        "probes around the right end of the maximising interval do",
        lambda sizes, margins: best_by_probes(sizes, len(sizes), margins, _unit(margins), probes)
        == best_by_enumeration(sizes, len(sizes), margins, _unit(margins))
    )  # fmt: skip
    return printed, corrected, _two_probes(context, probes, 4)
