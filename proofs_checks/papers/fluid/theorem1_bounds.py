"""The constants in the proof of Theorem 1: bounds on queues, gap and latency."""

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from math import sqrt

import numpy as np

from proofs_checks.claim import Claim, Context, Kind, Mutation
from proofs_checks.evidence import Data, Evidence
from proofs_checks.papers.fluid.queues import (
    mean_path,
    poisson_law,
    queue_laws,
    reflected_laws,
)
from proofs_checks.papers.fluid.runs import Setting, random_setting, reference
from proofs_checks.papers.fluid.structure import waiting_at
from proofs_checks.search import corrected_evidence, evidence_of, examine

_MARGIN = 1e-9


# The critical case.


def queue_after_batches(threshold: int, batches: int) -> list[float]:
    """Mean queue after each batch of one class, d1 = 0 and ``λ·ΔT = n``.

    The first batch takes the first n; n arrive during it on average, and so on: after the first
    batch a batch starts at once if n are there, or as soon as they are.
    """
    arrival = poisson_law(threshold)
    # Waiting for the n-th arrival leaves none: W' = max(W, n) − n + X.
    laws = reflected_laws([arrival] * batches, threshold)
    return [mean + threshold for mean in mean_path(laws)][:batches]


def critical_bound(threshold: int, duration: int, batches: int, *, printed: bool) -> float:
    """``λ + √(λS)`` as printed, ``2n + √(nS)`` as corrected."""
    if printed:
        rate = threshold / duration
        return rate + sqrt(rate * batches)
    return 2 * threshold + sqrt(threshold * batches)


def verify_critical(data: Data) -> str | None:
    """Confirm that the mean queue after so many batches exceeds ``λ + √(λS)``."""
    threshold, duration, batches = data["threshold"], data["duration"], data["batches"]
    if min(threshold, duration, batches) < 1:
        return None
    mean = queue_after_batches(threshold, batches)[-1]
    bound = critical_bound(threshold, duration, batches, printed=True)
    if mean <= bound + _MARGIN:
        return None
    return (
        f"one class, d1 = 0, ΔT = {duration}, n = {threshold}, λ = "
        f"{Fraction(threshold, duration)}: after {batches} batches {mean:.4f} wait on average, "
        f"more than {bound:.4f} (each batch brings λ·ΔT = {threshold})"
    )


def _critical_check(
    context: Context, *, durations: tuple[int, ...] = (1, 2, 4, 16, 100), base: int = 2
) -> Evidence:
    batches = context.choose(40, 200, 1000)
    cases = list(product((1, 2, 3, 5), durations))
    made = (
        f"one class, d1 = 0, n = 1, 2, 3, 5, ΔT in {durations}, S up to {batches}; laws by "
        "convolution"
    )

    def below(case: tuple[int, int], *, printed: bool) -> bool:
        threshold, duration = case
        missing = 0 if printed else (2 - base) * threshold
        return all(
            mean <= critical_bound(threshold, duration, s, printed=printed) - missing + _MARGIN
            for s, mean in enumerate(queue_after_batches(threshold, batches), 1)
        )

    def as_data(case: tuple[int, int]) -> Data:
        means = queue_after_batches(case[0], batches)
        first = next(
            s
            for s, mean in enumerate(means, 1)
            if mean > critical_bound(*case, s, printed=True) + _MARGIN
        )
        return {"threshold": case[0], "duration": case[1], "batches": first}

    def dominator(case: tuple[int, int]) -> bool:
        threshold, _ = case
        means = mean_path(reflected_laws([poisson_law(threshold)] * batches, threshold))
        return below(case, printed=False) and all(
            mean <= sqrt(threshold * s) + _MARGIN for s, mean in enumerate(means)
        )

    return corrected_evidence(
        examine("E[W^S] ≤ λ + √(λS)", made, cases, lambda c: below(c, printed=True)),
        examine("E[W^S] and E[W̃^S] ≤ 2n + √(nS)", made, cases, dominator),
        verify_critical,
        as_data,
        "Lemma 5 counts steps of length 1 with λ served; the theorem has steps of ΔT with n = "
        "λ·ΔT.",
    )


# The strict case.


def _kingman_check(
    context: Context, *, shares: tuple[float, ...] = (0.3, 0.6, 0.9), part: float = 1
) -> Evidence:
    steps = context.choose(150, 2000, 20_000)

    def holds(case: tuple[int, float]) -> bool:
        threshold, share = case
        arrival = poisson_law(share * threshold)
        room = threshold * (1 - share)
        bound = part * share * threshold / (2 * room) if room else share * threshold
        walk = mean_path(reflected_laws([arrival] * steps, threshold))[-1]
        queue = mean_path(queue_laws([arrival] * steps, threshold))[-1]
        return walk <= bound + _MARGIN and queue <= 2 * threshold + bound + _MARGIN

    seen = examine(
        "E[W], E[W̃] ≤ 2n + λΔT/(2(n − λΔT))",
        f"n = 1, 2, 3, 5, λΔT/n in {shares}, after {steps} steps; laws by convolution",
        list(product((1, 2, 3, 5), shares)), holds,
    )  # fmt: skip
    return evidence_of(seen, "Kingman's bound; the mean of W̃ only grows towards its limit.")


# Gap and latency.

#: Output, threshold, clock units between arrivals on average, and d0; d1 = 0.
Single = tuple[int, int, int, int]
_NAMES = ("output", "threshold", "interval", "fixed")


def strict_bound(case: Single) -> Fraction:
    """``2n + λΔT/(2(n − λΔT))`` with ΔT = d0."""
    _, threshold, interval, fixed = case
    come = Fraction(fixed, interval)
    return 2 * threshold + come / (2 * (threshold - come))


def gap_possible(case: Single) -> bool:
    """Whether the printed gap, in prompts, leaves room for those that cannot be through yet.

    Every prompt takes l' + 1 batches of d0. So of those that arrive in the last (l' + 1)·d0 before
    T, ``λ(l' + 1)·d0`` on average, none completes; the printed bound times T is ``ΔT·E[W]``.
    """
    output, _, interval, fixed = case
    return Fraction(fixed * (output + 1), interval) <= fixed * strict_bound(case)


def verify_gap(data: Data) -> str | None:
    """Confirm that the printed gap is too small for the prompts under way."""
    case: Single = tuple(data[name] for name in _NAMES)
    output, threshold, interval, fixed = case
    if min(case) < 1 or fixed >= threshold * interval or gap_possible(case):
        return None
    return (
        f"d0 = {fixed}, d1 = 0, λ = 1/{interval}: T times the printed gap is "
        f"{fixed * strict_bound(case)}, but {Fraction(fixed * (output + 1), interval)} prompts "
        "arrive too late to complete, whatever the policy"
    )


def _unfinished_is_bounded(case: tuple[Setting, list[int]], slack: int) -> bool:
    """Whether at most n_j·l'_j of type j are beyond stage 0 after each batch."""
    setting, thresholds = case
    run = reference(setting.instance(), setting.wait(thresholds), setting.requests[-1][0] + 60)
    instance, events = run.instance, run.log.events()
    for (prompt, output), n in zip(setting.classes, thresholds, strict=True):
        mine = (instance.prompt == prompt) & (instance.output == output)
        members = [i for i, own in enumerate(mine.tolist()) if own]
        there = np.zeros(len(run.batches), dtype=np.int64)
        for stage in range(1, output + 1):
            there += waiting_at(run, np.flatnonzero(mine), stage)
        # Those in the last stage of their last batch are through when it ends.
        begun = [events.batch[events.request == i] for i in members]
        if max((len(b) for b in begun), default=0) > output + 1:
            return False
        if int(there.max(initial=0)) > n * (output + 1 - slack):
            return False
    return True


def _gap_check(context: Context, *, longest: int = 12, slack: int = 1) -> Evidence:
    cases = [
        case
        for case in product(range(1, longest + 1), (1, 2, 3), (1, 2, 4), (1, 2))
        if case[3] < case[1] * case[2]
    ]

    def settings() -> Iterator[tuple[Setting, list[int]]]:
        for _ in range(context.choose(15, 150, 1500)):
            setting = random_setting(context.rng, 25)
            yield setting, context.rng.integers(1, 4, len(setting.classes)).tolist()

    return corrected_evidence(
        examine(
            "(1/S)·Σ E[W] bounds the gap in prompts",
            f"one class, d1 = 0, l' up to {longest}; exactly",
            cases,
            gap_possible,
        ),
        examine(
            "beyond stage 0 there are at most n_j·l'_j of type j",
            "runs of WAIT on random small engines",
            settings(),
            lambda c: _unfinished_is_bounded(c, slack),
        ),
        verify_gap,
        lambda c: dict(zip(_NAMES, c, strict=True)),
        "The display counts the prompts that wait for their prefill and forgets those under way.",
    )


_APPENDIX = "WAIT paper, proof of Theorem 1 (appendix B.0.2)"

CLAIMS = (
    Claim(
        id="fluid.theorem1-critical",
        source=_APPENDIX,
        title="Queue with equality in (9)",
        statement="If ΔT = n_j/λ_j then the mean queue of type j after S batches, and its "
        "dominator's, are at most λ_j + √(λ_j S).",
        formula="E[W_j^S] ≤ E[W̃_j^S] ≤ λ_j + √(λ_j·S)",
        hypotheses=("ΔT = n_j/λ_j",),
        kind=Kind.COUNTEREXAMPLE,
        check=_critical_check,
        mutations=(
            Mutation("unit steps, ΔT = 1", partial(_critical_check, durations=(1,))),
            Mutation("no buffer in the correction", partial(_critical_check, base=0)),
        ),
        correction="With steps of ΔT the walk serves n_j, so that Lemma 5 gives 2n_j + √(n_j S).",
        reading="prompts leave the queue when their batch starts; one class is an instance.",
        verify=verify_critical,
    ),
    Claim(
        id="fluid.theorem1-strict",
        source=_APPENDIX,
        title="Queue with strict (9)",
        statement="If ΔT < n_j/λ_j then the mean queue of type j is bounded by Kingman's "
        "inequality.",
        formula="E[W_j^S] ≤ E[W̃_j^S] ≤ 2n_j + λ_jΔT/(2(n_j − λ_jΔT))",
        hypotheses=("λ_j·ΔT < n_j", "steps of ΔT"),
        kind=Kind.FINITE,
        check=_kingman_check,
        mutations=(
            Mutation("half of Kingman's term", partial(_kingman_check, part=0.5)),
            Mutation("no slack: λ·ΔT = n, any constant", partial(_kingman_check, shares=(1.0,))),
        ),
    ),
    Claim(
        id="fluid.theorem1-gap",
        source=_APPENDIX,
        title="Gap of WAIT in terms of its queues",
        statement="The expected throughput gap is at most (1/S)·Σ_j E[W_j^S].",
        formula="Thr* − E[Thr] ≤ (1/S)·Σ_j (2n_j + λ_jΔT/(2(n_j − λ_jΔT)))",
        hypotheses=("strict (9)", "S = T/ΔT steps"),
        kind=Kind.COUNTEREXAMPLE,
        check=_gap_check,
        mutations=(
            Mutation("outputs of 1 only", partial(_gap_check, longest=1)),
            Mutation("one stage less in the correction", partial(_gap_check, slack=2)),
        ),
        correction="Prompts under way must be added: T·gap ≤ Σ_j (l'_j + 1)(E[W_j] + n_j(l'_j + "
        "1)) in stage tokens, since at most n_j prompts are at each stage. Of order 1/T all the "
        "same.",
        reading="counted in prompts per unit time, the most favourable unit.",
        verify=verify_gap,
    ),
)
