"""Section 7.2: the memory of (15) against the number of segments, as figures 16 to 18 show it."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from formulations.fluid import FluidWorker
from formulations.thresholds import LogArgument, NestedProblem, equal_plans
from proofs_checks.claim import Claims, Context, Kind, Mutation
from proofs_checks.evidence import Findings, Outcome
from proofs_checks.statistics import mean_estimate

CLAIMS = Claims()


#: Rates of the ten bins of 50 output tokens, section 6.2.
_BINS = (23, 11, 8, 7, 6, 4, 3, 2, 1, 1)


def figure_problem(total: int, d0: Fraction, d1: Fraction) -> NestedProblem:
    """Section 7.2's lengths 1..500 and prefill 62, rates uniform in the bins of section 6.2."""
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
    """Return M^π and the total of (15) by L, where stable; ``load`` is d1 times the rate."""
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
    """Whether they fall and then rise, both at least once."""
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
        # The paper names neither constant: d0 = 5 to 40 ms, d1 = 65 to 260 ns at rate 50.
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
