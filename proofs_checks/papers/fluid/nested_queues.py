"""Lemmas 7 and 9, and the queues between the segments of Nested WAIT (appendices C and D)."""

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import accumulate, product
from math import comb, exp, prod

import numpy as np

from formulations.arrays import FloatArray
from formulations.thresholds import drift_exponent
from proofs_checks.claim import Claim, Context, Kind, Mutation
from proofs_checks.evidence import Data, Evidence
from proofs_checks.papers.fluid.exponents import Triple, triples
from proofs_checks.papers.fluid.queues import (
    binomial_law,
    mean_path,
    queue_laws,
    queue_path,
    reflected_path,
    tail,
)
from proofs_checks.search import corrected_evidence, evidence_of, examine

_MARGIN = 1e-9


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


def _lemma7_check(context: Context, *, base: int = 1) -> Evidence:
    def holds(path: Path) -> bool:
        moved, _, threshold = path
        walk = reflected_path(moved, threshold, base * threshold)
        return all(v >= w for v, w in zip(walk, queue_path(moved, threshold), strict=True))

    seen = examine("W̃_k^s ≥ W_k^s for all s", _made(context), _paths(context), holds)
    return evidence_of(seen, "Path by path, whatever is moved.")


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


def _lemma9_check(context: Context, *, printed: bool = True, corrected: bool = True) -> Evidence:
    return corrected_evidence(
        examine(
            "X = Y − n_1", _made(context), _paths(context),
            lambda p: walk_dominates(p, p[1] if printed else p[2]),
        ),
        examine(
            "X = Y − n_k", _made(context), _paths(context),
            lambda p: walk_dominates(p, p[2] if corrected else p[1]),
        ),
        verify_lemma9,
        lambda p: {"moved": list(p[0]), "first": p[1], "threshold": p[2]},
        "A slip of the index: segment k serves n_k.",
    )  # fmt: skip


def laws_agree(before: int, threshold: int, share: Fraction, step: int, *, sums: int) -> bool:
    """Whether ``W̃^step`` is in law ``n_k + max{0, S^1, ..., S^sums}``."""
    weights = [comb(before, y) * share**y * (1 - share) ** (before - y) for y in range(before + 1)]
    walk: dict[int, Fraction] = {}
    most: dict[int, Fraction] = {}
    for moved in product(range(before + 1), repeat=step):
        chance = prod((weights[y] for y in moved), start=Fraction(1))
        end = reflected_path(moved, threshold, threshold)[-1]
        top = threshold + max(0, *accumulate(y - threshold for y in moved[:sums]), 0)
        walk[end] = walk.get(end, Fraction(0)) + chance
        most[top] = most.get(top, Fraction(0)) + chance
    return walk == most


def verify_maximum(data: Data) -> str | None:
    """Confirm that ``W̃^{s+1}`` is not ``n_k + max{0, S^1, ..., S^s}`` in law."""
    before, threshold, s = data["before"], data["threshold"], data["s"]
    if not before > threshold >= 1 or not 0 <= s <= 3 or before > 4:
        return None
    if laws_agree(before, threshold, Fraction(1, 2), s + 1, sums=s):
        return None
    return (
        f"n_(k−1) = {before}, n_k = {threshold}, p = 1/2: W̃^{s + 1} has {s + 1} steps behind "
        f"it, the maximum {s}, and their laws differ"
    )


def _maximum_check(context: Context, *, late: int = 0) -> Evidence:
    cases = [
        (before, n, s) for before in (2, 3) for n in range(1, before)
        for s in range(context.choose(3, 4, 5))
    ]  # fmt: skip
    share = Fraction(1, 2)
    return corrected_evidence(
        examine(
            "W̃^{s+1} = n_k + max{0, S^1, ..., S^s}",
            "small n, p = 1/2, all transfers; in fractions",
            cases,
            lambda c: laws_agree(c[0], c[1], share, c[2] + 1, sums=c[2]),
        ),
        examine(
            "W̃^s = n_k + max{0, S^1, ..., S^s}",
            "the same",
            cases,
            lambda c: laws_agree(c[0], c[1], share, c[2] + 1, sums=c[2] + 1 - late),
        ),
        verify_maximum,
        lambda c: dict(zip(("before", "threshold", "s"), c, strict=True)),
        "In law, not path by path: the steps are reversed. The printed index is one step behind.",
    )


def _small(context: Context) -> list[Triple]:
    chosen = [t for t in triples(context) if t[0] < context.choose(7, 12, 20)]
    return chosen[:: context.choose(3, 1, 1)]


def _laws(triple: Triple, steps: int) -> list[FloatArray]:
    before, threshold, share = triple
    return list(queue_laws([binomial_law(before, float(share))] * steps, threshold))


def _means_check(context: Context, *, part: float = 1) -> Evidence:
    steps = context.choose(60, 300, 2000)

    def holds(triple: Triple) -> bool:
        before, threshold, share = triple
        variance = before * share * (1 - share)
        bound = threshold + float(variance / (2 * (threshold - before * share)))
        return max(mean_path(_laws(triple, steps))) <= part * bound + _MARGIN

    seen = examine(
        "E[W_k^s] ≤ n_k + n_{k−1}P(1−P)/(2(n_k − n_{k−1}P))",
        f"all small n_(k−1), n_k, P; s up to {steps}; laws by convolution", _small(context), holds,
    )  # fmt: skip
    return evidence_of(seen, "Kingman's inequality, with room for the n_k of the dominator.")


def _tail_check(context: Context, *, before_service: bool = False, faster: float = 1) -> Evidence:
    steps = context.choose(40, 200, 1000)

    def holds(triple: Triple) -> bool:
        theta, threshold = faster * drift_exponent(*triple), triple[1]
        arrival = binomial_law(triple[0], float(triple[2]))
        for law in _laws(triple, steps):
            seen = np.convolve(law, arrival) if before_service else law
            tails = tail(seen)
            bounds = np.exp(-theta * (np.arange(len(tails)) - threshold))
            if (tails > bounds + _MARGIN).any():
                return False
        return True

    seen = examine(
        "P(W_k^s ≥ c) ≤ e^{−θ_k(c − n_k)} for every c and s",
        f"all small n_(k−1), n_k, P; s up to {steps}; laws by convolution", _small(context), holds,
    )  # fmt: skip
    law = _laws((4, 3, Fraction(1, 2)), 60)[-1]
    return evidence_of(
        seen, "W is what is left after the decision about a batch with segment k − 1.",
        **{
            "P(W ≥ 4) at (4, 3, 1/2)": float(tail(law)[4:5].sum()),
            "its bound": exp(-drift_exponent(4, 3, Fraction(1, 2))),
        },
    )  # fmt: skip


_APPENDIX = "WAIT paper, proof of Theorem 2 (appendix C)"


_QUEUE = ("W' = W + Y − n_k·1{W + Y ≥ n_k}", "steps are batches with segment k − 1")


_BINOMIAL = (*_QUEUE, "Y independent Binomial(n_{k−1}, P_k)", "n_k > n_{k−1}P_k")


CLAIMS = (
    Claim(
        id="fluid.lemma7",
        source="WAIT paper, Lemma 7 (appendices C and E.4)",
        title="A reflected walk dominates a segment's queue",
        statement="The walk reflected at n_k is at least the queue before segment k.",
        formula="W̃^0 = n_k, W̃' = max{n_k, W̃ + Y − n_k}  ⇒  W̃^s ≥ W^s",
        hypotheses=_QUEUE,
        kind=Kind.FINITE,
        check=_lemma7_check,
        mutations=(Mutation("reflected at 0", partial(_lemma7_check, base=0)),),
    ),
    Claim(
        id="fluid.lemma7-maximum",
        source=f"{_APPENDIX}, after Lemma 7",
        title="The walk as a maximum of partial sums",
        statement="The walk is equivalent to n_k plus the largest of 0 and the sums of X^1 to "
        "X^i, i ≤ s.",
        formula="W̃^{s+1} = n_k + max{0, S^1, ..., S^s}",
        hypotheses=_BINOMIAL,
        kind=Kind.IDENTITY,
        check=_maximum_check,
        mutations=(Mutation("one sum less in the correction", partial(_maximum_check, late=1)),),
        correction="W̃^s = n_k + max{0, S^1, ..., S^s} in law; bounds for every s are the same.",
        reading="'equivalent' as equal in law; path by path it fails in either form.",
        verify=verify_maximum,
    ),
    Claim(
        id="fluid.lemma9",
        source="WAIT paper, Lemma 9 (appendix D)",
        title="The walk under time-varying rates",
        statement="With X = Y − n_1, the walk reflected at n_k is at least the queue before "
        "segment k.",
        formula="W̃' = max{n_k, W̃ + X}, X = Y − n_1  ⇒  W̃^s ≥ W^s",
        hypotheses=(*_QUEUE, "transfers of any law"),
        kind=Kind.COUNTEREXAMPLE,
        check=_lemma9_check,
        mutations=(
            Mutation("n_k as printed", partial(_lemma9_check, printed=False)),
            Mutation("n_1 in the correction", partial(_lemma9_check, corrected=False)),
        ),
        correction="X = Y − n_k, as in Lemma 7 and as the proof goes on.",
        verify=verify_lemma9,
    ),
    Claim(
        id="fluid.theorem2-queues",
        source=_APPENDIX,
        title="Mean queue before a segment",
        statement="The mean queue before segment k is bounded by n_k plus Kingman's term.",
        formula="E[W_k] ≤ n_k + n_{k−1}P_k(1−P_k)/(2(n_k − n_{k−1}P_k))",
        hypotheses=_BINOMIAL,
        kind=Kind.FINITE,
        check=_means_check,
        mutations=(Mutation("a tenth of the bound", partial(_means_check, part=0.1)),),
    ),
    Claim(
        id="fluid.theorem2-tail",
        source=f"{_APPENDIX}, after Lemma 8",
        title="Tail of the queue before a segment",
        statement="At least c wait before segment k with probability at most e^{−θ_k(c − n_k)}.",
        formula="P(W_k^s ≥ c) ≤ e^{−θ_k(c − n_k)}",
        hypotheses=_BINOMIAL,
        kind=Kind.FINITE,
        check=_tail_check,
        mutations=(
            Mutation(
                "the queue before the decision, W + Y", partial(_tail_check, before_service=True)
            ),
            Mutation("three times the exponent", partial(_tail_check, faster=3)),
        ),
        reading="'<' in one place as '≤'; W after the decision, at batches with segment k − 1.",
    ),
)
