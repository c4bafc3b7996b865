"""BalanceRoute's two-probe rule beyond BR-0: where it is exact, and where it is not."""

from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import product

from bfio.step.two_stage.fscore import ScoreWeights
from proofs_checks.claim import Claim, Context, Defect, Kind, Mutation
from proofs_checks.evidence import Data, Outcome
from proofs_checks.papers.route.probes import two_probes_check
from proofs_checks.papers.route.subsets import (
    best_by_enumeration,
    best_by_probes,
    best_near,
    reachable_sums,
)
from proofs_checks.search import examine, refute

# Two probes around the margin of the current step.


def _unit(margins: list[int]) -> ScoreWeights:
    return ScoreWeights.of(Fraction(1), Fraction(2), (1,) * len(margins))


def verify_kinks(data: Data) -> str | None:
    """Confirm that two probes around the first margin miss the best subset."""
    sizes, margins = data["sizes"], data["margins"]
    # Margins of 0 leave nothing to fill; there need be none.
    if not sizes or min(sizes) < 1 or not margins or min(margins) < 1 or len(sizes) > 10:
        return None
    best = best_by_enumeration(sizes, len(sizes), margins, _unit(margins))
    found = best_near(margins[:1], sizes, len(sizes), margins, _unit(margins))
    if found >= best:
        return None
    return (
        f"β = 2, margins {margins}, reachable sums {reachable_sums(sizes, len(sizes))}: probes "
        f"around m(0) = {margins[0]} score {found}, the best subset {best}"
    )


def _cases(context: Context, horizon: int) -> Iterator[tuple[list[int], list[int]]]:
    largest = context.choose(4, 5, 7)
    for n in (1, 2):
        for sizes in product(range(1, largest), repeat=n):
            for length in range(1, horizon + 1):
                for margins in product(range(1, largest), repeat=length):
                    yield list(sizes), list(margins)


def _kink_check(context: Context, *, horizon: int = 3, probes: int = 2) -> Outcome:
    cases = list(_cases(context, horizon))
    made = f"up to two requests of small sizes, small margins over {horizon} steps, α = 1, β = 2"
    printed = refute(
        "probes around the first margin find the best subset",
        made,
        cases,
        verify_kinks,
        lambda c: {"sizes": c[0], "margins": c[1]},
    )
    corrected = examine(
        "probes around the right end of the maximising interval do", made, cases,
        lambda c: best_by_probes(c[0], len(c[0]), c[1], _unit(c[1]), probes)
        == best_by_enumeration(c[0], len(c[0]), c[1], _unit(c[1])),
    )  # fmt: skip
    return printed, corrected


_SOURCE = "BalanceRoute paper, appendix D.4"

CLAIMS = (
    Claim(
        id="own.two-probes",
        source=f"{_SOURCE} (our extension to BR-H)",
        title="Two probes are exact for BR-H too",
        statement="With loads held constant over the window two probes around the right end of "
        "the maximising interval of F_H find the best subset, for any horizon, discount, α and β.",
        formula="max_S F_H(S, g) = max{F_H(Δ⁻), F_H(Δ⁺)},  Δ⁻ ≤ D* < Δ⁺ next to D*",
        hypotheses=("contributions constant over the window", "D* the right end of argmax F_H"),
        kind=Kind.FINITE,
        check=partial(two_probes_check, horizon=4),
        summary="The score is concave in Δ: no sum below the largest one up to its peak is "
        "better, none above the next one either.",
        mutations=(Mutation("the lower probe alone", probes=1),),
    ),
    Claim(
        id="own.kinks",
        source=f"{_SOURCE} (our question; the paper claims the rule for BR-0 only)",
        title="Probing BR-H where BR-0 is probed",
        statement="The two-probe rule that is exact for BR-0, around the margin of the current "
        "step, is exact for BR-H.",
        formula="max_S F_H(S, g) = max{F_H(Δ⁻), F_H(Δ⁺)} around m_g(0)",
        hypotheses=("contributions constant over the window", "margins m_g(h) ≥ 1"),
        kind=Kind.COUNTEREXAMPLE,
        check=_kink_check,
        summary="Several kinks leave the score concave; only the place to probe moves.",
        mutations=(
            Mutation("one step only, H = 0", horizon=1),
            Mutation("the lower probe alone in the correction", probes=1),
        ),
        correction="Around the right end D* of the maximising interval of F_H two probes are "
        "exact (own.two-probes). The paper enumerates subsets for BR-H, or probes around every "
        "margin (route.margin-probes); both are exact, neither is needed.",
        defect=Defect.INFERENCE,
        verify=verify_kinks,
    ),
)
