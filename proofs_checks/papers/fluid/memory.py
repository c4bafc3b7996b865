"""Memory of Nested WAIT: full batches (11), (12), (14), segments, and the chance to exceed it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import accumulate, pairwise, product
from math import floor, log

import numpy as np

from formulations.arrays import FloatArray
from formulations.fluid import FluidWorker, equilibrium
from formulations.thresholds import (
    LogArgument,
    NestedProblem,
    drift_exponent,
    equal_boundaries,
    equal_plans,
    plan,
    policy_memory,
)
from formulations.thresholds.buffer import printed_segment_memory
from proofs_checks.claim import C, Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Findings, Outcome, dismiss_if, verifier
from proofs_checks.papers.fluid.equilibrium import (
    Case,
    printed_policy_memory,
    random_cases,
    stage_sum,
)
from proofs_checks.papers.fluid.queues import binomial_law
from proofs_checks.search import examine, plain
from proofs_checks.statistics import mean_estimate

CLAIMS = Claims()


#: Prompt, output lengths and thresholds.
Full = tuple[int, tuple[int, ...], tuple[int, ...]]


def full_batch(prompt: int, outputs: Sequence[int], thresholds: Sequence[int]) -> int:
    """Tokens of a batch with n_i prompts at each stage of segment i, summed by stage."""
    begins = (0, *(output + 1 for output in outputs))
    return sum(
        n * stage_sum(prompt, end, begin)
        for n, begin, end in zip(thresholds, begins, outputs, strict=False)
    )


def closed_form(
    prompt: int, outputs: Sequence[int], thresholds: Sequence[int], *, half: bool = True
) -> Fraction:
    """``n_1(l'_1+1)(l + l'_1/2) + Σ n_i (l'_i − l'_{i−1})(l + (l'_{i−1} + 1 + l'_i)/2)``."""
    total = Fraction(thresholds[0] * (outputs[0] + 1)) * (prompt + Fraction(outputs[0], 2))
    for n, before, end in zip(thresholds[1:], outputs, outputs[1:], strict=False):
        total += n * (end - before) * (prompt + Fraction(before + half + end, 2))
    return total


@verifier
def verify_eq11(prompt: int, outputs: list[int], thresholds: list[int]) -> str:
    """Confirm that (11) is not the memory of a full batch."""
    full = prompt, tuple(outputs), tuple(thresholds)
    dismiss_if(len(outputs) != len(thresholds) or len(outputs) < 2)
    dismiss_if(min(prompt, *thresholds, *outputs) < 1)
    printed = printed_policy_memory(*full)
    dismiss_if(sorted(set(outputs)) != outputs or printed == full_batch(*full))
    return f"(11) gives {printed}, a full batch has {full_batch(*full)} tokens"


def meets_equilibrium(case: Case) -> bool:
    """Return whether ``n_i = ΔT*·Λ_i`` with a common prompt length gives M* in the closed form."""
    prompt = case.rows[0][1]
    outputs = tuple(accumulate(output for _, _, output in case.rows))
    rows = tuple((rate, prompt, o) for (rate, _, _), o in zip(case.rows, outputs, strict=True))
    nested = Case(rows, case.fixed, 2 * Case(rows, 1, 1).work_rate)
    reach = list(accumulate(rate for rate, _, _ in reversed(rows)))[::-1]
    problem = NestedProblem.single(
        prompt, outputs, tuple(map(Fraction, (r[0] for r in rows))), nested.worker()
    )
    real = [nested.time * rate for rate in reach]
    total = sum(n * w for n, w in zip(real, problem.weights, strict=True))
    return total == equilibrium(nested.classes, nested.worker()).memory


def _fulls(context: Context) -> Iterator[Full]:
    rng = context.rng
    yield 10, (20, 40, 80, 160), (15, 14, 12, 8)
    yield 1, (1, 2), (4, 3)
    yield 5, tuple(range(1, 31)), (9,) * 30
    for _ in range(context.choose(60, 600, 6000)):
        first, *more = rng.integers(1, 10, rng.integers(2, 6)).tolist()
        outputs = tuple(accumulate(more, initial=first))
        yield int(rng.integers(1, 50)), outputs, tuple(rng.integers(1, 20, len(outputs)).tolist())


_SEGMENTS = ("l'_1 < ... < l'_m", "one prompt length l")


@CLAIMS.formula(
    "fluid.eq11",
    Mutation("l'_{j−1} + l'_j in place of L'_j only", half=False),
    Mutation("the correction as printed", printed=False),
    hypotheses=_SEGMENTS,
    kind=Kind.IDENTITY,
    defect=Defect.FORMULA,
    verify=verify_eq11,
)
def _eq11_check(context: Context, *, half: bool = True, printed: bool = True) -> Outcome:
    """Memory of a full batch of Nested WAIT.

    Source: fluid paper, eq. (11) (section 5.2) and appendix C
    Statement: A batch with n_i prompts per stage of segment i has M^π tokens.
    Formula: M^π = Σ_j n_j(l + L'_j/2)(l'_j − l'_{j−1}),  L'_j = Σ_{k≤j} l'_k
    Summary: Too small for m = 2 always (13.5 instead of 21 for l = 1, l' = (1, 2), n = (4, 3));
        too large for many segments. For n_i = ΔT*·Λ_i the corrected form is M*, (11) is not.
    Correction: M^π = n_1(l'_1+1)(l + l'_1/2) + Σ_{i≥2} n_i(l'_i − l'_{i−1})(l +
        (l'_{i−1}+1+l'_i)/2): segments are runs of stages, not of cumulative sums, and the first
        has stage 0 as well.
    """
    rng = context.rng
    fulls = list(_fulls(context))
    domain = context.domain(
        "the thresholds of section 6.2, a small instance, random ones; stage by stage", fulls
    )

    def corrected(prompt: int, outputs: tuple[int, ...], thresholds: tuple[int, ...]) -> bool:
        problem = NestedProblem.single(
            prompt, outputs, (Fraction(1),) * len(outputs), Case((), 1, 1).worker()
        )
        weighed = policy_memory(problem.weights, thresholds)
        full = prompt, outputs, thresholds
        return full_batch(*full) == closed_form(*full, half=half) == weighed

    fits = examine(
        "with n_i = ΔT*·Λ_i it is M* of (6)", "random classes of one prompt length",
        random_cases(rng, context.choose(20, 200, 2000)), meets_equilibrium,
    )  # fmt: skip
    as_printed = domain.refute(
        "(11) is the memory of a full batch",
        holds=lambda *f: (printed_policy_memory if printed else closed_form)(*f) == full_batch(*f),
    )
    as_corrected = domain.examine("the corrected form is", corrected)
    return Findings(
        as_printed,
        as_corrected,
        fits,
        numbers={
            "(11) for 15:14:12:8": float(printed_policy_memory(*fulls[0])),
            "exact": full_batch(*fulls[0]),
        },
    )


def waiting_tokens(prompt: int, outputs: tuple[int, ...], thresholds: tuple[int, ...]) -> int:
    """Return ``Σ_{j >= 2} n_j (l + l'_{j−1})``: the second term of (12)."""
    return sum(n * (prompt + end) for n, end in zip(thresholds[1:], outputs, strict=False))


@CLAIMS.formula(
    "fluid.eq12",
    Mutation("segment 1 counted as well", first_too=True),
    Mutation("twice the term", part=2),
    hypotheses=_SEGMENTS,
)
def _eq12_check(context: Context, *, first_too: bool = False, part: int = 1) -> Outcome:
    """Order of the memory of (12).

    Source: fluid paper, second line of (12) (section 5.2)
    Statement: The memory of (12) is O(2M^π + Σ_j (l + l'_{j−1})θ_j^{−1}·ln(mζS/δ)).
    Formula: Σ_{j≥2} (l + l'_{j−1})·n_j ≤ M^π
    Summary: Segment j ≥ 2 has a stage at least, where a prompt holds more than while it waits
        before.
    Reading: sums from j = 2: there is no θ_1.
    """

    def holds(full: Full) -> bool:
        tokens = waiting_tokens(*full)
        if first_too:
            # A sum from j = 1 would include the queue of fresh prompts before segment 1.
            tokens += full[2][0] * (full[0] + full[1][0])
        return part * tokens <= full_batch(*full) and part * tokens <= printed_policy_memory(*full)

    return examine(
        "Σ_{j≥2} n_j(l + l'_{j−1}) ≤ M^π, exact and by (11)",
        "the thresholds of section 6.2, a small instance, a segment per length, random ones",
        _fulls(context),
        holds,
    )


#: Prompt, width ``m/L`` of the segments, thresholds.
Merged = tuple[int, int, tuple[int, ...]]


def exact_memory(prompt: int, width: int, thresholds: tuple[int, ...]) -> int:
    """Tokens of a full batch, ``l'_j = j``: segment i ends at stage iΔ, segment 1 has stage 0."""
    ends = tuple(width * (i + 1) for i in range(len(thresholds)))
    return full_batch(prompt, ends, thresholds)


def _as_problem(prompt: int, width: int, thresholds: tuple[int, ...]) -> NestedProblem:
    outputs = tuple(range(1, width * len(thresholds) + 1))
    rates = (Fraction(1),) * len(outputs)
    ends = equal_boundaries(outputs, len(thresholds))
    return NestedProblem.single(
        prompt, outputs, rates, FluidWorker(Fraction(1), Fraction(0), 1), ends
    )


@verifier
def verify_eq14(prompt: int, width: int, thresholds: list[int]) -> str:
    """Confirm that the printed memory is not that of a full batch."""
    merged = prompt, width, tuple(thresholds)
    dismiss_if(len(thresholds) < 2 or min(prompt, width, *thresholds) < 1)
    printed = printed_segment_memory(*merged)
    dismiss_if(printed == exact_memory(*merged))
    return f"printed {printed}, a full batch has {exact_memory(*merged)} tokens"


@CLAIMS.formula(
    "fluid.eq14",
    Mutation("stage 0 left out of the correction", first=0),
    Mutation("the exact memory as printed", second=True),
    kind=Kind.IDENTITY,
    defect=Defect.FORMULA,
    verify=verify_eq14,
)
def _eq14_check(context: Context, *, first: int = 1, second: bool = False) -> Outcome:
    """Memory of a full batch with merged segments.

    Source: fluid paper, eq. (14) and the M^π after it (section 7.2)
    Statement: With L segments of ΔL = m/L types each, a full batch has M^π tokens.
    Formula: M^π = Σ_{i=1}^L n_i·(l + (i/2)·ΔL)·ΔL
    Assumes: l'_j = j; L divides m, L ≥ 2
    Summary: The mean stage of segment i is (i − 1/2)ΔL + 1/2, not iΔL/2, and stage 0 is missing:
        always too small, by n_1·l + Σ_i n_i·ΔL·((i − 1)·ΔL + 1)/2.
    Correction: M^π = n_1·l + Σ_i n_i·ΔL·(l + (i − 1/2)·ΔL + 1/2): the printed value is too small,
        whatever the thresholds.
    """
    rng = context.rng
    cases: list[Merged] = [
        (
            int(rng.integers(1, 70)),
            int(rng.integers(1, 12)),
            tuple(rng.integers(1, 20, int(rng.integers(2, 6))).tolist()),
        )
        for _ in range(context.choose(60, 600, 6000))
    ]

    def corrected(merged: Merged) -> bool:
        prompt, width, thresholds = merged
        total = (
            sum(
                n * width * (prompt + Fraction((2 * i - 1) * width + 1, 2))
                for i, n in enumerate(thresholds, 1)
            )
            + first * thresholds[0] * prompt
        )
        weights = _as_problem(*merged).weights
        weighed = sum(n * w for n, w in zip(thresholds, weights, strict=True))
        return total == exact_memory(*merged) == weighed

    def alike(merged: Merged) -> bool:
        problem = _as_problem(merged[0], 1, merged[2])
        own = problem.with_boundaries(problem.group.outputs)
        return problem.conditions == own.conditions

    def too_small(prompt: int, width: int, thresholds: tuple[int, ...]) -> bool:
        merged = prompt, width, thresholds
        lacking = exact_memory(*merged) - printed_segment_memory(*merged)
        terms = (n * width * ((i * width) + 1) for i, n in enumerate(thresholds))
        return lacking == thresholds[0] * prompt + Fraction(sum(terms), 2)

    printed = context.refute(
        "M^π of (14)",
        "random segments, stage by stage",
        cases,
        holds=lambda *c: (
            (exact_memory if second else printed_segment_memory)(*c) == exact_memory(*c)
        ),
    )
    domain = context.domain("the same", cases)
    as_corrected = domain.examine("the corrected form", corrected)
    more = domain.examine("what (14) lacks", too_small)
    another = examine("with L = m and l'_j = j, (14) is (10)", "the same sizes", cases, alike)
    return printed, as_corrected, more, another


def even_problem(longest: int, types: int, segments: int | None = None) -> NestedProblem:
    """One request per second, lengths spread evenly over 1..longest, d0 = 50 s, d1 = 1 µs.

    By a change of time: 1000 requests per second, d0 = 50 ms, d1 = 1 ns.
    """
    outputs = tuple(longest * j // types for j in range(1, types + 1))
    problem = NestedProblem.single(
        1, outputs, (Fraction(1, types),) * types, FluidWorker(Fraction(50), Fraction(1, 10**6), 1)
    )
    if segments is None:
        return problem
    return problem.with_boundaries(equal_boundaries(outputs, segments))


def required(longest: int, types: int, segments: int | None = None) -> int | None:
    """Return the memory of (12), or (15), with the least thresholds, T = 10⁵ s and δ = 1/10."""
    least = plan(
        even_problem(longest, types, segments),
        duration=10**5,
        probability=Fraction(1, 10),
        argument=LogArgument.THEOREM,
    )
    return None if least is None else least.memory


@verifier
def verify_remark1(longest: int, types: int) -> str:
    """Confirm that squaring the number of types more than doubles the memory of (12)."""
    dismiss_if(types < 2 or longest < types**2 or longest > 300)
    few, many = required(longest, types), required(longest, types**2)
    dismiss_if(few is None or many is None or many <= 2 * few)
    return (
        f"1000 requests a second, d0 = 50 ms, d1 = 1 ns, lengths spread over 1..{longest}: {few} "
        f"tokens with {types} types, {many} with {types**2}; a + b·ln m would at most double"
    )


@CLAIMS.remark(
    "fluid.remark1",
    Mutation("a segment per type in the correction", segments=None),
    Mutation("two segments as printed", printed=2),
    defect=Defect.HYPOTHESIS,
    verify=verify_remark1,
)
def _remark1_check(
    context: Context, *, segments: int | None = 2, printed: int | None = None
) -> Outcome:
    """Dependence of the guarantee on the number of types.

    Source: fluid paper, section 2.1, text on the number of types
    Statement: The theoretical guarantees depend on the number m of types weakly (logarithmically),
        and primarily on total rate and lengths.
    Formula: memory of (12) = a + b·ln m for given total rate and range of lengths
    Assumes: a segment per type; integer thresholds that satisfy (10), the least
    Summary: Each type adds a summand to the second and third terms of (12): the second may grow to
        M^π, which stays, and the third grows with m or faster, as n_j and n_{j−1}p_j come closer
        and θ_j falls.
    Reading: of the one guarantee in which m occurs, the memory (12). Remark (i) of section 5.2,
        that performance depends little on m, speaks of throughput and latency and is not touched.
    Correction: It holds for a fixed number of segments, (15): then m enters through ln m only.
        With a segment per type the second and third terms of (12) have m − 1 summands.
    """
    cases = [(types**2, types) for types in context.choose((6, 8), (6, 8, 10), (6, 8, 10, 12))]

    def at_most_double(number: int | None, longest: int, types: int) -> bool:
        few, many = required(longest, types, number), required(longest, types**2, number)
        return few is not None and many is not None and many <= 2 * few

    domain = context.domain(
        "lengths 1..m² spread evenly, least thresholds (n_1 = 51); m and m² types", cases
    )
    as_printed = domain.refute(
        "a segment per type: (12) at most doubles", holds=partial(at_most_double, printed)
    )
    corrected = domain.examine(
        "two segments: (15) at most doubles", partial(at_most_double, segments)
    )
    return as_printed, corrected


@CLAIMS.remark(
    "fluid.remark2", Mutation("sixty types, one per length", types=60), kind=Kind.STATISTICAL
)
def _remark2_check(context: Context, *, types: int | None = None) -> Outcome:
    """The first term dominates.

    Source: fluid paper, remark (ii) (section 5.2)
    Statement: The memory requirement (12) is generally dominated by its first term M^π.
    Formula: M^π > half of (12), generally
    Assumes: least thresholds that satisfy (10)
    Summary: Random instances of 2 to 5 types with gaps up to 19 tokens, loads up to 0.95, least
        thresholds, T = 1000, δ = 1/10. With a type for every length it is the other way round.
    Reading: 'generally' as: in most of the random instances described.
    """
    rng = context.rng
    shares = []
    for _ in range(context.choose(25, 300, 3000)):
        number = types or int(rng.integers(2, 6))
        widths = rng.integers(1, 20, number) if types is None else [1] * number
        outputs = tuple(sum(widths[: j + 1]) for j in range(number))
        rates = tuple(Fraction(int(x)) for x in rng.integers(1, 20, number))
        idle = NestedProblem.single(
            int(rng.integers(1, 30)),
            tuple(map(int, outputs)),
            rates,
            FluidWorker(Fraction(1), Fraction(0), 1),
        )
        work = sum(a * w for a, w in zip(idle.arriving, idle.weights, strict=True))
        load = Fraction(int(rng.integers(1, 95)), 100)
        problem = NestedProblem.single(
            idle.group.prompt, idle.group.outputs, rates, FluidWorker(Fraction(1), load / work, 1)
        )
        least = plan(problem, duration=1000, probability=Fraction(1, 10))
        if least is not None and least.memory is not None:
            shares.append(float(2 * least.buffer.policy_memory > least.memory))
    estimate = mean_estimate(
        "share of instances in which M^π is more than half of (12)", shares, "lower end above 1/2",
        lambda low, high: low > 0.5,
    )  # fmt: skip
    return Findings(estimates=(estimate,))


# Section 7.2: the memory of (15) against the number of segments, as figures 16 to 18 show it.


#: Rates of the ten bins of 50 output tokens, section 6.2.
_BINS = (23, 11, 8, 7, 6, 4, 3, 2, 1, 1)


def figure_problem(total: int, d0: Fraction, d1: Fraction) -> NestedProblem:
    """Problem of section 7.2: lengths 1..500, prefill 62, rates of section 6.2's bins."""
    rates = tuple(Fraction(total * _BINS[j // 50], 50 * sum(_BINS)) for j in range(500))
    return NestedProblem.single(62, tuple(range(1, 501)), rates, FluidWorker(d0, d1, 1))


#: Total rate, T and δ of each half of the figures.
_FIGURES = {
    "16 left": (50, 200, Fraction(1, 10)),
    "17 left": (500, 200, Fraction(1, 10)),
    "18 left": (50, 20, Fraction(1, 1000)),
    "16 right": (50, 200, Fraction(1, 10**5)),
    "17 right": (500, 200, Fraction(1, 10**5)),
    "18 right": (50, 2000, Fraction(1, 1000)),
}


def _curve(
    name: str, d0: Fraction, load: Fraction, counts: Sequence[int]
) -> dict[int, tuple[int, int]]:
    """Return M^π and the total of (15) by L, if stable; ``load`` is d1 times the rate."""
    total, duration, probability = _FIGURES[name]
    plans = equal_plans(
        figure_problem(total, d0, load / total), counts, duration=duration,
        probability=probability, argument=LogArgument.FIGURES,
    )  # fmt: skip
    return {
        count: (best.buffer.policy_memory, best.memory)
        for count, best in plans.items()
        if best is not None and best.memory is not None
    }


def is_u_shaped(totals: Sequence[int]) -> bool:
    """Return whether the values decrease and then increase, both at least once."""
    least = totals.index(min(totals))
    falls = all(a > b for a, b in pairwise(totals[: least + 1]))
    rises = all(a < b for a, b in pairwise(totals[least:]))
    return falls and rises and 0 < least < len(totals) - 1


@CLAIMS.experiment(
    "fluid.figures16-18",
    Mutation("ten segments and more only", counts=(10, 20, 25, 50)),
    Mutation("M^π more than 95 % of the total", share=0.95),
    kind=Kind.STATISTICAL,
)
def _figures_check(
    context: Context, *, counts: Sequence[int] = (1, 2, 4, 5, 10, 20, 25, 50), share: float = 0.5
) -> Outcome:
    """Memory against the number of segments.

    Source: fluid paper, figures 16 to 18 (section 7.2)
    Statement: The memory of (15) is driven by its first term and U-shaped in L.
    Formula: M^π + Σ (l + l'_{j−1})n_j + Σ θ_j^{−1}(l + l'_{j−1})ln((L−1)(T+1)/δ) over L
    Assumes: m = 500 lengths, prefill 62
    Summary: Both are seen for most constants, not for all: with d0 and d1 drawn the curve may rise
        twice, and which L is best changes.
    Reading: qualitatively, and supported at most: the paper gives neither d0 nor d1, nor its
        thresholds, nor the exact rates. Constants drawn at random (d0 = 5 to 40 ms, d1 = 65 to 260
        ns at rate 50, less in proportion at 500), bins of section 6.2, the least integer
        thresholds, the full batch's memory, L up to 50.
    """
    shaped, driven, best = [], [], []
    names = list(_FIGURES)
    for draw in range(context.choose(12, 40, 200)):
        # The paper gives neither constant. Tried: d0 = 5 to 40 ms, d1 = 65 to 260 ns at rate 50.
        d0 = Fraction(int(context.rng.integers(1, 9)), 200)
        load = Fraction(13 * int(context.rng.integers(1, 5)), 4 * 10**6)
        points = _curve(names[draw % len(names)], d0, load, counts)
        totals = [total for _, total in points.values()]
        shaped.append(float(is_u_shaped(totals)))
        driven.append(float(all(first > share * total for first, total in points.values())))
        best.append(list(points)[totals.index(min(totals))])
    rule = "lower end above 1/2"
    estimates = (
        mean_estimate(
            "share of draws in which the total falls and then rises with L", shaped, rule,
            lambda low, high: low > 0.5,
        ),
        mean_estimate(
            "share of draws in which M^π is more than half of the total at every L", driven, rule,
            lambda low, high: low > 0.5,
        ),
    )  # fmt: skip
    numbers = {"least of the best L": min(best), "greatest of the best L": max(best)}
    return Findings(estimates=estimates, numbers=numbers)


#: Batches between changes of rates.
_PERIOD = 7


@dataclass(frozen=True)
class TwoSegments:
    """Two segments; segment 1 ends at stage ``output``, segment 2 has ``width`` stages.

    Parameters
    ----------
    prompt, output, width : int
        ``l``, last stage of segment 1, stages of segment 2.
    thresholds : tuple of int
        ``n_1 > n_2 > n_1 P_2``.
    rates : tuple of (int, int)
        Relative rates of the types of segments 1 and 2. Several pairs alternate, each for some
        batches. Absolute rates are low enough for the first part of (10).
    batches : int
        ``S``.
    inverse : int
        ``1/δ``.
    """

    prompt: int
    output: int
    width: int
    thresholds: tuple[int, int]
    rates: tuple[tuple[int, int], ...]
    batches: int
    inverse: int

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """Share ``P_2`` of the requests that go on to segment 2, for each pair of rates."""
        return tuple(Fraction(go, stay + go) for stay, go in self.rates)

    @property
    def full(self) -> int:
        """Tokens of a full batch."""
        return full_batch(self.prompt, (self.output, self.output + self.width), self.thresholds)

    @property
    def applies(self) -> bool:
        """Whether ``n_1 > n_2 > n_1 P_2`` for the largest P_2, segments fill, and rates change."""
        first, second = self.thresholds
        fills = self.batches > self.output + self.width + _PERIOD * (len(self.rates) - 1)
        return first > second > first * max(self.shares) and fills

    def allowance(self, count: int) -> float:
        """Return ``n_2 + ln(count·S/δ)/θ_2``: the queue that (12) allows for."""
        theta = drift_exponent(*self.thresholds, max(self.shares))
        return self.thresholds[1] + log(count * self.batches * self.inverse) / theta

    def arrivals(self) -> Iterator[FloatArray]:
        """Yield the laws of the transfers to segment 2 within S batches."""
        laws = [binomial_law(self.thresholds[0], float(share)) for share in self.shares]
        # The first l'_1 + 1 batches fill segment 1; no batch follows the last transfer.
        for s in range(self.batches - self.output - 1):
            yield laws[(s // _PERIOD) % len(laws)]

    def exceeds(self, limit: float, *, when_full: bool) -> float:
        """Return ``P(W_2 > limit at some batch)`` over S batches, by convolution.

        Parameters
        ----------
        limit : float
            Limit on the queue that is left after forming a batch.
        when_full : bool
            Count only batches at which all stages of segment 2 are full: the segment has been
            served as often before as it has further stages.
        """
        second, kept = self.thresholds[1], max(0, floor(limit) + 1)
        cold = self.width - 1 if when_full else 0
        laws = [np.zeros(1) for _ in range(cold + 1)]
        laws[0] = np.ones(1)
        for arrival in self.arrivals():
            come = [np.convolve(law, arrival) for law in laws]
            left = [there[:second] for there in come]
            served = [there[second:] for there in come]
            served[cold] = served[cold][:kept]
            for k in range(cold):
                left[k + 1] = _added(left[k + 1], served[k])
            laws = [*left[:cold], _added(left[cold], served[cold])]
            if not when_full:
                laws[0] = laws[0][:kept]
        return 1 - float(sum(law.sum() for law in laws))


def _added(first: FloatArray, second: FloatArray) -> FloatArray:
    total = np.zeros(max(len(first), len(second), 1))
    total[: len(first)] += first
    total[: len(second)] += second
    return total


def verify_overflow(data: Data, *, varying: bool) -> str | None:
    """Confirm that the memory of (12) with (11) is exceeded with probability above 2δ."""
    case = TwoSegments(
        data["prompt"], data["output"], 1, tuple(data["thresholds"]),
        tuple((stay, go) for stay, go in data["rates"]), data["batches"], data["inverse"],
    )  # fmt: skip
    if len(case.thresholds) != 2 or len(case.rates) != 1 + varying or case.batches > 400:
        return None
    if min(case.prompt, case.output, *case.thresholds, *(min(pair) for pair in case.rates)) < 1:
        return None
    if case.inverse < _INVERSE or len(set(case.shares)) != len(case.rates) or not case.applies:
        return None
    chance = printed_chance(case)
    if chance <= 2 / case.inverse:
        return None
    queue = (case.prompt + case.output) * case.allowance(2)
    by_the_words = case.exceeds(case.allowance(2), when_full=True)
    shares = ", ".join(map(str, case.shares))
    return (
        f"l' = ({case.output}, {case.output + 1}), P_2 = {shares}, n = {case.thresholds}, δ = "
        f"1/{case.inverse}: (12) with (11) gives {float(_printed(case)) + queue:.2f}; a full "
        f"batch alone has {case.full}, and within {case.batches} batches more than the memory is "
        f"needed with probability {chance:.3f} at least (more than {case.full + queue:.2f}, which "
        f"is (12) with a full batch for M^π, with probability {by_the_words:.1g})"
    )


#: δ is at most 1/10.
_INVERSE = 10


def _printed(case: TwoSegments) -> Fraction:
    return printed_policy_memory(
        case.prompt, (case.output, case.output + case.width), case.thresholds
    )


def printed_chance(case: TwoSegments) -> float:
    """Return a lower bound on the probability that the memory of (12) with (11) is exceeded."""
    spare = float(_printed(case) - case.full)
    return case.exceeds(case.allowance(2) + spare / (case.prompt + case.output), when_full=True)


def buffer_suffices(case: TwoSegments, *, buffer: float = 1) -> bool:
    """Return whether W_2 stays within ``n_2 + ln(S/δ)/θ_2`` with probability at least 1 − δ."""
    limit = case.thresholds[1] + buffer * (case.allowance(1) - case.thresholds[1])
    return case.exceeds(limit, when_full=False) <= 1 / case.inverse


def _check(
    context: Context,
    *,
    rates: Sequence[tuple[tuple[int, int], ...]],
    buffer: float = 1,
    fixed: bool = False,
) -> Outcome:
    cases = [
        TwoSegments(prompt, output, 1, thresholds, pairs, batches, _INVERSE)
        for prompt, output, thresholds, pairs, batches in product(
            (1, 5), (1, 2), ((2, 1), (4, 3), (10, 9), (6, 4)), rates,
            context.choose((60,), (60, 300), (60, 300, 1000)),
        )
    ]  # fmt: skip
    domain = context.domain(
        "l = 1, 5, l'_1 = 1, 2, four pairs of thresholds, some P_2, δ = 1/10; by convolution",
        cases,
    )

    def printed(case: TwoSegments) -> bool:
        if fixed:
            return case.exceeds(case.allowance(2), when_full=True) <= 1 / case.inverse
        return printed_chance(case) <= 2 / case.inverse

    suffices = partial(buffer_suffices, buffer=buffer)
    as_printed = domain.refute(
        "exceeded with probability at most δ, or even 2δ",
        lambda c: {name: part for name, part in plain(c).items() if name != "width"},
        holds=printed,
        applies=lambda c: c.applies,
    )
    corrected = domain.examine("with the memory of a full batch", suffices, lambda c: c.applies)
    return Findings(
        as_printed,
        corrected,
        summary="For two segments (11) lacks so much that the buffer cannot make up for it. With "
        "the full batch's memory, (m − 1)S in the logarithm is enough.",
    )


def _claim(
    claim_id: str, rates: Sequence[tuple[tuple[int, int], ...]], *, varying: bool
) -> Callable[[C], C]:
    """Decorate the texts of a theorem on memory: claim it for these rates of two segments."""
    return CLAIMS.result(
        claim_id,
        Mutation("an eighth of the deviation in the correction", buffer=0.125),
        Mutation("the full batch's memory as printed", fixed=True),
        check=partial(_check, rates=rates),
        defect=Defect.FORMULA,
        verify=partial(verify_overflow, varying=varying),
    )


@_claim("fluid.theorem2-memory", (((9, 1),), ((1, 1),), ((3, 2),)), varying=False)
def _theorem2_memory() -> None:
    """Memory that suffices with probability 1 − δ.

    Source: fluid paper, Theorem 2 (section 5.2)
    Statement: With thresholds that satisfy (10) and the memory of (12), θ_j of (16), memory is not
        exceeded on [0, T] with probability at least 1 − δ.
    Formula: M ≥ M^π + Σ_{j≥2} (l + l'_{j−1})(n_j + θ_j^{−1}·ln(mS/δ))
    Assumes: l'_1 < ... < l'_m; one prompt length l; n_{j−1} > n_j > n_{j−1}p_j, so that (16) has a
        root; M^π of (11); δ ≤ 1/10
    Reading: S batches, few enough for [0, T]; arrivals slow enough for the first part of (10). The
        refutation is of the sum (11), which appendix C repeats. By the words before it, 'exactly
        n_i prompts per stage', M^π is that of a full batch, and the statement holds, as corrected.
    Correction: With M^π the memory of a full batch; ln((m−1)S/δ), as in appendix C, is enough. (If
        n_j ≥ n_{j−1}, (16) has no root and fewer than n_j ever wait: no deviation is needed.) S
        must be a bound on the number of batches that is known beforehand.
    """


@_claim(
    "fluid.theorem3-memory",
    (((9, 1), (3, 1)), ((3, 1), (1, 1)), ((1, 1), (3, 2))),
    varying=True,
)
def _theorem3_memory() -> None:
    """Memory that suffices with probability 1 − δ, rates varying in time.

    Source: fluid paper, Theorem 3 (section 7.1)
    Statement: With thresholds that satisfy (13) and the memory of (12), θ_j of (17), memory is not
        exceeded on [0, T] with probability at least 1 − δ.
    Formula: M ≥ M^π + Σ_{j≥2} (l + l'_{j−1})(n_j + θ_j^{−1}·ln(mS/δ))
    Assumes: l'_1 < ... < l'_m; one prompt length l; n_{j−1} > n_j > n_{j−1}p_j*, so that (17) has
        a root; M^π of (11); δ ≤ 1/10
    Reading: S batches, few enough for [0, T]; arrivals slow enough for the first part of (13). The
        refutation is of the sum (11), which appendix C repeats. By the words before it, 'exactly
        n_i prompts per stage', M^π is that of a full batch, and the statement holds, as corrected.
        Rates that change slowly between two levels: P_2 is one of two values, the larger for at
        least seven batches at a time.
    Correction: With M^π the memory of a full batch; ln((m−1)S/δ), as in appendix C, is enough. (If
        n_j ≥ n_{j−1}, (17) has no root and fewer than n_j ever wait: no deviation is needed.) S
        must be a bound on the number of batches that is known beforehand.
    """
