"""Verifiers of counterexamples: they accept exactly the valid counterexamples."""

from collections.abc import Callable

import pytest

from proofs_checks.evidence import Data
from proofs_checks.papers.kv.adversary import verify_costs, verify_ratio
from proofs_checks.papers.kv.arrivals import verify_balance, verify_minimum, verify_tail
from proofs_checks.papers.kv.clearing import verify_cap, verify_limit, verify_margin
from proofs_checks.papers.kv.coupling import Moment, within_memory
from proofs_checks.papers.kv.model import from_data
from proofs_checks.papers.kv.overload import verify_regret, verify_stability
from proofs_checks.papers.kv.program import verify_objective, verify_round_0, verify_rules
from proofs_checks.papers.kv.randomized import (
    verify_bound,
    verify_conditional,
    verify_distribution,
    verify_room,
)
from proofs_checks.papers.kv.regret import verify_decomposition, verify_expectation, verify_subset
from proofs_checks.papers.kv.selection import (
    verify_break,
    verify_count,
    verify_largest,
    verify_listed,
)
from proofs_checks.papers.kv.semi_online import verify_exchange, verify_figure, verify_optimality
from proofs_checks.papers.kv.semi_online import verify_limit as verify_negligible_prompt
from proofs_checks.registry import named

#: Five requests, each with its output and with starts under A, B and C. They add up to 14, 6, 13;
#: those of Algorithm 1, (0, 0, 2, 3, 10), (0, 0, 0, 1, 6), (0, 0, 2, 3, 9), to 15, 7, 14.
BEATEN: Data = {
    "memory": 7,
    "prompt": 1,
    "requests": [[2, 3, 0, 3], [2, 0, 0, 0], [3, 0, 1, 0], [6, 9, 5, 8], [6, 2, 0, 2]],
}
#: The same of Algorithm 1, in order of the outputs.
OWN = [[2, 0, 0, 0], [2, 0, 0, 0], [3, 2, 0, 2], [6, 3, 1, 3], [6, 10, 6, 9]]


def test_better_schedules_are_ones() -> None:
    """One less than Algorithm 1 under each convention, and the text names all three."""
    why = verify_optimality(BEATEN)
    assert why is not None
    for name in ("A: Algorithm 1", "B: Algorithm 1", "C: Algorithm 1"):
        assert name in why


@pytest.mark.parametrize("column", [1, 2, 3])
def test_every_convention_is_needed(column: int) -> None:
    """With the starts of Algorithm 1 under one of them there is no counterexample."""
    rows = [row.copy() for row in BEATEN["requests"]]
    for row, own in zip(rows, OWN, strict=True):
        row[column] = own[column]
    assert verify_optimality(BEATEN | {"requests": rows}) is None


@pytest.mark.parametrize("column", [1, 2, 3])
def test_a_schedule_that_exceeds_the_memory_is_none(column: int) -> None:
    """All five at 0 hold at least 5, 10, ... of 7 tokens."""
    rows = [row.copy() for row in BEATEN["requests"]]
    for row in rows:
        row[column] = 0
    assert verify_optimality(BEATEN | {"requests": rows}) is None


@pytest.mark.parametrize("rows", [[], [[1, 0, 0]], [[1, 0, 0, 0], [1, 0, 0]]])
def test_three_starts_for_each_request(rows: list[list[int]]) -> None:
    """What has no request, or not three starts for one, is refused."""
    with pytest.raises(ValueError, match="no request"):
        verify_optimality(BEATEN | {"requests": rows})


def test_a_request_that_never_fits_is_none() -> None:
    """One token more than M in its last slot."""
    assert verify_optimality(BEATEN | {"requests": [[7, 0, 0, 0]]}) is None


EXCHANGE: Data = {
    "memory": 4,
    "requests": [[0, 1, 1, 0], [0, 1, 1, 2], [0, 1, 2, 0], [0, 1, 2, 3]],
    "convention": "A",
}


def with_rows(*rows: list[int]) -> Data:
    """Return the exchange's counterexample with other requests."""
    return EXCHANGE | {"requests": list(rows)}


def test_an_exchange_that_fails() -> None:
    """A starts at (0, 0, 2, 4): at 0 S has the third for the second; 0 + 2 is not 2 + 1."""
    assert verify_exchange(EXCHANGE) is not None


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
        verify_exchange(data)


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
    (verify_exchange, with_rows([0, 1, 1, 0], [0, 1, 1, 0])),
    (verify_decomposition, {"memory": 9, "longest": 2, "per_round": 2, "rounds": 2}),
    (verify_expectation, {"usual": 5, "slope": 1, "rounds": 3}),
    (verify_negligible_prompt, {"memory": 6, "prompt": 1, "output": 1, "requests": 3}),
    (verify_negligible_prompt, {"memory": 5, "prompt": 3, "output": 3, "requests": 3}),
    (verify_balance, {"steps": 3, "half": 1}),
    (verify_balance, {"steps": 2, "half": 1000}),
    (verify_subset, {"memory": 6, "requests": [[0, 1, 1]], "convention": "A", "now": 0}),
    (verify_figure, {"outputs": [3, 4, 4]}),
    (verify_regret, {"memory": 6, "prompt": 1, "output": 1, "per_round": 1}),
    (verify_regret, {"memory": 2, "prompt": 1, "output": 1, "per_round": 3}),
    (verify_stability, {"memory": 2, "prompt": 1, "output": 1}),
    # Under A only: a request of one token holds one slot under B and C, and no start is bad.
    (verify_stability, {"memory": 6, "prompt": 1, "output": 1}),
    (verify_regret, {"memory": 6, "prompt": 1, "output": 1, "per_round": 3}),
    (verify_negligible_prompt, {"memory": 6, "prompt": 1, "output": 1, "requests": 30}),
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
        (verify_expectation, {"usual": 1, "slope": 1, "rounds": 1}),
    ],
)
def test_what_misses_a_hypothesis_is_refused(
    verify: Callable[[Data], str | None], data: Data
) -> None:
    """Too large, of equal outputs, nothing running or already over, one round only."""
    with pytest.raises(ValueError, match=r"fits|equal outputs|runs|ended|two rounds|no round"):
        verify(data)


#: A run of Algorithm 2 from whose state at round 0 the only optimum starts both requests at 1:
#: the long one (1, 2, 3, 4 tokens) and the short one (1, 2) need 2, 4, 3, 4 of M = 4.
WAITING = {"memory": 4, "requests": [[0, 1, 3], [1, 1, 1]], "convention": "A", "now": 0}


@pytest.mark.parametrize("name", ["lemma5.4-ii", "lemma5.4-iii"])
def test_off_couple_lags_behind(name: str) -> None:
    """It has started the long one at 0, so the short one waits until 4 and runs after t̂ = 4."""
    (claim,) = named([f"kv.{name}"])
    assert claim.verify is not None
    assert claim.verify(WAITING) is not None
    assert claim.verify(WAITING | {"convention": "C"}) is None
    # Two requests alike: two optima, and nothing is said.
    assert claim.verify(WAITING | {"requests": [[0, 1, 3], [0, 1, 3]]}) is None


#: M = 5: at 3 Algorithm 2 starts the third, the only optimum the last one in its place.
ANOTHER: Data = {
    "memory": 5,
    "requests": [[0, 1, 3], [0, 1, 4], [2, 1, 1], [0, 1, 3]],
    "convention": "A",
    "now": 3,
}
#: M = 7: at 1 Algorithm 2 starts the third, the only optimum nothing. OC keeps to it, follows OFF
#: with the last one at 8, and holds 6 + 2 > 7 in slot 9.
NOTHING: Data = {
    "memory": 7,
    "requests": [[0, 1, 3], [0, 1, 5], [1, 1, 3], [4, 1, 5]],
    "convention": "A",
    "now": 1,
}


def test_off_starts_nothing_else() -> None:
    """OC exceeds M in both, and only where V ⊂ S_ON ∪ U it counts."""
    (claim,) = named(["kv.lemma5.4-i"])
    assert claim.verify is not None
    assert claim.verify(NOTHING) is not None
    assert claim.verify(ANOTHER) is None
    moment = Moment(from_data(ANOTHER), ANOTHER["now"])
    assert moment.started(moment.online) == {2}
    assert [moment.started(off) for off in moment.offline] == [{3}]
    assert not within_memory(moment, moment.offline[0])


@pytest.mark.parametrize("verify", [verify_distribution, verify_conditional])
def test_no_distribution_is_refused(verify: Callable[[Data], str | None]) -> None:
    """1/ε must exceed 2 and c be positive."""
    with pytest.raises(ValueError, match="no distribution"):
        verify({"steps": 2, "constant": 1})


def test_the_audit_of_this_paper_is_complete() -> None:
    """Every numbered statement has a claim."""
    names = {claim.id for claim in named(["kv"])}
    numbered = (
        "proposition4.1 theorem4.2 remark5.2 theorem5.3 lemma5.4-i lemma5.4-ii lemma5.4-iii "
        "lemma5.5 lemma5.6 theorem6.2 remark6.3 theorem6.4 eq1 eq2 eq3 eq4 eq6 eq7 eq8 figure4 "
        "appendix-b1"
    )
    assert {f"kv.{name}" for name in numbered.split()} <= names
