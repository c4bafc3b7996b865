"""Verifiers of counterexamples: they accept what is wrong, and nothing else."""

from collections.abc import Callable

import pytest

from proofs_checks.evidence import Data
from proofs_checks.papers.kv.adversary_costs import verify_costs, verify_ratio
from proofs_checks.papers.kv.arrivals import verify_mean, verify_tail
from proofs_checks.papers.kv.checkpoints import verify_count, verify_listed
from proofs_checks.papers.kv.exchange import verify_exchange
from proofs_checks.papers.kv.experiments import verify_cap, verify_limit
from proofs_checks.papers.kv.figure import verify_figure
from proofs_checks.papers.kv.memory_rules import verify_rules
from proofs_checks.papers.kv.mixed_prompts import verify_break, verify_largest
from proofs_checks.papers.kv.overload import verify_regret, verify_stability
from proofs_checks.papers.kv.predictions import verify_margin
from proofs_checks.papers.kv.program import verify_objective, verify_round_0
from proofs_checks.papers.kv.randomized import (
    verify_conditional,
    verify_distribution,
    verify_room,
)
from proofs_checks.papers.kv.randomized_bound import verify_bound
from proofs_checks.papers.kv.regret import verify_subset
from proofs_checks.papers.kv.regret_sums import verify_decomposition
from proofs_checks.papers.kv.regret_terms import verify_expectation
from proofs_checks.papers.kv.semi_online import verify_optimality
from proofs_checks.papers.kv.semi_online_limit import verify_limit as verify_negligible_prompt
from proofs_checks.papers.kv.short_counts import verify_balance
from proofs_checks.papers.kv.shortest_waiting import verify_minimum
from proofs_checks.registry import chosen

OPTIMAL = {
    "memory": 4,
    "requests": [[0, 1, 1, 0], [0, 1, 1, 1], [0, 1, 2, 1], [0, 1, 2, 3]],
    "convention": "A",
}


def with_rows(*rows: list[int]) -> Data:
    """Return the theorem's counterexample with other requests."""
    return OPTIMAL | {"requests": list(rows)}


def test_a_better_schedule_is_one() -> None:
    """Total 11 against 12, by hand in `test_parts`."""
    assert verify_optimality(OPTIMAL) is not None


@pytest.mark.parametrize(
    "data",
    [
        # As good as Algorithm 1, not better.
        with_rows([0, 1, 1, 0], [0, 1, 1, 0], [0, 1, 2, 2], [0, 1, 2, 4]),
        # Exceeds the memory.
        with_rows([0, 1, 1, 0], [0, 1, 1, 0], [0, 1, 2, 0], [0, 1, 2, 0]),
    ],
)
def test_no_better_schedule(data: Data) -> None:
    """Neither is a counterexample to Theorem 4.2."""
    assert verify_optimality(data) is None


@pytest.mark.parametrize(
    "data",
    [
        with_rows([1, 1, 1, 1], [0, 1, 1, 0]),
        with_rows([0, 1, 1, 0], [0, 2, 1, 0]),
        with_rows([0, 1, 4, 0]),
        with_rows(),
    ],
    ids=["late arrival", "mixed prompts", "too large", "nothing"],
)
def test_hypotheses_are_asked_for(data: Data) -> None:
    """Data outside the theorem's hypotheses are refused."""
    with pytest.raises(ValueError, match=r"prompts differ|exceeds the memory|no request"):
        verify_optimality(data)


#: A verifier, and data that meet the hypotheses and do not break the statement.
FINE: list[tuple[Callable[[Data], str | None], Data]] = [
    (verify_rules, {"memory": 9, "requests": [[1, 1, 0], [1, 1, 0]]}),
    (verify_rules, {"memory": 2, "requests": [[1, 1, 0], [2, 1, 0]]}),
    (verify_objective, {"memory": 5, "requests": [[0, 1, 2, 1]]}),
    (verify_round_0, {"memory": 2, "requests": [[0, 1, 1, 0], [0, 1, 1, 1]]}),
    (verify_largest, {"memory": 9, "requests": [[1, 1], [1, 2]]}),
    # Only the last of three may differ between breaking and going on.
    (verify_break, {"memory": 7, "requests": [[4, 1], [4, 2]]}),
    # Under B the first has left before the second needs the room.
    (verify_break, {"memory": 5, "requests": [[1, 1], [3, 2], [1, 3]]}),
    (verify_listed, {"memory": 9, "prompt": 1, "running": [[1, 3]], "candidate": 1}),
    # It ends when the running one does, and exceeds M then: a time on the list.
    (verify_listed, {"memory": 4, "prompt": 1, "running": [[1, 2]], "candidate": 1}),
    (verify_count, {"memory": 2, "prompt": 1, "output": 1, "requests": 3}),
    (verify_exchange, OPTIMAL | {"requests": [[0, 1, 1, 0], [0, 1, 1, 0]]}),
    (verify_decomposition, {"memory": 9, "longest": 2, "per_round": 2, "rounds": 2}),
    (verify_expectation, {"usual": 5, "slope": 1, "horizon": 3}),
    (verify_negligible_prompt, {"memory": 6, "prompt": 1, "output": 1, "requests": 3}),
    (verify_negligible_prompt, {"memory": 5, "prompt": 3, "output": 3, "requests": 3}),
    (verify_balance, {"steps": 3, "half": 1}),
    (verify_balance, {"steps": 2, "half": 1000}),
    (verify_subset, {"memory": 6, "requests": [[0, 1, 1]], "convention": "A", "now": 0}),
    (verify_figure, {"outputs": [3, 4, 4]}),
    (verify_regret, {"memory": 6, "prompt": 1, "output": 1, "per_round": 1}),
    (verify_regret, {"memory": 2, "prompt": 1, "output": 1, "per_round": 3}),
    (verify_stability, {"memory": 2, "prompt": 1, "output": 1}),
    (verify_mean, {"rounds": 1, "most": 2, "longest": 2, "below": 2}),
    (verify_tail, {"tenths": 10}),
    (verify_minimum, {"memory": 3, "longest": 2, "per_round": 2, "now": 0}),
    (verify_costs, {"steps": 2, "multiple": 1}),
    (verify_ratio, {"steps": 2, "prompt": 1}),
    (verify_room, {"steps": 3, "prompt": 1, "later": 1}),
    (verify_bound, {"steps": 10, "constant": 2}),
    (verify_limit, {"gigabyte": 10**6, "model_in_bytes": 0}),
    (verify_cap, {"arrivals": 500, "rate": 50}),
    (verify_margin, {"memory": 9, "prompt": 2, "requests": [[2, 2]], "error": 1}),
    # ô − δ = 0, and a prediction further off than δ.
    (verify_margin, {"memory": 4, "prompt": 1, "requests": [[2, 1], [2, 1]], "error": 1}),
    (verify_margin, {"memory": 4, "prompt": 1, "requests": [[3, 1], [3, 1]], "error": 1}),
]


@pytest.mark.parametrize(
    ("verify", "data"), FINE, ids=[f"{verify.__name__}-{k}" for k, (verify, _) in enumerate(FINE)]
)
def test_what_is_fine_is_no_counterexample(
    verify: Callable[[Data], str | None], data: Data
) -> None:
    """A verifier says no more than that."""
    assert verify(data) is None


@pytest.mark.parametrize(
    ("verify", "data"),
    [
        (verify_break, {"memory": 4, "requests": [[4, 1], [1, 3]]}),
        (verify_largest, {"memory": 7, "requests": [[1, 2], [4, 2], [1, 3]]}),
        (verify_listed, {"memory": 4, "prompt": 1, "running": [], "candidate": 1}),
        (verify_listed, {"memory": 4, "prompt": 1, "running": [[2, 1]], "candidate": 1}),
        (verify_round_0, {"memory": 1, "requests": [[0, 1, 1, 0], [0, 1, 1, 0]]}),
        (verify_decomposition, {"memory": 4, "longest": 2, "per_round": 4, "rounds": 1}),
        (verify_expectation, {"usual": 1, "slope": 1, "horizon": 1}),
    ],
)
def test_what_misses_a_hypothesis_is_refused(
    verify: Callable[[Data], str | None], data: Data
) -> None:
    """Too large, of equal outputs, nothing running or already over, one round only."""
    with pytest.raises(ValueError, match=r"fits|equal outputs|runs|ended|two rounds|no horizon"):
        verify(data)


#: A run of Algorithm 2 from whose state at round 0 the only optimum starts both requests at 1:
#: the long one (1, 2, 3, 4 tokens) and the short one (1, 2) need 2, 4, 3, 4 of M = 4.
WAITING = {"memory": 4, "requests": [[0, 1, 3], [1, 1, 1]], "convention": "A", "now": 0}


@pytest.mark.parametrize("name", ["lemma5.4-ii", "lemma5.4-iii"])
def test_off_couple_lags_behind(name: str) -> None:
    """It has started the long one at 0, so the short one waits until 4 and runs after t̂ = 4."""
    (claim,) = chosen([f"kv.{name}"])
    assert claim.verify is not None
    assert claim.verify(WAITING) is not None
    assert claim.verify(WAITING | {"convention": "C"}) is None
    # Two requests alike: two optima, and nothing is said.
    assert claim.verify(WAITING | {"requests": [[0, 1, 3], [0, 1, 3]]}) is None


@pytest.mark.parametrize("verify", [verify_distribution, verify_conditional])
def test_no_distribution_is_refused(verify: Callable[[Data], str | None]) -> None:
    """1/ε must exceed 2 and c be positive."""
    with pytest.raises(ValueError, match="no distribution"):
        verify({"steps": 2, "constant": 1})


def test_the_audit_of_this_paper_is_complete() -> None:
    """Every numbered statement has a claim."""
    names = {claim.id for claim in chosen(["kv"])}
    numbered = (
        "proposition4.1 theorem4.2 remark5.2 theorem5.3 lemma5.4-i lemma5.4-ii lemma5.4-iii "
        "lemma5.5 lemma5.6 theorem6.2 remark6.3 theorem6.4 eq1 eq2 eq3 eq4 eq6 eq7 eq8 figure4 "
        "appendix-b1"
    )
    assert {f"kv.{name}" for name in numbered.split()} <= names
