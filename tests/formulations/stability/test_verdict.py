"""Theoretical stability verdicts for a network, and the best token budget."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations import InputError
from formulations.batching import (
    AgentNetwork,
    BatchTime,
    fork_join,
    multi_type,
    rybko_stolyar,
    single_engine,
)
from formulations.stability import (
    Verdict,
    capacity,
    fastest_budget,
    last_stage_priority,
    loads,
    most_rates,
    shortest_batch,
    theory,
    virtual_stations,
)
from tests.formulations.batching.cases import batch_times, networks

LLAMA = BatchTime(Fraction(455), Fraction(3), 64)
SMALLER_IS_FASTER = BatchTime(Fraction(1), Fraction(1), 8)


@pytest.mark.parametrize(
    ("network", "verdict", "source"),
    [
        (single_engine("0.9", 5, 5, budget=10), Verdict.STABLE, "Theorem 1 (a)"),
        (single_engine("1.1", 5, 5, budget=10), Verdict.UNSTABLE, "Theorem 1 (b)"),
        (single_engine(1, 5, 5, budget=10), Verdict.CRITICAL, "exactly 1"),
        (multi_type([("0.4", 5, 5)] * 2, budget=10), Verdict.STABLE, "(4.2)"),
        (single_engine(3, 5, 5, budget=10, engines=4), Verdict.STABLE, "(4.1)"),
        (single_engine("0.5", 5, 5, budget=10, chunked=False), Verdict.OPEN, "without chunks"),
        (fork_join("0.9", [(5, 5)] * 4, budgets=10), Verdict.OPEN, "Conjecture 1"),
        (rybko_stolyar(1), Verdict.OPEN, "not enough"),
        (
            single_engine("0.9", 3, 3, budget=16, batch_time=SMALLER_IS_FASTER),
            Verdict.UNDECIDED,
            "smaller batches are faster",
        ),
        (
            # In whole slots 11 tokens take three and 10 take two, though c = 1 > 0 = a·b0.
            single_engine(2, 1, 1, budget=11, batch_time=BatchTime(Fraction(1), Fraction(1, 10))),
            Verdict.UNDECIDED,
            "smaller batches are faster",
        ),
        (
            single_engine(2, 3, 3, budget=16, batch_time=SMALLER_IS_FASTER),
            Verdict.UNSTABLE,
            "than any batches",
        ),
    ],
)
def test_the_verdicts(network: AgentNetwork, verdict: Verdict, source: str) -> None:
    """Each network of the paper, and the ones its theorems do not cover."""
    found = theory(capacity(network))
    assert found.verdict is verdict
    assert source in found.source
    assert bool(found.hypotheses) == (verdict is Verdict.STABLE)


def test_warnings_name_the_theorem() -> None:
    """C < a·b0, prompts that are not cut, and an overloaded virtual station."""
    faster = single_engine("0.9", 3, 3, budget=16, batch_time=SMALLER_IS_FASTER, chunked=False)
    warnings = theory(capacity(faster)).warnings
    assert len(warnings) == 2
    assert "Theorem 1 (b)" in warnings[0]
    assert "Theorem 1 (a)" in warnings[1]
    network = rybko_stolyar("0.9")
    stations = virtual_stations(network, last_stage_priority(network))
    found = theory(capacity(network, stations))
    assert found.verdict is Verdict.OPEN
    assert "A@2 + B@1" in found.warnings[0]


@given(networks())
def test_verdicts_follow_the_loads(network: AgentNetwork) -> None:
    """Stable only below 1, unstable only beyond what any batch processes."""
    verdict = theory(capacity(network)).verdict
    highest = max(loads(network))
    assert (verdict is Verdict.CRITICAL) <= (highest == 1)
    assert (verdict in (Verdict.STABLE, Verdict.OPEN)) == (highest < 1)
    assert (verdict is Verdict.UNDECIDED) <= (highest > 1)
    assert all(
        most >= agent.rate for most, agent in zip(most_rates(network), network.agents, strict=True)
    )


def test_budgets_by_hand() -> None:
    """Rates grow with b as c > a·b0: a limit of 1,031 slots allows 256 tokens, 103.1 ms."""
    best = fastest_budget(LLAMA, range(1, 4097), 1031)
    assert best is not None
    assert (best.budget, best.slots) == (256, 1031)
    # 0.2 tokens a slot: b/(455 + 3(b − 64)) > 1/5 iff 2 b > 263, so 132.
    short = shortest_batch(LLAMA, range(1, 4097), Fraction(1, 5))
    assert short is not None
    assert short.budget == 132
    assert shortest_batch(LLAMA, [512], Fraction(1, 3)) is None
    assert fastest_budget(LLAMA, [512], 1798) is None
    with pytest.raises(InputError, match="candidates: empty list"):
        fastest_budget(LLAMA, [], 5)


@given(
    batch_times,
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
    st.integers(1, 60),
    st.builds(Fraction, st.integers(0, 30), st.integers(1, 9)),
)
def test_budgets_are_the_best_of_all(
    time: BatchTime, candidates: list[int], limit: int, work: Fraction
) -> None:
    """Each choice is the first of all allowed candidates; ties go to the smallest budget."""

    def slots(budget: int) -> int:
        return time.slots(budget)

    allowed = [b for b in candidates if work < time.rate(b)]
    within = [b for b in allowed if slots(b) <= limit]
    fastest = fastest_budget(time, candidates, limit, work)
    best = min(within, key=lambda b: (-time.rate(b), slots(b), b), default=None)
    assert (None if fastest is None else fastest.budget) == best
    shortest = shortest_batch(time, candidates, work)
    least = min(allowed, key=lambda b: (slots(b), -time.rate(b), b), default=None)
    assert (None if shortest is None else shortest.budget) == least
