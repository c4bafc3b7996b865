"""Lemmas 4 and 5: the mean of the largest partial sum, and the root that bounds it."""

from fractions import Fraction
from itertools import accumulate, product
from math import exp, lgamma, log, pi, prod, sqrt

from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Findings, Outcome
from proofs_checks.papers.fluid.lemmas import MARGIN, QUEUE
from proofs_checks.papers.fluid.queues import (
    mean_path,
    poisson_law,
    queue_laws,
    reflected_laws,
)
from proofs_checks.search import examine, refute

CLAIMS = Claims()


def positive_part(rate: int, steps: int) -> float:
    """``E[(S^k)^+]`` with ``S^k + kλ`` Poisson: ``μ^{μ+1} e^{−μ}/μ!`` for integer μ = kλ."""
    mu = rate * steps
    return exp((mu + 1) * log(mu) - mu - lgamma(mu + 1))


@CLAIMS.result("fluid.lemma4", Mutation("k² in place of k", power=2), kind=Kind.IDENTITY)
def _lemma4_check(context: Context, *, power: int = 1) -> Outcome:
    """Mean of the largest partial sum.

    Source: fluid paper, Lemma 4 (appendix B.0.1), after Strait (1974)
    Statement: The mean of the largest positive partial sum is the sum of E[(S^k)^+]/k.
    Formula: E[Y^T] = E[max_{k≤T} (S^k)^+] = Σ_{k=1}^T E[(S^k)^+]/k
    Assumes: S^k sums of independent, alike steps
    Summary: Exact for small laws. For Poisson arrivals E[(S^k)^+] = μ^{μ+1}e^{−μ}/μ! with μ = kλ.
    """
    length = context.choose(5, 6, 7)
    laws = [
        (tuple(context.rng.integers(1, 9, 3).tolist()), service)
        for service in (0, 1, 2)
        for _ in range(context.choose(2, 6, 20))
    ]

    def exact(case: tuple[tuple[int, ...], int]) -> bool:
        weights, service = case
        left, right = Fraction(0), Fraction(0)
        for arrivals in product(range(3), repeat=length):
            sums = list(accumulate(x - service for x in arrivals))
            chance = Fraction(prod(weights[x] for x in arrivals), sum(weights) ** length)
            left += chance * max(0, *sums)
            right += chance * sum(Fraction(max(s, 0), k**power) for k, s in enumerate(sums, 1))
        return left == right

    def poisson(rate: int) -> bool:
        steps = context.choose(60, 300, 1000)
        means = mean_path(reflected_laws([poisson_law(rate)] * steps, rate))
        terms = (positive_part(rate, k) / k**power for k in range(1, steps + 1))
        return all(
            abs(m - total) < MARGIN * (1 + m)
            for m, total in zip(means, accumulate(terms, initial=0.0), strict=True)
        )

    small = examine(
        "E[Y^T] = Σ_k E[(S^k)^+]/k",
        f"random laws of X on 0, 1, 2; all {length}-step paths, in fractions",
        laws,
        exact,
    )
    large = examine(
        "the same for Poisson X, every T",
        "λ = 1, 2, 3, 7; maxima by convolution, right side closed",
        (1, 2, 3, 7),
        poisson,
    )
    return Findings(
        small,
        large,
        numbers={"E[Y^100], λ = 3": sum(positive_part(3, k) / k for k in range(1, 101))},
    )


@CLAIMS.result(
    "fluid.lemma5",
    Mutation("a quarter of the sum", factor=0.25),
    Mutation("nothing taken off the queue", base=0),
    hypotheses=(*QUEUE, "X^t Poisson(λ)"),
)
def _lemma5_check(context: Context, *, factor: float = 1.0, base: int = 1) -> Outcome:
    """The critical queue grows as a root at most.

    Source: fluid paper, Lemma 5 (appendix B.0.1)
    Statement: The mean queue less λ is at most E[Y^T], and that at most √λ times the sum of
        k^{−1/2}.
    Formula: E[W^T] − λ ≤ E[Y^T] ≤ √λ·Σ_{k≤T} k^{−1/2}
    Summary: With room: half of the right side would do (fluid.lemma5-constant).
    """
    steps = context.choose(80, 400, 2000)

    def holds(rate: int) -> bool:
        queue = mean_path(queue_laws([poisson_law(rate)] * steps, rate))
        terms = [positive_part(rate, k) / k for k in range(1, steps + 1)]
        maxima = list(accumulate(terms, initial=0.0))
        roots = list(accumulate((k**-0.5 for k in range(1, steps + 1)), initial=0.0))
        return all(
            w - base * rate <= y + MARGIN and y <= factor * sqrt(rate) * r + MARGIN
            for w, y, r in zip(queue, maxima, roots, strict=True)
        )

    return examine(
        "E[W^T] − λ ≤ E[Y^T] ≤ √λ·Σ k^{−1/2} for every T",
        f"λ = 1, 2, 3, 5, 10, T up to {steps}; laws by convolution",
        (1, 2, 3, 5, 10),
        holds,
    )


def verify_constant(data: Data) -> str | None:
    """Confirm that the sum stays above 3/2·√T from some T on."""
    steps: int = data["steps"]
    # Σ k^{−1/2} ≥ 2√(T+1) − 2, and that is at least 3/2·√T as soon as √T/2 ≥ 2.
    if steps < 16:
        return None
    total = sum(k**-0.5 for k in range(1, steps + 1))
    return (
        f"at T = {steps} the sum is {total / sqrt(steps):.4f}·√T, and at no later T below 1.5·√T, "
        "as it is at least 2√(T+1) − 2"
    )


@CLAIMS.result(
    "fluid.lemma5-constant",
    Mutation("2√(λT) as printed", limit=2.0),
    Mutation("an eighth of the sum", half=0.125),
    kind=Kind.ASYMPTOTIC,
    defect=Defect.FORMULA,
    verify=verify_constant,
)
def _constant_check(context: Context, *, half: float = 0.5, limit: float = 1.5) -> Outcome:
    """Constant of the root.

    Source: fluid paper, Lemma 5 (appendix B.0.1) and the display before it
    Statement: The bound √λ·Σ k^{−1/2} behaves as √(λT).
    Formula: √λ·Σ_{k=1}^T k^{−1/2} ~ √(λT)
    Assumes: T → ∞
    Summary: The sum is about 2√T. As E[S^+] = E|S|/2 for centred S, half of it bounds the mean, so
        that E[W^T] ≤ λ + √(λT) holds without any limit.
    Reading: ~ as a ratio that tends to 1, as appendix B.0.2 uses it: it concludes E[W^S] ≤ λ +
        √(λS). As an order of growth it is right.
    Correction: It behaves as 2√(λT). With the factor 1/2 that E[S^+] = E|S|/2 gives, √(λT) bounds
        it for every T; E[Y^T] itself behaves as √(2λT/π).
    """
    most = context.choose(400, 5000, 50_000)
    sums = list(accumulate(k**-0.5 for k in range(1, most + 1)))
    printed = refute(
        "Σ k^{−1/2} comes within 1.5·√T", f"T = 16..{most}", range(16, most + 1),
        verify_constant, lambda t: {"steps": t}, holds=lambda t: sums[t - 1] <= limit * sqrt(t),
        found="every T in turn",
    )  # fmt: skip

    def corrected(case: tuple[int, int]) -> bool:
        rate, steps = case
        mean = sum(positive_part(rate, k) / k for k in range(1, steps + 1))
        bound = half * sqrt(rate) * sums[steps - 1]
        return bool(mean <= bound + MARGIN and bound <= sqrt(rate * steps) + MARGIN)

    steps = sorted({1, 2, 5, 20, 100, most})
    right = examine(
        "E[Y^T] ≤ (√λ/2)·Σ k^{−1/2} ≤ √(λT)", f"λ = 1, 3, 10, T in {steps}; closed form",
        list(product((1, 3, 10), steps)), corrected,
    )  # fmt: skip
    ratio = sum(positive_part(3, k) / k for k in range(1, most + 1)) / sqrt(2 * 3 * most / pi)
    return Findings(printed, right, numbers={f"E[Y^T]/√(2λT/π) at λ = 3, T = {most}": ratio})
