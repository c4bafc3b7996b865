"""Conditions of Theorems 3 and 4: queues under time-varying rates, and equality in (14)."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np

from formulations.fluid import RateProfile
from proofs_checks.claim import Claims, Context, Defect, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.fluid.queues import binomial_law, mean_path, poisson_law, queue_laws
from proofs_checks.papers.fluid.theorem1_bounds import SingleClass, mean_queues
from proofs_checks.search import examine, refute

CLAIMS = Claims()


_MARGIN = 1e-9
# Time-varying rates.


@CLAIMS.step("fluid.theorem3-queues", Mutation("the smallest share, and no n_k", largest=False))
def _varying_check(context: Context, *, largest: bool = True) -> Outcome:
    """Mean queues under time-varying rates.

    Source: fluid paper, proof of Theorem 3 (appendix D)
    Statement: The mean queues are bounded as with constant rates, with the busiest window Λ^π and
        the largest share p_k*.
    Formula: E[W_1] ≤ 2n_1 + Λ^π/(2(n_1−Λ^π)),  E[W_k] ≤ n_k + n_{k−1}p*(1−p*)/(2(n_k−n_{k−1}p*))
    Assumes: Λ^π < n_1; p_k(s) ≤ p_k* < n_k/n_{k−1}
    Summary: p* need not maximise p(1 − p): the bound grows with p because its denominator falls.
    """
    steps = context.choose(60, 300, 2000)

    def segment(case: tuple[int, int, tuple[Fraction, Fraction]]) -> bool:
        before, threshold, shares = case
        star = max(shares) if largest else min(shares)
        laws = [binomial_law(before, float(p)) for p in shares]
        # Busy for a while, quiet for a while.
        arrivals = [laws[(s // 7) % 2] for s in range(steps)]
        drift = threshold - before * star
        bound = threshold * largest + float(before * star * (1 - star) / (2 * drift))
        return max(mean_path(queue_laws(arrivals, threshold))) <= bound + _MARGIN

    def first(case: tuple[int, float, float]) -> bool:
        threshold, high, low = case
        laws = (poisson_law(high), poisson_law(low))
        means = mean_path(queue_laws([laws[(s // 7) % 2] for s in range(steps)], threshold))
        return max(means) <= 2 * threshold + high / (2 * (threshold - high)) + _MARGIN

    pairs = [
        (before, n, (Fraction(a, 8), Fraction(b, 8)))
        for before in (2, 4, 6) for n in range(1, before) for a in range(1, 8) for b in (1, 3)
        if n > before * Fraction(max(a, b), 8)
    ]  # fmt: skip
    later = examine(
        "E[W_k] ≤ n_k + n_{k−1}p*(1−p*)/(2(n_k − n_{k−1}p*))",
        "p(s) alternating between two values; laws by convolution",
        pairs[:: context.choose(2, 1, 1)], segment,
    )  # fmt: skip
    head = examine(
        "E[W_1] ≤ 2n_1 + Λ^π/(2(n_1 − Λ^π))", "rates alternating between two values",
        [(n, h * n, low * n) for n in (1, 2, 4) for h in (0.5, 0.9) for low in (0.1, 0.5)], first,
    )  # fmt: skip
    return later, head


@CLAIMS.formula("fluid.eq13", Mutation("the share at the window's begin", moments=False))
def _windows_check(context: Context, *, moments: bool = True) -> Outcome:
    """Shares and arrivals over windows.

    Source: fluid paper, eq. (13) (section 7.1); the reduction to moments is ours
    Statement: Arrivals of a window are at most those of a longer one; p_i over any window is at
        most its largest value at a moment, which short windows reach.
    Formula: Σ λ_j[t, t+Δt] ≤ Σ λ_j[t, t+ΔT];  sup_{t,Δt} p_i[t, t+Δt] = sup_t p_i(t)
    Assumes: rates constant in pieces
    Summary: A share over a window averages those of its moments, weighted by the rates.
    """
    rng = context.rng

    def profiles() -> Iterator[tuple[RateProfile, Fraction, Fraction]]:
        for _ in range(context.choose(40, 400, 4000)):
            number = int(rng.integers(1, 5))
            breaks = [0, *np.cumsum(rng.integers(1, 6, number - 1)).tolist()]
            rates = [[Fraction(int(x), 4) for x in rng.integers(1, 9, 2)] for _ in breaks]
            profile = RateProfile(
                tuple(map(Fraction, breaks)), tuple(map(tuple, rates)), Fraction(breaks[-1] + 3)
            )
            yield (
                profile,
                Fraction(int(rng.integers(0, 40)), 4),
                Fraction(int(rng.integers(1, 40)), 4),
            )

    def holds(case: tuple[RateProfile, Fraction, Fraction]) -> bool:
        profile, start, length = case
        stay, go = (profile.integral(j, start, start + length) for j in (0, 1))
        share = go / (stay + go)
        now = profile.rates_at(start)
        limit = profile.largest_share([1], [0]) if moments else now[1] / sum(now)
        # Within one piece the share is that of the moment, so that the supremum is reached.
        reached = max(row[1] / sum(row) for row in profile.rates)
        shorter = profile.integral(0, start, start + length / 2)
        return (
            share <= limit
            and (not moments or limit == reached)
            and shorter <= stay
            and stay + go <= profile.largest_window([0, 1], length)
        )

    return examine(
        "p over a window ≤ largest p of a moment; arrivals ≤ the largest window",
        "random rates in pieces, random windows; exactly",
        profiles(),
        holds,
    )


# Equality in (14).


def growth(single: SingleClass, batches: int) -> tuple[float, float]:
    """Mean queue beyond n after some and after 16 times as many batches, ``λ·ΔT = n``."""
    means = mean_queues(single, 16 * batches)
    return means[batches - 1] - single.threshold, means[-1] - single.threshold


def verify_equality(data: Data) -> str | None:
    """Confirm that with equality the mean queue at 16 S is at least thrice that at S."""
    single, batches = SingleClass.of(data), data["batches"]
    if single is None or not single.output + 2 <= batches <= 64:
        return None
    early, late = growth(single, batches)
    if early <= 0 or late < 3 * early:
        return None
    return (
        f"m = L = 1, l = {single.prompt}, l' = {single.output}, n_1 = {single.threshold}, d0 = "
        f"{single.fixed}, d1 = {single.per_token}, ΔT = {single.longest} = n_1/λ_1: beyond n_1, "
        f"{early:.3f} wait on average after {batches} batches and {late:.3f} after "
        f"{16 * batches}; the mean grows as √S without bound, and with it the latency"
    )


@CLAIMS.result(
    "fluid.theorem4-equality",
    Mutation("equality in the correction", shares=(1.0,)),
    Mutation("four fifths of the load as printed", printed=0.8),
    defect=Defect.HYPOTHESIS,
    verify=verify_equality,
)
def _equality_check(
    context: Context, *, shares: tuple[float, ...] = (0.5, 0.8), printed: float = 1
) -> Outcome:
    """Equality in (14).

    Source: fluid paper, Theorem 4 and (14) (section 7.2)
    Statement: Thresholds that satisfy (14), ΔT ≤ n_1/Σλ'_j included, give O(1) latency.
    Formula: ΔT(n) ≤ n_1/Σ_j λ'_j  ⇒  E[Latency] = O(1)
    Assumes: L = 1, which 'any fixed number of segments' includes; ΔT of a full batch
    Summary: With one segment this is the critical case of Theorem 1, where latencies grow as
        √(ζT). (With two segments and d1 > 0 the second is not in every batch, so that batches are
        shorter than ΔT on average, and equality does no harm.)
    Correction: (14) must be strict, as (10) is.
    """
    steps = context.choose(200, 1000, 5000)
    singles = [SingleClass(1, 1, n, 10, 1) for n in (1, 2, 3)]
    cases = list(product(singles, context.choose((16,), (16, 32), (16, 32, 64))))

    def bounded(case: tuple[SingleClass, int]) -> bool:
        single, batches = case
        if printed == 1:
            early, late = growth(single, batches)
            return late < 3 * early
        n = single.threshold
        means = mean_path(queue_laws([poisson_law(printed * n)] * (16 * batches), n))
        return means[-1] < 3 * means[batches]

    def strict(case: tuple[SingleClass, float]) -> bool:
        n, share = case[0].threshold, case[1]
        means = mean_path(queue_laws([poisson_law(share * n)] * steps, n))
        room = n * (1 - share)
        if not room:
            return means[-1] < 3 * means[steps // 16]
        return max(means) <= 2 * n + share * n / (2 * room) + _MARGIN

    as_printed = refute(
        "with ≤ in (14) the mean queue is O(1)",
        "equality, one segment of one type, n = 1, 2, 3, d0 = 10, d1 = 1; laws by convolution",
        cases,
        verify_equality,
        lambda c: {**c[0].data, "batches": c[1]},
        holds=bounded,
    )
    corrected = examine(
        "with < it stays below Kingman's bound",
        f"n = 1, 2, 3, ΔT·λ/n in {shares}; laws by convolution",
        list(product(singles, shares)),
        strict,
    )
    return as_printed, corrected
