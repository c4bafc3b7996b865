"""Queues between segments: their means and tails."""

from fractions import Fraction
from math import exp

import numpy as np

from formulations.arrays import FloatArray
from formulations.thresholds import drift_exponent
from proofs_checks.claim import Claims, Context, Mutation
from proofs_checks.evidence import Findings, Outcome
from proofs_checks.papers.fluid.exponents import Triple, triples
from proofs_checks.papers.fluid.queues import (
    binomial_law,
    mean_path,
    queue_laws,
    tail,
)
from proofs_checks.papers.fluid.segment_walks import BINOMIAL
from proofs_checks.search import examine

CLAIMS = Claims()


_MARGIN = 1e-9


#: What n_{k−1} is below: quick, normal, deep.
_BELOW = (7, 12, 20)


def _small(context: Context) -> list[Triple]:
    small = [t for t in triples(context) if t[0] < context.choose(*_BELOW)]
    return small[:: context.choose(3, 1, 1)]


def _made(context: Context) -> str:
    return (
        f"all n_(k−1)·P < n_k < n_(k−1) < {context.choose(*_BELOW)} with P in eighths (at quick "
        "effort every third), some with P in hundredths"
    )


def _laws(triple: Triple, steps: int) -> list[FloatArray]:
    before, threshold, share = triple
    return list(queue_laws([binomial_law(before, float(share))] * steps, threshold))


@CLAIMS.step(
    "fluid.theorem2-queues", Mutation("a tenth of the bound", part=0.1), hypotheses=BINOMIAL
)
def _means_check(context: Context, *, part: float = 1) -> Outcome:
    """Mean queue before a segment.

    Source: fluid paper, proof of Theorem 2 (appendix C)
    Statement: The mean queue before segment k is bounded by n_k plus Kingman's term.
    Formula: E[W_k] ≤ n_k + n_{k−1}P_k(1−P_k)/(2(n_k − n_{k−1}P_k))
    Summary: Kingman's inequality, with room for the n_k of the dominator.
    """
    steps = context.choose(60, 300, 2000)

    def holds(triple: Triple) -> bool:
        before, threshold, share = triple
        variance = before * share * (1 - share)
        bound = threshold + float(variance / (2 * (threshold - before * share)))
        return max(mean_path(_laws(triple, steps))) <= part * bound + _MARGIN

    return examine(
        "E[W_k^s] ≤ n_k + n_{k−1}P(1−P)/(2(n_k − n_{k−1}P))",
        f"{_made(context)}; s up to {steps}; laws by convolution",
        _small(context),
        holds,
    )


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
    steps = context.choose(40, 200, 1000)

    def holds(triple: Triple) -> bool:
        theta, threshold = faster * drift_exponent(*triple), triple[1]
        arrival = binomial_law(triple[0], float(triple[2]))
        for law in _laws(triple, steps):
            seen = np.convolve(law, arrival) if before_service else law
            tails = tail(seen)
            # Above 1 a bound says nothing.
            bounds = np.exp(np.minimum(theta * (threshold - np.arange(len(tails))), 0.0))
            if (tails > bounds + _MARGIN).any():
                return False
        return True

    seen = examine(
        "P(W_k^s ≥ c) ≤ e^{−θ_k(c − n_k)} for every c and s",
        f"{_made(context)}; s up to {steps}; laws by convolution", _small(context), holds,
    )  # fmt: skip
    law = _laws((4, 3, Fraction(1, 2)), 60)[-1]
    return Findings(
        seen,
        numbers={
            "P(W ≥ 4) at (4, 3, 1/2)": float(tail(law)[4:5].sum()),
            "its bound": exp(-drift_exponent(4, 3, Fraction(1, 2))),
        },
    )
