"""Constants and conditions of Theorems 2 to 4: gap and latency, time-varying queues, equality."""

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import accumulate, product

import numpy as np

from bfio.wait.chains import nested_policy
from bfio.wait.queues import queue_lengths
from formulations.fluid import RateProfile
from proofs_checks.claim import Claim, Context, Kind, Mutation
from proofs_checks.evidence import Data, Evidence, agreed
from proofs_checks.papers.fluid.largest_sums import positive_part
from proofs_checks.papers.fluid.nested_memory import Load
from proofs_checks.papers.fluid.queues import binomial_law, mean_path, poisson_law, queue_laws
from proofs_checks.papers.fluid.runs import random_setting
from proofs_checks.papers.fluid.theorem1_bounds import queue_after_batches
from proofs_checks.search import corrected_evidence, evidence_of, examine

_MARGIN = 1e-9
#: Output l'_1, thresholds n_1 and n_2, clock units between arrivals; d0 = 1, d1 = 0, λ_1 = λ_2.
Pair = tuple[int, int, int, int]
_NAMES = ("output", "first", "second", "interval")


# Gap and latency of Theorem 2.


def printed_sum(case: Pair) -> Fraction:
    """Return the bound on ``Σ_k E[W_k]`` with ``ΔT·Λ = 1/interval`` and ``P_2 = 1/2``."""
    _, first, second, interval = case
    come, moved = Fraction(1, interval), Fraction(first, 2)
    return 2 * first + come / (2 * (first - come)) + second + moved / 2 / (2 * (second - moved))


def applies(case: Pair) -> bool:
    """Condition (10): ``ΔT < n_1/Λ`` and ``n_2 > n_1/2``."""
    output, first, second, interval = case
    return min(case) >= 1 and first * interval > 1 and 2 * second > first and output >= 1


def gap_possible(case: Pair) -> bool:
    """Whether printed gap and latency leave room for ``l'_1 + 1`` batches of d0 for each prompt.

    S = T/ΔT: T times the printed gap is ``ΔT·Σ E[W]``; so is the printed latency.
    """
    output, _, _, interval = case
    too_late, shortest = Fraction(output + 1, interval), output + 1
    return too_late <= printed_sum(case) and shortest <= printed_sum(case)


def verify_gap(data: Data) -> str | None:
    """Confirm that gap or latency are bounded below what a prompt needs."""
    case: Pair = tuple(data[name] for name in _NAMES)
    if not applies(case) or gap_possible(case):
        return None
    output, first, second, interval = case
    return (
        f"d0 = 1, d1 = 0, Λ = 1/{interval}, P_2 = 1/2, n = ({first}, {second}): the printed "
        f"latency, ΔT·Σ E[W], is {printed_sum(case)} at most, but every prompt takes "
        f"{output + 1} batches of d0"
    )


def _gap_check(context: Context, *, longest: int = 20, stages: int = 1) -> Evidence:
    rng = context.rng

    def loads() -> Iterator[Load]:
        for _ in range(context.choose(20, 200, 2000)):
            setting = random_setting(rng, 25, equal_prompts=True)
            ends = tuple(output for _, output in setting.classes)
            thresholds = tuple(rng.integers(1, 4, len(ends)).tolist())
            requests = tuple((t, output) for t, _, output in setting.requests)
            yield Load(
                setting.classes[0][0], ends, thresholds, requests, setting.fixed, setting.per_token
            )

    def bounded(load: Load) -> bool:
        run, policy = load.run(), nested_policy(load.ends, load.thresholds)
        waiting = queue_lengths(run, policy).waiting.sum(axis=1)
        ended = np.sort(run.completion[run.completion >= 0])
        start = run.batches.start
        there = np.searchsorted(run.instance.arrival, start, side="right")
        there = there - np.searchsorted(ended, start, side="right")
        lengths = [end - begin + 1 for begin, end, _ in policy.chains[0].segments]
        inside = sum(n * stages * k for n, k in zip(load.thresholds, lengths, strict=True))
        return bool((there <= waiting + inside).all())

    return corrected_evidence(
        examine(
            "gap ≤ (1/S)·Σ E[W], latency ≤ ΔT·Σ E[W]",
            f"two segments, d1 = 0, l'_1 up to {longest}; exactly",
            product(range(1, longest + 1), (1, 2, 3), (1, 2, 3), (1, 2, 4)),
            gap_possible,
            applies,
        ),
        examine(
            "in the system are at most Σ W_k + Σ n_i·(stages of segment i)",
            "runs of Nested WAIT on random small engines",
            loads(),
            bounded,
        ),
        verify_gap,
        lambda c: dict(zip(_NAMES, c, strict=True)),
        "As in Theorem 1, prompts under way are forgotten; the orders O(1/T) and O(1) stay.",
    )


# Time-varying rates.


def _varying_check(context: Context, *, largest: bool = True) -> Evidence:
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
    return Evidence(
        agreed(later.tally, head.tally),
        summary="p* need not maximise p(1 − p): the bound grows with p because its denominator "
        "falls.",
        tallies=(later.tally, head.tally),
    )


def _windows_check(context: Context, *, moments: bool = True) -> Evidence:
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

    seen = examine(
        "p over a window ≤ largest p of a moment; arrivals ≤ the largest window",
        "random rates in pieces, random windows; exactly", profiles(), holds,
    )  # fmt: skip
    return evidence_of(
        seen, "A share over a window averages those of its moments, weighted by the rates."
    )


# Equality in (14).


def growth(threshold: int, batches: int) -> tuple[float, float]:
    """Mean queue beyond n after some and after 16 times as many batches, ``λ·ΔT = n``."""
    late = sum(positive_part(threshold, k) / k for k in range(1, 16 * batches))
    early = sum(positive_part(threshold, k) / k for k in range(1, batches))
    return early, late


def verify_equality(data: Data) -> str | None:
    """Confirm that with equality the mean queue at 16 S is at least thrice that at S."""
    threshold, batches = data["threshold"], data["batches"]
    if threshold < 1 or not 2 <= batches <= 5000:
        return None
    early, late = growth(threshold, batches)
    if late < 3 * early:
        return None
    return (
        f"m = L = 1, n_1 = {threshold}, d1 = 0, ΔT = n_1/λ_1: beyond n_1, {early:.3f} wait on "
        f"average after {batches} batches and {late:.3f} after {16 * batches}; the mean grows as "
        "√S without bound, and with it the latency"
    )


def _equality_check(
    context: Context, *, shares: tuple[float, ...] = (0.5, 0.8), printed: float = 1
) -> Evidence:
    steps = context.choose(200, 1000, 5000)

    def bounded(case: tuple[int, int]) -> bool:
        threshold, batches = case
        if printed == 1:
            early, late = growth(threshold, batches)
            return late < 3 * early
        means = mean_path(
            queue_laws([poisson_law(printed * threshold)] * (16 * batches), threshold)
        )
        return means[-1] < 3 * means[batches]

    def strict(case: tuple[int, float]) -> bool:
        threshold, share = case
        means = mean_path(queue_laws([poisson_law(share * threshold)] * steps, threshold))
        room = threshold * (1 - share)
        if not room:
            return means[-1] < 3 * means[steps // 16]
        return max(means) <= 2 * threshold + share * threshold / (2 * room) + _MARGIN

    real = queue_after_batches(2, 8)
    sums = accumulate((positive_part(2, k) / k for k in range(1, 8)), initial=0.0)
    same = examine(
        "the mean queue after s batches is n + Σ E[(S^k)^+]/k", "n = 2, s up to 8", [real],
        lambda means: all(abs(m - 2 - s) < _MARGIN for m, s in zip(means, sums, strict=True)),
    )  # fmt: skip
    evidence = corrected_evidence(
        examine(
            "with ≤ in (14) the mean queue is O(1)",
            "equality, one segment, n = 1, 2, 3; closed form",
            product((1, 2, 3), (16, 64)),
            bounded,
        ),
        examine(
            "with < it stays below Kingman's bound",
            f"n = 1, 2, 3, ΔT·λ/n in {shares}; laws by convolution",
            list(product((1, 2, 3), shares)),
            strict,
        ),
        verify_equality,
        lambda c: {"threshold": c[0], "batches": c[1]},
        "With one segment this is the critical case of Theorem 1, where latencies grow as √(ζT).",
    )
    return Evidence(
        evidence.as_printed, evidence.as_corrected, evidence.summary,
        (*evidence.tallies, same.tally), counterexample=evidence.counterexample,
    )  # fmt: skip


CLAIMS = (
    Claim(
        id="fluid.theorem2-gap",
        source="WAIT paper, proof of Theorem 2 (appendix C)",
        title="Gap and latency of Nested WAIT in terms of its queues",
        statement="The expected throughput gap is at most (1/S)·Σ_k E[W_k], the expected "
        "latency at most ΔT·Σ_k E[W_k], with the bounds on the queues.",
        formula="Thr* − E[Thr] ≤ (1/S)·Σ_k E[W_k^S],  E[Latency] ≤ ΔT·Σ_k (1/S)·Σ_s E[W_k^s]",
        hypotheses=("(10)", "S = T/ΔT steps"),
        kind=Kind.COUNTEREXAMPLE,
        check=_gap_check,
        mutations=(
            Mutation("outputs of 1 only", partial(_gap_check, longest=1)),
            Mutation("nobody within a segment in the correction", partial(_gap_check, stages=0)),
        ),
        correction="Σ_i n_i·(stages of segment i) prompts under way must be added to the "
        "queues; a prompt's own l'_j + 1 batches must be added to its latency.",
        verify=verify_gap,
    ),
    Claim(
        id="fluid.theorem3-queues",
        source="WAIT paper, proof of Theorem 3 (appendix D)",
        title="Mean queues under time-varying rates",
        statement="The mean queues are bounded as with constant rates, with the busiest window "
        "Λ^π and the largest share p_k*.",
        formula="E[W_1] ≤ 2n_1 + Λ^π/(2(n_1−Λ^π)),  E[W_k] ≤ n_k + "
        "n_{k−1}p*(1−p*)/(2(n_k−n_{k−1}p*))",
        hypotheses=("Λ^π < n_1", "p_k(s) ≤ p_k* < n_k/n_{k−1}"),
        kind=Kind.FINITE,
        check=_varying_check,
        mutations=(
            Mutation("the smallest share, and no n_k", partial(_varying_check, largest=False)),
        ),
    ),
    Claim(
        id="fluid.eq13",
        source="WAIT paper, eq. (13) (section 7.1); the reduction to moments is ours",
        title="Shares and arrivals over windows",
        statement="Arrivals of a window are at most those of a longer one; p_i over any window "
        "is at most its largest value at a moment, which short windows reach.",
        formula="Σ λ_j[t, t+Δt] ≤ Σ λ_j[t, t+ΔT];  sup_{t,Δt} p_i[t, t+Δt] = sup_t p_i(t)",
        hypotheses=("rates constant in pieces",),
        kind=Kind.FINITE,
        check=_windows_check,
        mutations=(
            Mutation("the share at the window's begin", partial(_windows_check, moments=False)),
        ),
    ),
    Claim(
        id="fluid.theorem4-equality",
        source="WAIT paper, Theorem 4 and (14) (section 7.2)",
        title="Equality in (14)",
        statement="Thresholds that satisfy (14), ΔT ≤ n_1/Σλ'_j included, give O(1) latency.",
        formula="ΔT(n) ≤ n_1/Σ_j λ'_j  ⇒  E[Latency] = O(1)",
        hypotheses=("any fixed number L of segments",),
        kind=Kind.COUNTEREXAMPLE,
        check=_equality_check,
        mutations=(
            Mutation("equality in the correction", partial(_equality_check, shares=(1.0,))),
            Mutation("four fifths of the load as printed", partial(_equality_check, printed=0.8)),
        ),
        correction="(14) must be strict, as (10) is.",
        verify=verify_equality,
    ),
)
