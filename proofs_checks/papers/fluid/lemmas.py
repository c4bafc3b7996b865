"""Lemmas 1 to 3: one class in unit steps, λ arrivals on average, λ served at once."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate, product
from math import prod

import numpy as np

from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.exact_laws import gathered
from proofs_checks.papers.fluid.queues import (
    mean_path,
    poisson_law,
    queue_laws,
    queue_path,
    reflected_path,
)
from proofs_checks.search import examine, refute

CLAIMS = Claims()


#: Room for rounding where laws are computed in floats.
MARGIN = 1e-9


#: Arrivals of each step, and λ.
Path = tuple[tuple[int, ...], int]


def _paths(context: Context) -> Iterator[Path]:
    steps = context.choose(5, 6, 8)
    for service in (1, 2, 3):
        for arrivals in product(range(context.choose(4, 5, 6)), repeat=steps):
            yield arrivals, service


def _made(context: Context) -> str:
    return (
        f"every sequence of {context.choose(5, 6, 8)} arrivals up to "
        f"{context.choose(4, 5, 6) - 1}, λ = 1, 2, 3"
    )


QUEUE = ("W^0 = 0, W' = W + X − λ·1{W + X ≥ λ}", "λ a positive integer")


@CLAIMS.result(
    "fluid.lemma1",
    Mutation("a full step counted as stuck", strict=False),
    Mutation("arrivals of mean 9λ/10", rate=0.9),
    hypotheses=(*QUEUE, "X^t Poisson(λ)"),
    kind=Kind.IDENTITY,
)
def _lemma1_check(context: Context, *, strict: bool = True, rate: float = 1) -> Outcome:
    """Queue and idle steps.

    Source: fluid paper, Lemma 1 (appendix B.0.1)
    Statement: The mean queue is λ times the mean number of steps in which less than λ were there.
    Formula: E[W^T] = λ·E[T_stuck]
    Summary: An identity of paths; its mean needs E[X] = λ, and λ an integer.
    """

    def stuck(path: Path) -> int:
        arrivals, service = path
        queue = queue_path(arrivals, service)[:-1]
        there = [w + x for w, x in zip(queue, arrivals, strict=True)]
        return sum(n < service if strict else n <= service for n in there)

    def holds(path: Path) -> bool:
        arrivals, service = path
        served = service * (len(arrivals) - stuck(path))
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

    pathwise = examine("W^T = ΣX − λ(T − T_stuck)", _made(context), _paths(context), holds)
    means = examine(
        "E[W^T] = λ·E[T_stuck] for every T", "λ = 1, 2, 3, 5, 10; laws by convolution",
        (1, 2, 3, 5, 10), means_agree,
    )  # fmt: skip
    return pathwise, means


@CLAIMS.result(
    "fluid.lemma2",
    Mutation("reflected at λ", base=1),
    Mutation("2λ above the queue", ahead=2),
    hypotheses=QUEUE,
)
def _lemma2_check(context: Context, *, base: int = 2, ahead: int = 1) -> Outcome:
    """A reflected walk dominates the queue.

    Source: fluid paper, Lemma 2 (appendix B.0.1)
    Statement: The walk reflected at 2λ is at least λ above the queue at all times.
    Formula: W̃^0 = 2λ, W̃' = max{2λ, W̃ + X − λ}  ⇒  W̃^t ≥ W^t + λ
    Summary: Path by path, whatever the arrivals.
    """

    def holds(path: Path) -> bool:
        arrivals, service = path
        pairs = zip(
            reflected_path(arrivals, service, base * service),
            queue_path(arrivals, service),
            strict=True,
        )
        return all(v >= w + ahead * service for v, w in pairs)

    return examine("W̃^t ≥ W^t + λ for all t", _made(context), _paths(context), holds)


def _late_sums(arrivals: tuple[int, ...], service: int) -> list[int]:
    """``S^T − S^k`` for k = 0..T."""
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

    def holds(path: Path) -> bool:
        arrivals, service = path
        end = reflected_path(arrivals, service, 2 * service)[-1]
        return end == base * service + max(_late_sums(arrivals, service))

    def same_law(case: tuple[int, tuple[Fraction, ...]]) -> bool:
        service, chances = case
        length = context.choose(4, 5, 6)
        paths = product(range(len(chances)), repeat=length)
        weighed = [(x, prod((chances[k] for k in x), start=Fraction(1))) for x in paths]
        if not alike:
            # Two arrivals at first and none later.
            weighed = [((2,) + (0,) * (length - 1), Fraction(1))]
        late = gathered((reflected_path(x, service, 0)[-1], p) for x, p in weighed)
        early = gathered((max(0, *accumulate(k - service for k in x)), p) for x, p in weighed)
        return late == early

    pathwise = examine(
        "W̃^T = 2λ + max(S^T, S^T − S^1, ..., 0)", _made(context), _paths(context), holds
    )
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


def display_holds(arrivals: tuple[int, ...], service: int, *, printed: bool = True) -> bool:
    """Whether ``max(S^T, S^T − S^1, ..., 0) = max_k (Σ_{r = 1 or k}^T ξ^r)^+``."""
    late = _late_sums(arrivals, service)
    right = max(late[0], 0) if printed else max(0, *late[:-1])
    return max(late) == right


def verify_display(data: Data) -> str | None:
    """Confirm that the display fails."""
    arrivals, service = tuple(data["arrivals"]), data["rate"]
    if not arrivals or min(arrivals) < 0 or service < 1 or display_holds(arrivals, service):
        return None
    late = _late_sums(arrivals, service)
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
    made = _made(context)
    printed = refute(
        "sum from r = 1",
        made,
        _paths(context),
        verify_display,
        lambda p: {"arrivals": list(p[0]), "rate": p[1]},
        holds=lambda p: display_holds(*p, printed=as_printed),
    )
    corrected = examine(
        "sum from r = k", made, _paths(context), lambda p: display_holds(*p, printed=still)
    )
    return printed, corrected
