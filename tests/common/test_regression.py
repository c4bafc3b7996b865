"""Least squares and Huber's estimate against other code; coverage of the intervals."""

import numpy as np
import pytest
from scipy import optimize

from bfio.common.regression import BEND, Loss, are_independent, noise_of, regress
from bfio.common.statistics import student_t
from formulations.arrays import FloatArray
from tests.calibration.cases import TRUE, drawn_loads, durations


def _table(loads: FloatArray) -> FloatArray:
    return np.column_stack([np.ones(len(loads)), loads.max(axis=1), loads.mean(axis=1)])


def test_least_squares_and_its_jackknife_by_hand() -> None:
    """A mean of four: each block is a row, so the jackknife is the textbook's error of a mean."""
    found = regress(np.ones((4, 1)), np.array([1.0, 2.0, 4.0, 9.0]), Loss.SQUARES)
    assert found.coefficients == pytest.approx([4])
    assert found.half_widths is not None
    error = np.std([1, 2, 4, 9], ddof=1) / 2
    assert found.half_widths == pytest.approx([student_t(3) * error])
    assert found.residuals == pytest.approx([-3, -2, 0, 5])


def test_without_a_block_is_a_fit_of_the_rest() -> None:
    """For least squares the Newton step is exact: refitting 20 times gives the same widths."""
    rng = np.random.default_rng(3)
    loads = drawn_loads(rng, 60, 4)
    table, values = _table(loads), durations(loads) * (1 + 0.02 * rng.normal(size=60))
    refits = [
        np.linalg.lstsq(np.delete(table, rows, 0), np.delete(values, rows), rcond=None)[0]
        for rows in np.array_split(np.arange(60), 20)
    ]
    spread = np.sqrt(19 * np.var(refits, axis=0))
    found = regress(table, values, Loss.SQUARES)
    assert found.half_widths == pytest.approx(student_t(19) * spread, rel=1e-6)


def test_huber_minimises_its_loss() -> None:
    """At the noise found, no point that a general minimiser finds has less loss."""
    rng = np.random.default_rng(4)
    table = np.column_stack([np.ones(80), rng.normal(size=80)])
    values = table @ [2.0, -1.0] + rng.standard_t(2, 80)
    found = regress(table, values, Loss.HUBER)
    noise = noise_of(found.residuals, values)

    def loss(point: FloatArray) -> float:
        size = np.abs(values - table @ point) / noise
        return float(np.where(size < BEND, size**2 / 2, BEND * (size - BEND / 2)).sum())

    other = optimize.minimize(loss, [0.0, 0.0], tol=1e-12)
    assert found.coefficients == pytest.approx(other.x, abs=1e-5)
    assert np.count_nonzero(found.weights < 1) == np.count_nonzero(
        np.abs(found.residuals) > BEND * noise
    )


def test_a_tail_does_not_move_an_exact_line() -> None:
    """One step in seven takes up to fifty times as long: constants stay to 1e-9."""
    loads = drawn_loads(np.random.default_rng(1), 300, 4)
    values = durations(loads)
    values[::7] *= 3
    values[::31] *= 50
    found = regress(_table(loads), values, Loss.HUBER)
    assert found.coefficients == pytest.approx(TRUE, rel=1e-9)
    squares = regress(_table(loads), values, Loss.SQUARES).coefficients
    assert abs(squares[0] / TRUE[0] - 1) > 0.1


def _noise(kind: str, rng: np.random.Generator, values: FloatArray) -> FloatArray:
    if kind == "tailed":
        return 3e-4 * rng.standard_t(2, len(values))
    drift = rng.normal(size=len(values))
    for k in range(1, len(drift)):
        drift[k] = 0.6 * drift[k - 1] + 0.8 * drift[k]
    return 0.03 * drift * values


@pytest.mark.parametrize(("kind", "loss"), [("drifting", Loss.SQUARES), ("tailed", Loss.HUBER)])
def test_intervals_cover(kind: str, loss: Loss) -> None:
    """Of 300 intervals 90 to 99 % hold the constant: noise that drifts and grows; a tail."""
    rng = np.random.default_rng(5)
    hits = np.zeros(3)
    for _ in range(300):
        loads = drawn_loads(rng, 160, 4)
        values = durations(loads)
        found = regress(_table(loads), values + _noise(kind, rng, values), loss)
        assert found.half_widths is not None
        hits += np.abs(found.coefficients - TRUE) <= found.half_widths
    assert np.all((hits >= 270) & (hits <= 297)), hits


def test_columns_that_go_together() -> None:
    """A column of zeros, a multiple, a sum of others, and too few rows are no basis."""
    ones, x = np.ones(5), np.arange(5.0)
    assert are_independent(np.column_stack([ones, x, x**2]))
    for table in ([ones, 0 * x], [x, 3 * x], [ones, x, 2 + 5 * x], [ones[:1], x[:1]]):
        assert not are_independent(np.column_stack(table))


def test_as_many_rows_as_columns_have_no_interval() -> None:
    """Two points, a line, nothing left to tell the noise from."""
    found = regress(np.array([[1.0, 0.0], [1.0, 2.0]]), np.array([1.0, 5.0]), Loss.HUBER)
    assert found.coefficients == pytest.approx([1, 2])
    assert found.half_widths is None
