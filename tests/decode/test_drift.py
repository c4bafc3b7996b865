"""Drift models: both interpretations, rates as patterns, and invalid increments."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.drift import CONSTANT, LLM, Drift, DriftReading, parse_drift
from bfio.testing.runs import drifts
from formulations.errors import InputError


@given(drifts(), st.integers(0, 60))
def test_cumulative_is_the_sum_of_the_repeated_increments(drift: Drift, count: int) -> None:
    """D(n) adds the first n increments of the endless repetition."""
    period = drift.increments
    expected = sum(period[t % len(period)] for t in range(count))
    assert int(drift.cumulative(np.array(count))) == expected


@given(drifts(), st.integers(1, 50), st.integers(0, 20), st.integers(0, 20), st.integers(0, 6))
def test_growth_is_the_difference_of_weights(
    drift: Drift, prompt: int, start: int, age: int, horizon: int
) -> None:
    """Growth is w at step k+h minus w at step k, for a request run since ``start``."""
    prompts, starts, step = np.array([prompt]), np.array([start]), start + age
    now = drift.weights(prompts, starts, step)
    ahead = [int(drift.weights(prompts, starts, step + h)[0] - now[0]) for h in range(horizon + 1)]
    growth = drift.growth(step, np.array([age]), horizon)
    assert np.broadcast_to(growth, (1, horizon + 1))[0].tolist() == ahead
    if not drift.may_fall:
        assert drift.largest_gain(horizon) >= ahead[-1]


@given(drifts(), st.integers(0, 40))
def test_largest_gain_is_reached_or_a_bound(drift: Drift, steps: int) -> None:
    """No request gains more up to any of its first steps; what may fall attains it."""
    gains = drift.cumulative(np.arange(steps + 1)).max()
    assert drift.largest_gain(steps) >= gains
    assert drift.largest_gain(steps) == gains or not drift.may_fall


def test_a_compressed_cache_by_hand() -> None:
    """Two tokens more, then half of them gone: 5, 6, 7, 6, 7, 8, 7; the peak of 6 steps is 8."""
    drift = parse_drift("age:2*1,-1", "drift")
    assert drift == Drift((1, 1, -1))
    loads = [int(drift.weights(np.array([5]), np.array([0]), step)[0]) for step in range(7)]
    assert loads == [5, 6, 7, 6, 7, 8, 7]
    assert drift.largest_gains(np.arange(7)).tolist() == [0, 1, 2, 2, 2, 3, 3]


def test_known_models() -> None:
    """LLM decode gains one per step, constant work nothing."""
    prompts, starts = np.array([5, 7]), np.array([0, 2])
    assert LLM.weights(prompts, starts, 3).tolist() == [8, 8]
    assert CONSTANT.weights(prompts, starts, 3).tolist() == [5, 7]
    assert LLM.is_uniform
    assert not Drift((1, 0)).is_uniform


@pytest.mark.parametrize("delta", [0, 1, 4])
def test_readings_agree_for_equal_increments(delta: int) -> None:
    """A constant increment makes age and global step the same, as the paper notes."""
    prompts, starts = np.array([5, 7, 9]), np.array([0, 2, 3])
    by_age, by_step = Drift((delta, delta)), Drift((delta,), DriftReading.GLOBAL_STEP)
    assert (
        by_age.weights(prompts, starts, 6).tolist() == by_step.weights(prompts, starts, 6).tolist()
    )


def test_readings_differ_otherwise() -> None:
    """Increments 3, 0; a request from step 1 has gained 3 by age at step 2, 0 by global step."""
    prompts, starts = np.array([10]), np.array([1])
    assert Drift((3, 0)).weights(prompts, starts, 2).tolist() == [13]
    by_step = Drift((3, 0), DriftReading.GLOBAL_STEP)
    assert by_step.weights(prompts, starts, 2).tolist() == [10]


@given(st.fractions(0, 5, max_denominator=50), st.integers(0, 200))
def test_rates_stay_within_a_token_of_the_line(rate: Fraction, count: int) -> None:
    """The pattern of a rate sums to floor(n·rate)."""
    drift = Drift.from_rate(rate)
    assert int(drift.cumulative(np.array(count))) == count * rate.numerator // rate.denominator


def test_two_thirds_is_the_pattern_0_1_1() -> None:
    """floor(2/3), floor(4/3), floor(6/3) = 0, 1, 2."""
    assert Drift.from_rate(Fraction(2, 3)).increments == (0, 1, 1)


@pytest.mark.parametrize(
    ("increments", "message"),
    [
        ((), "0 increments"),
        ((-1, 2), "after 1 step the load of a request is below its prompt"),
        ((3, -1, -3, 2), "after 3 steps the load of a request is below its prompt"),
        ((1, -(10**6) - 1), r"drift\[1\]: -1000001 is out of range"),
        ((0.5,), r"drift\[0\]: expected an integer"),
        ((True,), r"drift\[0\]: expected an integer"),
        ((10**6 + 1,), "out of range"),
    ],
)
def test_bad_increments_are_named(increments: tuple[Any, ...], message: str) -> None:
    """Increments are whole, at least one, and let no load fall below its start."""
    with pytest.raises(InputError, match=message):
        Drift(increments)


def test_unknown_reading_and_rate_are_named() -> None:
    """A reading that does not exist, a negative rate, a rate of endless period."""
    with pytest.raises(InputError, match="use one of age, global-step"):
        Drift((1,), "clock")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="also applies to new requests"):
        Drift((2, -1), DriftReading.GLOBAL_STEP)
    for rate in (Fraction(-1, 2), Fraction(1, 10**7), Fraction(10**7)):
        with pytest.raises(InputError, match="rate"):
            Drift.from_rate(rate)
