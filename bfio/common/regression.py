r"""Linear regression with a loss that outliers cannot bend, and intervals for steps in a row.

Huber's estimate minimises ``Σ ρ(r_k / s)`` over the residuals r, with ρ quadratic up to `BEND` and
linear beyond, and s the normalised median of the absolute residuals (P. Huber, Robust Estimation
of a Location Parameter, 1964). It is found by reweighting: each row has the weight
``min(1, BEND·s / |r_k|)``. With weights of 1 it is least squares.

Intervals come from the *delete-a-block jackknife*: rows are cut into consecutive blocks, and
the estimate is taken anew without each. Unlike the textbook's covariance that supposes neither
that all steps are equally noisy (long ones are noisier) nor that the noise of neighbours is
independent (clocks drift), only that blocks are. Leaving out a block takes one Newton step from
the estimate, which is exact for least squares (B. Efron and R. Tibshirani, An Introduction to
the Bootstrap, chapter 11).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np

from bfio.common.statistics import BATCHES, student_t
from formulations.arrays import FloatArray

#: Huber's constant: 95 % as efficient as least squares if the noise is normal.
BEND = 1.345
#: Median absolute residual of a normal law with standard deviation 1.
_MEDIAN_OF_NORMAL = 0.6744897501960817
#: Noise below so many units in the last place of the median value is rounding.
_ROUNDING = 16
_EPS = float(np.finfo(np.float64).eps)
_MAX_ROUNDS = 200
#: A round that moves no row by more than this share of the noise, or a unit in the last place, is
#: the last.
_STILL = 1e-9
#: Columns that differ from a combination of others by less than this share of themselves.
_ALIKE = 1e-12


class Loss(StrEnum):
    """What is minimised over the residuals."""

    HUBER = "huber"
    SQUARES = "squares"


@dataclass(frozen=True)
class Regression:
    """Coefficients of p columns, fitted to n rows.

    Parameters
    ----------
    coefficients : FloatArray
        Shape (p,).
    half_widths : FloatArray, optional
        Shape (p,): half the width of each one's 95 % interval; None without, or with p rows.
    residuals : FloatArray
        Shape (n,): value minus fit.
    weights : FloatArray
        Shape (n,): 1, less for rows beyond the bend of Huber's loss.
    """

    coefficients: FloatArray
    half_widths: FloatArray | None
    residuals: FloatArray
    weights: FloatArray


def regress(
    columns: FloatArray, values: FloatArray, loss: Loss, *, intervals: bool = True
) -> Regression:
    """Fit values by a combination of columns.

    Parameters
    ----------
    columns : FloatArray
        Shape (n, p), n >= p >= 1, linearly independent.
    values : FloatArray
        Shape (n,).
    loss : Loss
        What is minimised.
    intervals : bool
        Whether half widths are wanted.
    """
    # In an orthonormal basis the normal equations lose no digits.
    scale = np.linalg.norm(columns, axis=0)
    basis, triangle = np.linalg.qr(columns / scale)
    turned, weights, bend = _descended(basis, values, loss)
    residuals = values - basis @ turned
    others = None
    if intervals:
        others = _without_each_block(basis, residuals, weights, np.abs(residuals) <= bend)
    back = np.linalg.inv(triangle) / scale[:, None]
    return Regression(
        coefficients=back @ turned,
        half_widths=None if others is None else _half_widths(others @ back.T),
        residuals=residuals,
        weights=weights,
    )


def are_independent(columns: FloatArray) -> bool:
    """Whether no column is a combination of the others; shape (n, p)."""
    sizes = np.linalg.norm(columns, axis=0)
    if len(columns) < columns.shape[1] or not sizes.all():
        return False
    return bool(np.linalg.svd(columns / sizes, compute_uv=False)[-1] > _ALIKE)


def noise_of(residuals: FloatArray, values: FloatArray) -> float:
    """Return the spread of residuals, robustly; rounding errors of the values at least."""
    spread = float(np.median(np.abs(residuals))) / _MEDIAN_OF_NORMAL
    return max(spread, _ROUNDING * _EPS * float(np.median(np.abs(values))))


def huber_weights(residuals: FloatArray, noise: float) -> FloatArray:
    """Return the weight of each row: 1 up to `BEND` times the noise, less beyond."""
    weights: FloatArray = np.minimum(1, BEND * noise / np.maximum(np.abs(residuals), noise))
    return weights


def _descended(
    basis: FloatArray, values: FloatArray, loss: Loss
) -> tuple[FloatArray, FloatArray, float]:
    """Return the estimate in an orthonormal basis, the weights, and the residual at the bend."""
    weights = np.ones(len(values))
    turned = basis.T @ values
    # Once more, for the digits that the first product has lost.
    turned = turned + basis.T @ (values - basis @ turned)
    if loss is Loss.SQUARES:
        return turned, weights, np.inf
    last_place = _EPS * float(np.median(np.abs(values)))
    for _ in range(_MAX_ROUNDS):
        residuals = values - basis @ turned
        noise = noise_of(residuals, values)
        weights = huber_weights(residuals, noise)
        weighted = weights[:, None] * basis
        move = np.linalg.solve(basis.T @ weighted, weighted.T @ residuals)
        turned = turned + move
        if np.abs(basis @ move).max() <= max(_STILL * noise, last_place):
            break
    return turned, weights, BEND * noise


def _without_each_block(
    basis: FloatArray, residuals: FloatArray, weights: FloatArray, is_inside: np.ndarray
) -> FloatArray | None:
    """Return how far the estimate moves without each block, shape (blocks, p), in the basis."""
    num_rows, num_columns = basis.shape
    if num_rows <= num_columns:
        return None
    number = min(BATCHES, num_rows)
    edges = np.arange(number + 1) * num_rows // number
    curvature = np.empty((number, num_columns, num_columns))
    for k, (first, end) in enumerate(pairwise(edges)):
        rows = basis[first:end]
        curvature[k] = rows.T @ (is_inside[first:end, None] * rows)
    pull = np.add.reduceat((weights * residuals)[:, None] * basis, edges[:-1], axis=0)
    # A block may hold all there is of a column: of the rest the least change is taken.
    moves = (
        np.linalg.pinv(curvature.sum(axis=0) - curvature) @ (pull.sum(axis=0) - pull)[..., None]
    )
    found: FloatArray = moves[..., 0]
    return found


def _half_widths(moves: FloatArray) -> FloatArray:
    number = len(moves)
    spread = np.sqrt((number - 1) * moves.var(axis=0))
    widths: FloatArray = student_t(number - 1) * spread
    return widths
