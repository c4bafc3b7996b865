"""BalanceRoute: what the F-score measures, over a step and over a window."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

from bfio.step.two_stage.fscore import ScoreWeights, score
from proofs_checks.claim import Claim, Context, Kind, Mutation
from proofs_checks.evidence import Outcome
from proofs_checks.papers.route.subsets import discounted
from proofs_checks.search import examine
from proofs_checks.step_enumeration import imbalance, vectors

# Equation (1).


def _eq1_check(context: Context, *, penalty: int = 0) -> Outcome:
    largest, most = context.choose((3, 6), (6, 12), (9, 25))
    cases = [
        (loads, g, added)
        for G in (1, 2, 3)
        for loads in vectors(G, largest)
        for g in range(G)
        for added in range(most + 1)
    ]

    def holds(case: tuple[tuple[int, ...], int, int]) -> bool:
        loads, g, added = case
        G, margin = len(loads), max(loads) - loads[g]
        after = [load + added * (h == g) for h, load in enumerate(loads)]
        weights = ScoreWeights.of(Fraction(1), Fraction(G + penalty), (1,))
        regime = added if added <= margin else G * margin - (G - 1) * added
        return score([added], [margin], weights) == imbalance(loads) - imbalance(
            after
        ) and regime == imbalance(loads) - imbalance(after)

    return examine(
        "F(S, g) = Imbalance before − after, and both regimes",
        f"all loads up to {largest} of 1 to 3 workers, all added loads up to {most}",
        cases,
        holds,
    )


# The score over a window, eq. (2).


def slope(added: int, margins: Sequence[int], weights: ScoreWeights) -> int:
    """Slope of F_H just above ``added``: the reward, less the penalties of the steps overflown."""
    overflown = (p for p, m in zip(weights.penalty, margins, strict=True) if added >= m)
    return sum(weights.reward) - sum(overflown)


def _regimes_check(context: Context, *, safe: str = "window") -> Outcome:
    largest, steps = context.choose((4, 3), (6, 3), (8, 4))
    cases = [
        (margins, beta)
        for length in range(1, steps + 1)
        for margins in product(range(largest), repeat=length)
        for beta in (1, 2, 5)
    ]

    def holds(case: tuple[tuple[int, ...], int]) -> bool:
        margins, beta = case
        weights = discounted(margins, beta)
        values = [score([x] * len(margins), margins, weights) for x in range(2 * largest)]
        limit = min(margins) if safe == "window" else margins[0]
        return (
            all(values[x] == x * sum(weights.reward) for x in range(limit + 1))
            and all(values[x] < x * sum(weights.reward) for x in range(limit + 1, 2 * largest))
            and all(
                values[x + 1] - values[x] == slope(x, margins, weights)
                for x in range(2 * largest - 1)
            )
        )

    return examine(
        "linear up to min_h m(h), below that line beyond, each margin lowers the slope",
        f"all margins below {largest} over up to {steps} steps, β = 1, 2, 5, falling discounts",
        cases,
        holds,
    )


_PAPER = "BalanceRoute paper"

CLAIMS = (
    Claim(
        id="route.eq1",
        source=f"{_PAPER}, eq. (1) (section 3.1)",
        title="The F-score is the drop in imbalance",
        statement="Admitting a set of total size Δ to worker g with safe margin m changes the "
        "imbalance by −F; F is Δ up to the margin and falls by G − 1 per unit beyond it.",
        formula="F(S, g) = Δ − G·max(0, Δ − m_g) = Imbalance(before) − Imbalance(after)",
        hypotheses=(),
        kind=Kind.IDENTITY,
        check=_eq1_check,
        summary="An identity; the two regimes meet at the margin.",
        mutations=(Mutation("G + 1 in place of G", penalty=1),),
    ),
    Claim(
        id="route.regimes",
        source=f"{_PAPER}, section 4.1, on eq. (2)",
        title="Two regimes of the horizon F-score",
        statement="F_H is piecewise linear in Δ with two regimes: horizon-safe, Δ ≤ min_h m_g(h), "
        "where the penalty vanishes and F_H is linear; and overflow, where the penalty activates "
        "step by step.",
        formula="F_H = α·Δ·Σ_h γ^h for Δ ≤ min_h m_g(h);  beyond, slope α·Σ_h γ^h − "
        "β·Σ_{h: m_g(h) < Δ} γ^h",
        hypotheses=("contributions constant over the window", "α, β > 0"),
        kind=Kind.IDENTITY,
        check=_regimes_check,
        summary="The second regime is not linear but concave, with a kink at each margin, as "
        '"step by step" says and appendix D.4 counts: up to H + 1. For α = 1, β = G, F_H is the '
        "discounted drop in imbalance (route.eq1 at each step).",
        mutations=(Mutation("safe up to the current margin m_g(0)", safe="current"),),
    ),
)
