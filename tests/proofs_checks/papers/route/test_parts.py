"""Estimates, bit sets and verifiers of the claims on BalanceRoute, by hand."""

from fractions import Fraction

from proofs_checks.papers.route.estimators import (
    Remaining,
    Snapshot,
    admitted,
    decoded,
    mean_profile,
    profile,
    projected,
    verify_decrement,
    verify_profile,
)
from proofs_checks.papers.route.probes import enumerated, masks, word_operations
from proofs_checks.papers.route.tables import (
    PROPRIETARY,
    SCALING,
    advantage,
    dominates,
    verify_lowest,
    verify_metric,
)


def test_the_two_stages_by_hand() -> None:
    """R = 1, 2 or 4 with weights 1, 1, 2 and H = 3: p = 1/2, μ = 3/2, y = 3/4 + 3/2 = 9/4."""
    law = Remaining((1, 1, 0, 2), 3)
    assert law.stages() == (Fraction(1, 2), Fraction(3, 2))
    assert law.estimand == Fraction(9, 4)
    # y is the number of steps to be expected: 1 + 3/4 + 1/2.
    assert [law.outlasts(h) for h in range(3)] == [1, Fraction(3, 4), Fraction(1, 2)]
    assert profile(5, law.estimand, 3) == [5, 6, 7]
    assert mean_profile(law, 5) == [5, Fraction(9, 2), Fraction(7, 2)]
    assert verify_profile({"weights": [1, 1, 0, 2], "look_ahead": 3, "size": 5}) is not None
    assert verify_profile({"weights": [0, 0, 1], "look_ahead": 2, "size": 5}) is None


def test_a_window_that_moves_on() -> None:
    """R = 9, H = 3: two tokens later all three steps still count; R = 3 has one left."""
    assert verify_decrement({"remaining": 9, "look_ahead": 3, "elapsed": 2}) is not None
    assert verify_decrement({"remaining": 3, "look_ahead": 3, "elapsed": 2}) is None


def test_the_floor_asks_again() -> None:
    """Told 2, asked every 4 tokens: 2, 1, then at the floor 2 again, and so on."""
    assert list(projected(6, 2, 4, 1)) == [2, 1, 2, 1, 2, 1]
    assert list(projected(3, 0, 9, 1)) == [1, 1, 1]


def test_bit_sets_by_hand() -> None:
    """1, 2, 2 with two slots: 0; 1 or 2; 3 or 4. Scanned upwards 1 + 1 appears."""
    assert masks((1, 2, 2), 2) == ([0b1, 0b110, 0b11000], 6)
    assert enumerated((1, 2, 2), 2) == [0b1, 0b110, 0b11000]
    assert masks((1,), 2, upwards=True)[0][2] == 0b100
    # 16 · 8 · ⌈32769/64⌉ = 128 · 513.
    assert word_operations(16, 8, 4096) == 65_664


def test_what_the_tables_say() -> None:
    """1028.9/846.7; the oracle's 78.0 against 78.7; JSQ does not dominate round-robin."""
    over = advantage(SCALING[8], "BR-H oracle", ("Random", "RR", "P2C", "JSQ"))
    assert round(over, 4) == 1.2152
    assert verify_lowest({"deployed": 787, "other": 780}) is not None
    assert verify_lowest({"deployed": 787, "other": 781}) is None
    assert not dominates(PROPRIETARY["JSQ"], PROPRIETARY["RR"])


def test_metric_and_objective() -> None:
    """0, 3, 3 has a sum of 3 and a gap of 3; 1, 1, 3 has 4 and 2."""
    assert verify_metric({"first": [0, 3, 3], "second": [1, 1, 3]}) is not None
    assert verify_metric({"first": [1, 1, 3], "second": [0, 3, 3]}) is None


def test_a_snapshot_by_hand() -> None:
    """Sizes 5 and 2 with 1 and 3 steps left: 7, then 3 and 4 tokens; the idle worker is filled."""
    held = ((5, 1), (2, 3))
    snapshot = Snapshot((held, ()), (3, 2), (3, 1))
    assert snapshot.free == [1, 2]
    assert snapshot.loads(4) == [[7, 3, 4, 0], [0, 0, 0, 0]]
    assert list(decoded(held, 4)) == [7, 3, 4, 0]
    # Both to worker 1, at weights 3, 2, 1: 3·4 + 2·(4 − 2·1) + 4 = 20; 3 tokens alone have 18.
    assert admitted(snapshot, 3) == frozenset()
    # Alone, worker 0 takes what it has a slot for.
    assert len(admitted(Snapshot((held,), (3,), (3, 1)), 3)) == 1
