"""Fit overhead and time per token of each worker to the durations of steps.

A step takes ``max_g (C_g + τ_g·L_g) + t_m·mean``. So its duration depends only on its *critical*
worker, which attains the maximum; for the others it gives an upper bound. The critical worker
depends on the unknown constants. Two operations alternate: each step is assigned to the worker
that is critical under the present lines, and the line of each worker is fitted to its steps (A.
Magnani and S. Boyd, Convex piecewise-linear fitting, 2009). This ends in a local optimum, not a
proven global one. Its start is the result of a smooth fit.

In the smooth fit the maximum over workers is replaced by ``T·log Σ_g exp(· / T)``, to which every
worker contributes, and fitted by the Levenberg-Marquardt method while the temperature T falls. So
a worker whose line starts too low to be critical is still fitted to the steps nearest to it; fits
of the maximum itself would ignore it. A small ridge keeps undetermined constants at their initial
values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bfio.common.regression import (
    Loss,
    Regression,
    are_independent,
    huber_weights,
    noise_of,
    regress,
)
from formulations.arrays import BoolArray, FloatArray, IntArray

#: First and last temperature, in units of the median duration, and their number.
_HOT, _COLD, _TEMPERATURES = 0.2, 1e-3, 120
_MOVES = 3
_RIDGE = 1e-6
#: Maximum number of steps in the smooth fit, evenly spaced; all steps are used later.
_ANNEALED_STEPS = 4000
#: Factor by which the damping changes, and its range.
_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 5.0, 1e-9, 1e3


@dataclass(frozen=True)
class _Smooth:
    """Durations and loads in units of their typical size; ``mean`` has 0 or 1 columns."""

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
    """Return at most ``most`` evenly spaced indices below ``number``."""
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
        Shape (3,): overhead, time per token and coefficient of the mean for equal workers.
    """
    number = loads.shape[1]
    rows = evenly_spaced(len(duration), _ANNEALED_STEPS)
    unit, token = float(np.median(duration)), float(loads[rows].max(axis=1).mean())
    means = np.zeros((len(duration), 0)) if mean is None else mean[:, None] / token
    smooth = _Smooth(duration[rows] / unit, loads[rows] / token, means[rows])
    units = np.repeat([unit, unit / token], [number, number + means.shape[1]])
    first = np.repeat(start, [number, number, means.shape[1]]) / units
    found = _cooled(smooth, first) * units
    lines = np.column_stack([found[:number], found[number : 2 * number]])
    return lines, 0.0 if mean is None else float(found[-1])


def _cooled(smooth: _Smooth, first: FloatArray) -> FloatArray:
    """Return the parameters after the temperature has been lowered step by step."""
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
    """Return Huber's loss per step plus the ridge."""
    weights = huber_weights(residuals, noise)
    # For residuals above the threshold, weight·r² is bend·|r|, and the loss bend·(|r| - bend/2).
    squares = weights * residuals**2
    loss = np.where(weights < 1, squares - (weights * residuals) ** 2 / 2, squares / 2)
    return float(loss.mean() + _RIDGE * (off @ off) / 2)


#: Minimum critical steps of a fitted worker; any line explains fewer.
LEAST_CRITICAL = 10
_MAX_ROUNDS, _LAST_ROUNDS = 50, 4
#: Maximum number of steps, evenly spaced, in all rounds except the last ones.
_MOST_STEPS = 20_000


@dataclass(frozen=True)
class WorkerLines:
    """Fitted lines (overhead and time per token) of the workers that are often critical.

    Parameters
    ----------
    fitted : tuple of int
        Workers with a line, in increasing order.
    critical : IntArray
        Shape (K,): the critical worker of each step, fitted or not.
    used : BoolArray
        Shape (K,): whether a step is fitted, that is, its critical worker has a line.
    regression : Regression
        Regression over the used steps. Columns: overhead and time per token of each fitted worker,
        then the coefficient of the mean, if it has a term. Intervals assume that the critical
        workers are known.
    """

    fitted: tuple[int, ...]
    critical: IntArray
    used: BoolArray
    regression: Regression


@dataclass(frozen=True)
class _Steps:
    duration: FloatArray
    loads: FloatArray
    mean: FloatArray | None
    loss: Loss


def fit_lines(
    duration: FloatArray,
    loads: FloatArray,
    mean: FloatArray | None,
    start: FloatArray,
    loss: Loss,
) -> WorkerLines | None:
    """Fit overhead and time per token of each worker that is critical often enough.

    Parameters
    ----------
    duration : FloatArray
        Shape (K,) [s].
    loads : FloatArray
        Shape (K, G) [tokens].
    mean : FloatArray, optional
        Shape (K,): mean load, if it has a term.
    start : FloatArray
        Shape (3,): overhead, time per token and coefficient of the mean for equal workers [s].
    loss : Loss
        Loss to minimise.

    Returns
    -------
    WorkerLines or None
        None if no worker is critical in `LEAST_CRITICAL` steps of different loads.
    """
    lines, mean_time = annealed_lines(duration, loads, mean, start)
    rows = evenly_spaced(len(duration), _MOST_STEPS)
    some = _Steps(duration[rows], loads[rows], None if mean is None else mean[rows], loss)
    _alternate(some, lines, mean_time, _MAX_ROUNDS)
    every = _Steps(duration, loads, mean, loss)
    best = _alternate(every, lines, mean_time, _LAST_ROUNDS)
    return None if best is None else _fitted(every, best.critical, intervals=True)


def _alternate(
    steps: _Steps, lines: FloatArray, mean_time: float, most_rounds: int
) -> WorkerLines | None:
    """Alternate between critical workers and fits of their lines; return the best fit.

    Its lines are written to ``lines``, shape (G, 2); a worker that is not fitted keeps its line.
    """
    best: tuple[float, WorkerLines, FloatArray] | None = None
    seen: set[bytes] = set()
    for _ in range(most_rounds):
        critical = (lines[:, 0] + lines[:, 1] * steps.loads).argmax(axis=1)
        found = None if critical.tobytes() in seen else _fitted(steps, critical)
        if found is None:
            break
        seen.add(critical.tobytes())
        times = found.regression.coefficients
        lines[list(found.fitted)] = times[: 2 * len(found.fitted)].reshape(-1, 2)
        mean_time = mean_time if steps.mean is None else float(times[-1])
        size = _misfit(steps, lines, mean_time)
        if best is None or size < best[0]:
            best = size, found, lines.copy()
    if best is None:
        return None
    lines[:] = best[2]
    return best[1]


def _fitted(steps: _Steps, critical: IntArray, *, intervals: bool = False) -> WorkerLines | None:
    """Fit the lines of given critical workers; None if no worker can be fitted."""
    own = [np.flatnonzero(critical == g) for g in range(steps.loads.shape[1])]
    fitted = tuple(g for g, rows in enumerate(own) if _is_enough(steps.loads[rows, g]))
    used = np.isin(critical, fitted)
    columns = np.zeros((len(critical), 2 * len(fitted)))
    for place, g in enumerate(fitted):
        columns[own[g], 2 * place] = 1
        columns[own[g], 2 * place + 1] = steps.loads[own[g], g]
    if steps.mean is not None:
        columns = np.column_stack([columns, steps.mean])
    if not fitted or not are_independent(columns[used]):
        return None
    duration = steps.duration[used]
    regression = regress(columns[used], duration, steps.loss, intervals=intervals)
    return WorkerLines(fitted, critical, used, regression)


def _is_enough(loads: FloatArray) -> bool:
    return len(loads) >= LEAST_CRITICAL and bool(np.ptp(loads) > 0)


def _misfit(steps: _Steps, lines: FloatArray, mean_time: float) -> float:
    """Return the mean error of the model over all steps, in the norm of the loss."""
    found = (lines[:, 0] + lines[:, 1] * steps.loads).max(axis=1)
    if steps.mean is not None:
        found = found + mean_time * steps.mean
    off = np.abs(steps.duration - found)
    return float((off if steps.loss is Loss.HUBER else off**2).mean())
