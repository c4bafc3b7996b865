"""Memory of Nested WAIT as a function of the numbers of types and segments."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from formulations.fluid import FluidWorker
from formulations.thresholds import LogArgument, NestedProblem, equal_boundaries, equal_plans, plan
from proofs_checks.claim import Claims, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Findings, Outcome
from proofs_checks.search import Domain, named
from proofs_checks.statistics import mean_estimate

CLAIMS = Claims()


def even_problem(longest: int, types: int, segments: int | None = None) -> NestedProblem:
    """One request per second, lengths spread evenly over 1..longest, d0 = 50 s, d1 = 1 µs.

    By a change of time: 1000 requests per second, d0 = 50 ms, d1 = 1 ns.
    """
    outputs = tuple(longest * j // types for j in range(1, types + 1))
    problem = NestedProblem.single(
        1, outputs, (Fraction(1, types),) * types, FluidWorker(Fraction(50), Fraction(1, 10**6), 1)
    )
    return (
        problem
        if segments is None
        else problem.with_boundaries(equal_boundaries(outputs, segments))
    )


def required(longest: int, types: int, segments: int | None = None) -> int | None:
    """Memory of (12), or (15), with the least thresholds, T = 10⁵ s and δ = 1/10."""
    least = plan(
        even_problem(longest, types, segments),
        duration=10**5,
        probability=Fraction(1, 10),
        argument=LogArgument.THEOREM,
    )
    return None if least is None else least.memory


def verify_remark1(data: Data) -> str | None:
    """Confirm that squaring the number of types more than doubles the memory of (12)."""
    longest, types = data["longest"], data["types"]
    if types < 2 or longest < types**2 or longest > 300:
        return None
    few, many = required(longest, types), required(longest, types**2)
    if few is None or many is None or many <= 2 * few:
        return None
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

    def at_most_double(case: tuple[int, int], number: int | None) -> bool:
        longest, types = case
        few, many = required(longest, types, number), required(longest, types**2, number)
        return few is not None and many is not None and many <= 2 * few

    domain = Domain(
        "lengths 1..m² spread evenly, least thresholds (n_1 = 51); m and m² types", cases
    )
    as_printed = domain.refute(
        "a segment per type: (12) at most doubles",
        verify_remark1,
        named("longest types"),
        holds=lambda c: at_most_double(c, printed),
    )
    corrected = domain.examine(
        "two segments: (15) at most doubles", lambda c: at_most_double(c, segments)
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
    """Whether the values decrease and then increase, both at least once."""
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
