"""Queues of the proofs: paths and laws, and Lemmas 1 to 5 on one class in unit steps.

A queue receives arrivals X and serves n prompts at once if at least n wait:
``W' = W + X − n·1{W + X >= n}``. The walk that dominates it is reflected at a base:
``V' = max{base, V + X − n}``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import accumulate, product
from math import ceil, exp, lgamma, log, pi, prod, sqrt

import numpy as np

from formulations.arrays import FloatArray
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Findings, Outcome, dismiss_if, verifier
from proofs_checks.search import Domain, examine
from proofs_checks.statistics import CUT_OFF, convolved, gathered, mean, sum_law

CLAIMS = Claims()


def queue_path(arrivals: Sequence[int], service: int) -> list[int]:
    """Return ``W^0 = 0, W^1, ...``."""

    def after(waiting: int, come: int) -> int:
        there = waiting + come
        return there - service if there >= service else there

    return list(accumulate(arrivals, after, initial=0))


def reflected_path(arrivals: Sequence[int], service: int, base: int) -> list[int]:
    """Return ``V^0 = base, V^1, ...``."""
    return list(accumulate(arrivals, lambda v, x: max(base, v + x - service), initial=base))


def poisson_law(rate: float) -> FloatArray:
    """Return the Poisson law, truncated where the tail is below `CUT_OFF`."""
    most = ceil(rate + 12 * rate**0.5 + 30)
    return _trimmed(np.array([exp(k * log(rate) - rate - lgamma(k + 1)) for k in range(most)]))


def binomial_law(trials: int, chance: float) -> FloatArray:
    """Return the binomial law."""
    return sum_law(np.array([1 - chance, chance]), trials)


def queue_laws(arrivals: Iterable[FloatArray], service: int) -> Iterator[FloatArray]:
    """Yield the laws of ``W^0, W^1, ...``, one arrival law for each step."""

    def served(there: FloatArray) -> FloatArray:
        after = np.zeros(max(service, len(there) - service))
        after[: len(there) - service] += there[service:] if len(there) > service else 0
        after[: min(service, len(there))] += there[:service]
        return after

    return _laws(arrivals, served)


def reflected_laws(arrivals: Iterable[FloatArray], service: int) -> Iterator[FloatArray]:
    """Yield the laws of ``V − base``, one arrival law for each step."""
    return _laws(
        arrivals, lambda there: np.append(there[: service + 1].sum(), there[service + 1 :])
    )


def _laws(
    arrivals: Iterable[FloatArray], serve: Callable[[FloatArray], FloatArray]
) -> Iterator[FloatArray]:
    law = np.ones(1)
    yield law
    for arrival in arrivals:
        law = _trimmed(serve(convolved(law, arrival)))
        yield law


def mean_path(laws: Iterable[FloatArray]) -> list[float]:
    """Return the mean of each law."""
    return [mean(law) for law in laws]


def tail(law: FloatArray) -> FloatArray:
    """Return ``P(W >= c)`` for c = 0, 1, ..."""
    tails: FloatArray = np.cumsum(law[::-1])[::-1]
    return tails


def _trimmed(law: FloatArray) -> FloatArray:
    """Return a law without its negligible upper tail."""
    kept = np.flatnonzero(law > CUT_OFF * 1e-3)
    return law[: int(kept[-1]) + 1]


# Lemmas 1 to 3: one class in unit steps, with λ mean arrivals and λ prompts served at once.


#: Rounding tolerance for laws computed in floats.
MARGIN = 1e-9


#: Arrivals of each step, and λ.
Path = tuple[tuple[int, ...], int]


def _paths(context: Context) -> Domain[Path]:
    """Yield all short sequences of small arrival numbers."""
    steps, most = context.choose((5, 4), (6, 5), (8, 6))
    return context.domain(
        f"every sequence of {steps} arrivals up to {most - 1}, λ = 1, 2, 3",
        (
            (arrivals, rate)
            for rate in (1, 2, 3)
            for arrivals in product(range(most), repeat=steps)
        ),
    )


UNIT_STEPS = ("W^0 = 0, W' = W + X − λ·1{W + X ≥ λ}", "λ a positive integer")


@CLAIMS.result(
    "fluid.lemma1",
    Mutation("a full step counted as stuck", strict=False),
    Mutation("arrivals of mean 9λ/10", rate=0.9),
    hypotheses=(*UNIT_STEPS, "X^t Poisson(λ)"),
    kind=Kind.IDENTITY,
)
def _lemma1_check(context: Context, *, strict: bool = True, rate: float = 1) -> Outcome:
    """Queue and idle steps.

    Source: fluid paper, Lemma 1 (appendix B.0.1)
    Statement: The mean queue is λ times the mean number of steps in which less than λ were there.
    Formula: E[W^T] = λ·E[T_stuck]
    Summary: An identity of paths; its mean needs E[X] = λ, and λ an integer.
    """

    def stuck(arrivals: tuple[int, ...], service: int) -> int:
        queue = queue_path(arrivals, service)[:-1]
        there = [w + x for w, x in zip(queue, arrivals, strict=True)]
        return sum(n < service if strict else n <= service for n in there)

    def holds(path: Path) -> bool:
        arrivals, service = path
        served = service * (len(arrivals) - stuck(*path))
        return queue_path(arrivals, service)[-1] == sum(arrivals) - served

    def means_agree(service: int) -> bool:
        steps = context.choose(30, 200, 1000)
        arrival = poisson_law(rate * service)
        laws = list(queue_laws([arrival] * steps, service))
        idle = [float(np.convolve(law, arrival)[:service].sum()) for law in laws[:-1]]
        means = mean_path(laws)
        return all(
            abs(total * service - m) < MARGIN * (1 + m)
            for total, m in zip(accumulate(idle, initial=0.0), means, strict=True)
        )

    pathwise = _paths(context).examine("W^T = ΣX − λ(T − T_stuck)", holds)
    means = examine(
        "E[W^T] = λ·E[T_stuck] for every T", "λ = 1, 2, 3, 5, 10; laws by convolution",
        (1, 2, 3, 5, 10), means_agree,
    )  # fmt: skip
    return pathwise, means


@CLAIMS.result(
    "fluid.lemma2",
    Mutation("reflected at λ", base=1),
    Mutation("2λ above the queue", ahead=2),
    hypotheses=UNIT_STEPS,
)
def _lemma2_check(context: Context, *, base: int = 2, ahead: int = 1) -> Outcome:
    """A reflected walk dominates the queue.

    Source: fluid paper, Lemma 2 (appendix B.0.1)
    Statement: The walk reflected at 2λ is at least λ above the queue at all times.
    Formula: W̃^0 = 2λ, W̃' = max{2λ, W̃ + X − λ}  ⇒  W̃^t ≥ W^t + λ
    Summary: Path by path, whatever the arrivals.
    """

    def holds(arrivals: tuple[int, ...], service: int) -> bool:
        pairs = zip(
            reflected_path(arrivals, service, base * service),
            queue_path(arrivals, service),
            strict=True,
        )
        return all(v >= w + ahead * service for v, w in pairs)

    return _paths(context).examine("W̃^t ≥ W^t + λ for all t", holds)


def _late_sums(arrivals: Sequence[int], service: int) -> list[int]:
    """Return ``S^T − S^k`` for k = 0..T."""
    sums = list(accumulate((x - service for x in arrivals), initial=0))
    return [sums[-1] - s for s in sums]


@CLAIMS.result(
    "fluid.lemma3",
    Mutation("λ in place of 2λ", base=1),
    Mutation("steps that are not alike", alike=False),
    kind=Kind.IDENTITY,
)
def _lemma3_check(context: Context, *, base: int = 2, alike: bool = True) -> Outcome:
    """The reflected walk as a maximum.

    Source: fluid paper, Lemma 3 (appendix B.0.1)
    Statement: The reflected walk is 2λ plus the largest of the late sums; in law, plus the largest
        partial sum.
    Formula: W̃^T = 2λ + max(S^T, S^T − S^1, ..., S^T − S^{T−1}, 0) =_d 2λ + max_s (Σ_{r≤s} η^r)^+
    Assumes: S^k = Σ_{r≤k} (X^r − λ); X^t independent, alike (second part)
    Summary: The first part path by path, the second in law only: it reverses time.
    """

    def holds(arrivals: tuple[int, ...], service: int) -> bool:
        end = reflected_path(arrivals, service, 2 * service)[-1]
        return end == base * service + max(_late_sums(arrivals, service))

    def same_law(service: int, chances: tuple[Fraction, ...]) -> bool:
        length = context.choose(4, 5, 6)
        paths = product(range(len(chances)), repeat=length)
        weighed = [(x, prod((chances[k] for k in x), start=Fraction(1))) for x in paths]
        if not alike:
            # Two arrivals in the first step and none later.
            weighed = [((2,) + (0,) * (length - 1), Fraction(1))]
        late = gathered((reflected_path(x, service, 0)[-1], p) for x, p in weighed)
        early = gathered((max(0, *accumulate(k - service for k in x)), p) for x, p in weighed)
        return late == early

    pathwise = _paths(context).examine("W̃^T = 2λ + max(S^T, S^T − S^1, ..., 0)", holds)
    chances = [
        (Fraction(1, 3),) * 3,
        (Fraction(1, 2), Fraction(0), Fraction(1, 4), Fraction(1, 4)),
    ]
    laws = examine(
        "its law is that of 2λ + max_s (η^1 + ... + η^s)^+",
        "two laws of X, λ = 1, 2; in fractions",
        product((1, 2), chances),
        same_law,
    )
    return pathwise, laws


def display_holds(arrivals: Sequence[int], service: int, *, printed: bool = True) -> bool:
    """Return whether ``max(S^T, S^T − S^1, ..., 0) = max_k (Σ_{r = 1 or k}^T ξ^r)^+``."""
    late = _late_sums(arrivals, service)
    right = max(late[0], 0) if printed else max(0, *late[:-1])
    return max(late) == right


@verifier
def verify_display(arrivals: list[int], rate: int) -> str:
    """Confirm that the printed display fails for a sequence of arrivals."""
    dismiss_if(not arrivals or min(arrivals) < 0 or rate < 1 or display_holds(arrivals, rate))
    late = _late_sums(arrivals, rate)
    return f"the left side is {max(late)}, Σ_{{r=1}}^T ξ^r is {late[0]}, whatever k"


@CLAIMS.step(
    "fluid.lemma3-display",
    Mutation("the sum from r = k as printed", as_printed=False),
    Mutation("the sum from r = 1 as corrected", still=True),
    kind=Kind.IDENTITY,
    defect=Defect.MISPRINT,
    verify=verify_display,
)
def _display_check(context: Context, *, as_printed: bool = True, still: bool = False) -> Outcome:
    """The maximum rewritten.

    Source: fluid paper, display after Lemma 3 (appendix B.0.1)
    Statement: max(S^T, S^T − S^1, ..., 0) is the largest positive part of Σ_{r=1}^T ξ^r over k.
    Formula: max(S^T, S^T − S^1, ..., S^T − S^{T−1}, 0) = max_{1≤k≤T} (Σ_{r=1}^T ξ^r)^+
    Assumes: ξ^r = X^r − λ
    Summary: As printed the terms inside the maximum do not depend on k.
    Correction: The sum begins at r = k.
    """
    printed = _paths(context).refute(
        "sum from r = 1", holds=partial(display_holds, printed=as_printed)
    )
    corrected = _paths(context).examine("sum from r = k", partial(display_holds, printed=still))
    return printed, corrected


# Lemmas 4 and 5: the mean of the largest partial sum, and its square-root bound.


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

    def exact(weights: tuple[int, ...], service: int) -> bool:
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
    hypotheses=(*UNIT_STEPS, "X^t Poisson(λ)"),
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


@verifier
def verify_constant(steps: int) -> str:
    """Confirm that the sum is above 3/2·√T from some T on."""
    # Σ k^{−1/2} ≥ 2√(T+1) − 2, and that is at least 3/2·√T as soon as √T/2 ≥ 2.
    dismiss_if(steps < 16)
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
    printed = context.refute(
        "Σ k^{−1/2} comes within 1.5·√T", f"T = 16..{most}", range(16, most + 1),
        holds=lambda t: sums[t - 1] <= limit * sqrt(t), found="every T in turn",
    )  # fmt: skip

    def corrected(rate: int, steps: int) -> bool:
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
