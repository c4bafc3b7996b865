"""The F-score against its formula in rationals, and against the change of imbalance."""

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bfio.step.two_stage.fscore import ScoreWeights, right_end, score, scores
from bfio.testing.instances import TOKENS

FACTORS = st.fractions(0, 50, max_denominator=100)
WINDOWS = st.lists(st.tuples(TOKENS, TOKENS, st.integers(0, 10**6)), min_size=1, max_size=5)


@given(FACTORS, FACTORS, WINDOWS)
def test_score_is_the_formula_on_a_common_scale(
    alpha: Fraction, beta: Fraction, window: list[tuple[int, int, int]]
) -> None:
    """Equation 2 in rationals is the integer score times one positive factor."""
    added, margins, weights = (list(column) for column in zip(*window, strict=True))
    factors = ScoreWeights.of(alpha, beta, weights)
    exact = sum(
        (alpha * w * d - beta * w * max(0, d - m) for d, m, w in window), start=Fraction(0)
    )
    integer = score(added, margins, factors)
    reward = sum((alpha * w for w in weights), start=Fraction(0))
    penalty = sum((beta * w for w in weights), start=Fraction(0))
    # Cross-multiplied, so that no factor is assumed to be non-zero.
    assert integer * reward == exact * sum(factors.reward)
    assert integer * penalty == exact * sum(factors.penalty)


@given(
    st.lists(TOKENS, min_size=1, max_size=6),
    st.data(),
    st.lists(st.integers(1, 10**6), max_size=4),
)
def test_br_0_score_is_minus_the_change_of_imbalance(
    loads: list[int], data: st.DataObject, chosen: list[int]
) -> None:
    """F(S, g) = Imbalance before − Imbalance after, for every load vector and set (eq. 1)."""
    G, worker = len(loads), data.draw(st.integers(0, len(loads) - 1))
    factors = ScoreWeights.of(Fraction(1), Fraction(G), (1,))
    before = sum(max(loads) - load for load in loads)
    margin = max(loads) - loads[worker]
    loads[worker] += sum(chosen)
    after = sum(max(loads) - load for load in loads)
    assert score([sum(chosen)], [margin], factors) == before - after


def test_br_0_score_by_hand() -> None:
    """G = 3, margin 20: 18 is safe (18), 22 overflows by 2 (22 − 6 = 16)."""
    factors = ScoreWeights.of(Fraction(1), Fraction(3), (1,))
    assert factors == ScoreWeights((1,), (3,))
    assert score([18], [20], factors) == 18
    assert score([22], [20], factors) == 16


def test_common_factors_are_divided_out() -> None:
    """α = 1/2, β = 3/4 on weights 4, 8: 8·α·w = 2, 4 and 3, 6 after dividing by their gcd."""
    assert ScoreWeights.of(Fraction(1, 2), Fraction(3, 4), (4, 8)) == ScoreWeights((2, 4), (3, 6))
    assert ScoreWeights.of(Fraction(0), Fraction(0), (0,)) == ScoreWeights((0,), (0,))


@given(FACTORS, FACTORS, st.integers(1, 4), st.data())
def test_scores_of_many_sets_are_scores_of_each(
    alpha: Fraction, beta: Fraction, columns: int, data: st.DataObject
) -> None:
    """The vectorised form agrees, in 64-bit and in Python integers."""
    row = st.lists(st.integers(0, 10**12), min_size=columns, max_size=columns)
    sets, margins = data.draw(st.lists(row, min_size=1, max_size=5)), data.draw(row)
    factors = ScoreWeights.of(alpha, beta, data.draw(row))
    dtype = factors.exact_dtype(10**12)
    found = scores(np.array(sets, dtype=dtype), np.array(margins, dtype=dtype), factors)
    assert [int(value) for value in found] == [score(s, margins, factors) for s in sets]


def test_huge_factors_leave_64_bits() -> None:
    """10^12 tokens times 10^12 do not fit: Python integers take over and stay exact."""
    factors = ScoreWeights((10**12,), (10**12 + 1,))
    assert factors.exact_dtype(10**12) == np.dtype(np.object_)
    assert ScoreWeights((1,), (16,)).exact_dtype(10**12) == np.dtype(np.int64)
    found = scores(np.array([[10**12]], dtype=object), np.array([1], dtype=object), factors)
    assert int(found[0]) == 10**24 - (10**12 + 1) * (10**12 - 1)


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 3), st.integers(0, 9), st.integers(-5, 5)),
        min_size=1,
        max_size=4,
    )
)
def test_right_end_of_the_maximisers(steps: list[tuple[int, int, int, int]]) -> None:
    """No Δ beats D*, none to its right ties with it; without D* the score never falls."""
    margins, reward, penalty, drift = (list(column) for column in zip(*steps, strict=True))
    factors = ScoreWeights(tuple(reward), tuple(penalty))

    def value(delta: int) -> int:
        return score([delta + d for d in drift], margins, factors)

    peak = right_end(margins, drift, factors)
    if peak is None:
        assert all(value(delta + 1) >= value(delta) for delta in range(-50, 80))
    else:
        assert all(value(delta) <= value(peak) for delta in range(-50, peak))
        assert all(value(delta + 1) < value(delta) for delta in range(peak, 80))
