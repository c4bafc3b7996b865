"""Lines whose maximum fits durations, found by way of smooth maxima.

The maximum over workers is replaced by ``T·log Σ_g exp(· / T)``, of which every worker has a
share, and fitted by Levenberg and Marquardt's method while the temperature T falls. So a worker
whose line begins too low to be critical anywhere still learns from the steps nearest to it; fits
of the maximum itself never look at it again. What data say nothing of stays where it began, by a
small ridge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bfio.common.regression import huber_weights, noise_of
from formulations.arrays import FloatArray, IntArray

#: Temperatures, in units of the median duration: the first, the last, and how many.
_HOT, _COLD, _TEMPERATURES = 0.2, 1e-3, 120
_MOVES = 3
_RIDGE = 1e-6
#: Steps looked at, evenly spaced if there are more; fits of all follow.
_MOST_STEPS = 4000
#: By how much the damping of a move changes, and the range it stays in.
_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 5.0, 1e-9, 1e3


@dataclass(frozen=True)
class _Smooth:
    """Durations and loads, each in units of its typical size; ``mean`` has 0 or 1 columns."""

    values: FloatArray
    loads: FloatArray
    mean: FloatArray

    def fit(self, point: FloatArray, temperature: float) -> tuple[FloatArray, FloatArray]:
        """Return residuals and their negative derivatives at a point, shapes (n,), (n, p)."""
        number = self.loads.shape[1]
        parts = point[:number] + point[number : 2 * number] * self.loads
        peak = parts.max(axis=1, keepdims=True)
        shares = np.exp((parts - peak) / temperature)
        total = shares.sum(axis=1, keepdims=True)
        shares = shares / total
        found = (peak + temperature * np.log(total))[:, 0] + self.mean @ point[2 * number :]
        return self.values - found, np.hstack([shares, shares * self.loads, self.mean])


def evenly_spaced(number: int, most: int) -> IntArray:
    """Return ``most`` of so many rows, evenly spaced; all of them if there are no more."""
    return np.linspace(0, number - 1, min(number, most)).astype(np.int64)


def annealed_lines(
    duration: FloatArray, loads: FloatArray, mean: FloatArray | None, start: FloatArray
) -> tuple[FloatArray, float]:
    """Return overhead and time per token of each worker, shape (G, 2), and the mean's time.

    Parameters
    ----------
    duration : FloatArray
        Shape (K,) [s].
    loads : FloatArray
        Shape (K, G) [tokens].
    mean : FloatArray, optional
        Shape (K,): mean load, if it has a term.
    start : FloatArray
        Shape (3,): overhead, time per token and the mean's time of equal workers.
    """
    number = loads.shape[1]
    rows = evenly_spaced(len(duration), _MOST_STEPS)
    unit, token = float(np.median(duration)), float(loads[rows].max(axis=1).mean())
    means = np.zeros((len(duration), 0)) if mean is None else mean[:, None] / token
    smooth = _Smooth(duration[rows] / unit, loads[rows] / token, means[rows])
    units = np.repeat([unit, unit / token], [number, number + means.shape[1]])
    first = np.repeat(start, [number, number, means.shape[1]]) / units
    found = _cooled(smooth, first) * units
    lines = np.column_stack([found[:number], found[number : 2 * number]])
    return lines, 0.0 if mean is None else float(found[-1])


def _cooled(smooth: _Smooth, first: FloatArray) -> FloatArray:
    """Return the point that is left once the temperature has fallen."""
    point, damping = first, 1e-2
    for temperature in np.geomspace(_HOT, _COLD, _TEMPERATURES):
        residuals, slopes = smooth.fit(point, temperature)
        for _ in range(_MOVES):
            noise = noise_of(residuals, smooth.values)
            move = _move(residuals, slopes, noise, first - point, damping)
            tried = smooth.fit(point + move, temperature)
            if _cost(tried[0], noise, point + move - first) < _cost(
                residuals, noise, point - first
            ):
                point, (residuals, slopes) = point + move, tried
                damping = max(damping / _DAMPING, _LEAST_DAMPING)
            else:
                damping = min(damping * _DAMPING, _MOST_DAMPING)
    return point


def _move(
    residuals: FloatArray, slopes: FloatArray, noise: float, back: FloatArray, damping: float
) -> FloatArray:
    weighted = huber_weights(residuals, noise)[:, None] * slopes / len(residuals)
    curvature = slopes.T @ weighted + _RIDGE * np.eye(len(back))
    damped = curvature + damping * np.diag(np.diag(curvature))
    pull = weighted.T @ residuals + _RIDGE * back
    return np.asarray(np.linalg.solve(damped, pull), dtype=np.float64)


def _cost(residuals: FloatArray, noise: float, off: FloatArray) -> float:
    """Return Huber's loss per step and the ridge."""
    weights = huber_weights(residuals, noise)
    # Of a residual beyond the bend, weight·r² is bend·|r|, and the loss bend·(|r| - bend/2).
    squares = weights * residuals**2
    loss = np.where(weights < 1, squares - (weights * residuals) ** 2 / 2, squares / 2)
    return float(loss.mean() + _RIDGE * (off @ off) / 2)
