"""Sentences of the proofs, operations and energy, by hand."""

import pytest

from bfio.decode.energy import EnergyReading
from proofs_checks.papers.balance.average_gap import verify_average, verify_remainder
from proofs_checks.papers.balance.metrics import (
    by_formula,
    energy,
    operations,
    parameters,
    verify_operations,
)
from proofs_checks.papers.balance.overloaded_family import separated, verify_pool, verify_strict


def test_operations_by_hand() -> None:
    """2 → 3 → 1: 9 weights, each multiplied and added once."""
    assert parameters((2, 3, 1)) == 9
    assert operations((2, 3, 1)) == (9, 9)
    assert verify_operations({"widths": [2, 3, 1]}) is not None


def test_energy_of_a_step_by_hand() -> None:
    """Loads 1 and 3, one request each, Δt = 4: mfu = 6/(4·12) = 1/8 averaged over the step.

    Busy for 2 and 4 of 4 time units with two phases: mfu 1/4 and 1/8, and 2 units at 100 W.
    """

    def watts(mfu: float) -> float:
        return float(100 + 300 * (mfu / 0.45) ** 0.7)

    averaged = energy((1, 3), (1, 1), EnergyReading.AVERAGED, 0.7)
    assert averaged == pytest.approx(8 * watts(1 / 8)) == pytest.approx(by_formula((1, 3), (1, 1)))
    two = energy((1, 3), (1, 1), EnergyReading.TWO_PHASE, 0.7)
    assert two == pytest.approx(2 * watts(1 / 4) + 4 * watts(1 / 8) + 200)


def test_even_loads_may_take_more_energy_with_two_phases() -> None:
    """Loads of 19 and 19 are busy for 20 s at full power, 36 and 2 for 37 s and 3 s.

    mfu = 0.45·20/t; the light worker's power is capped at 400 W.
    """

    def two(loads: tuple[int, int]) -> float:
        return energy(loads, (2, 2), EnergyReading.TWO_PHASE, 0.7, 4 / 3)

    assert two((19, 19)) == pytest.approx(2 * 20 * 400)
    uneven = 37 * (100 + 300 * (20 / 37) ** 0.7) + 3 * 400 + 34 * 100
    assert two((36, 2)) == pytest.approx(uneven)
    assert uneven < 15_600 < two((19, 19))


def test_an_overloaded_pool_without_a_size() -> None:
    """1, 2 of s_max = 3 with one slot: one is left without either, and there is no 3."""
    assert verify_pool({"pool": [1, 2], "free": 1, "largest": 3}) is not None
    assert verify_pool({"pool": [1, 2], "free": 1, "largest": 2}) is None
    assert verify_pool({"pool": [1, 1], "free": 1, "largest": 3}) is None


def test_equal_sizes_are_not_separated() -> None:
    """S_p = S_q = {2}: no θ with 2 ≤ θ < 2, and no x > y."""
    assert not separated([2], [2], 3)
    assert separated([1], [2], 3)
    assert verify_strict({"heavy": [2], "light": [2], "largest": 3}) is not None
    assert verify_strict({"heavy": [3], "light": [2], "largest": 3}) is None


def test_averages_and_remainders() -> None:
    """The average of 0, 1, 2, 3 is 3/2; loads 2, 0, 0 with s = 1, r = 1 have 4 > 2·1 + 1."""
    assert verify_average({"slope": 1, "bound": 1, "steps": 4}) is not None
    assert verify_average({"slope": 1, "bound": 2, "steps": 4}) is None
    assert verify_remainder({"loads": [2, 0, 0], "size": 1}) is not None
    assert verify_remainder({"loads": [2, 0], "size": 1}) is None
