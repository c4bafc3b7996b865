"""Appendix D.4: choosing a subset exactly by a few reachable sums."""

from collections.abc import Sequence

from proofs_checks.claim import Claim, Context, Kind, Mutation
from proofs_checks.evidence import Outcome
from proofs_checks.papers.route.subsets import (
    best_by_enumeration,
    best_by_probes,
    best_near,
    choices,
    discounted,
)
from proofs_checks.search import examine

_MADE = (
    "random sizes, capacities, margins over windows up to H = {}, penalties 1 to 4; all subsets"
)


def two_probes_check(context: Context, *, probes: int = 2, horizon: int = 0) -> Outcome:
    """Compare the better of so many reachable sums next to the peak with all subsets."""
    return examine(
        "the better of two reachable sums is the best subset",
        _MADE.format(horizon),
        choices(context, horizon),
        lambda c: (
            best_by_probes(*c[:3], discounted(*c[2:]), probes)
            == best_by_enumeration(*c[:3], discounted(*c[2:]))
        ),
    )


def _margins_check(context: Context, *, kept: int | None = None) -> Outcome:
    def points(margins: Sequence[int]) -> list[int]:
        return sorted(set(margins))[:kept]

    return examine(
        "the best of the reachable sums next to all margins is the best subset",
        _MADE.format(4),
        choices(context, 4),
        lambda c: (
            best_near(points(c[2]), *c[:3], discounted(*c[2:]))
            == best_by_enumeration(*c[:3], discounted(*c[2:]))
        ),
    )


_SOURCE = "BalanceRoute paper, appendix D.4"

CLAIMS = (
    Claim(
        id="route.two-probes",
        source=_SOURCE,
        title="Two probes are exact for BR-0",
        statement="For BR-0 the score has a single kink, and the better of the largest reachable "
        "sum up to the margin and the smallest one above it is the best subset.",
        formula="max_S F(S, g) = max{F(Δ⁻), F(Δ⁺)}",
        hypotheses=("H = 0",),
        kind=Kind.FINITE,
        check=two_probes_check,
        summary="The score is concave in Δ: no sum below the largest one up to its peak is "
        "better, none above the next one either.",
        mutations=(Mutation("the lower probe alone", probes=1),),
    ),
    Claim(
        id="route.margin-probes",
        source=_SOURCE,
        title="Probing BR-H around every margin",
        statement="For BR-H the score has up to H + 1 kinks; a subset choice by reachable sums is "
        "exact if it probes around every distinct horizon margin.",
        formula="max_S F_H(S, g) = max over h of max{F_H(Δ⁻(h)), F_H(Δ⁺(h))},  "
        "Δ⁻(h) ≤ m_g(h) < Δ⁺(h)",
        hypotheses=("contributions constant over the window", "β ≥ α"),
        kind=Kind.FINITE,
        check=_margins_check,
        summary="The score is piecewise linear with kinks at the margins only, so one of them is "
        "its peak. Which one can be told beforehand: two probes do (own.two-probes).",
        mutations=(Mutation("the smallest margin only", kept=1),),
        reading="with β ≥ α, as in all of the paper's settings: otherwise overflow is rewarded, "
        "and the largest sum of all is best.",
    ),
)
