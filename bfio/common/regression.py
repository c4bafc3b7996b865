r"""Linear regression with a loss robust to outliers, and confidence intervals for serial data.

Huber's estimate minimises ``Σ ρ(r_k / s)`` over the residuals r, with ρ quadratic up to `BEND` and
linear beyond, and s the normalised median of the absolute residuals (P. Huber, Robust Estimation
of a Location Parameter, 1964). It is computed by reweighting: each row has the weight ``min(1,
BEND·s / |r_k|)``. With weights of 1 it is least squares.

Intervals come from the *delete-a-block jackknife*: rows are cut into consecutive blocks, and the
estimate is repeated without each block. Unlike the textbook covariance, this does not assume that
all steps are equally noisy (long ones are noisier) or that the noise of neighbours is independent
(clocks drift). It only assumes independent blocks. Leaving out a block takes one Newton step from
the estimate, which is exact for least squares (B. Efron and R. Tibshirani, An Introduction to the
Bootstrap, chapter 11).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np

from bfio.common.statistics import BATCHES, student_t
from formulations.arrays import FloatArray

#: Huber's constant: 95 % of the efficiency of least squares for normal noise.
BEND = 1.345
#: Median absolute residual of a normal law with standard deviation 1.
_MEDIAN_OF_NORMAL = 0.6744897501960817
#: Noise below this many units in the last place of the median value counts as rounding.
_ROUNDING = 16
_EPS = float(np.finfo(np.float64).eps)
_MAX_ROUNDS = 200
#: The iteration ends when no row moves by more than this share of the noise, or a unit in the last
#: place.
_STILL = 1e-9
#: Smallest singular value, relative to normalised columns, for which they count as independent.
_ALIKE = 1e-12


class Loss(StrEnum):
    """The loss function of the residuals that a regression minimises."""

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
        Shape (p,): half the widths of the 95 % intervals; None if not requested, or for n = p.
    residuals : FloatArray
        Shape (n,): value minus fit.
    weights : FloatArray
        Shape (n,): weight of each row; 1, or less where the residual exceeds the bend of Huber's
        loss.
    """

    coefficients: FloatArray
    half_widths: FloatArray | None
    residuals: FloatArray
    weights: FloatArray


def regress(
    columns: FloatArray, values: FloatArray, loss: Loss, *, intervals: bool = True
) -> Regression:
    """Fit values by a linear combination of columns.

    Parameters
    ----------
    columns : FloatArray
        Regressors, shape (n, p) with n >= p >= 1; the columns are linearly independent.
    values : FloatArray
        Shape (n,).
    loss : Loss
        The function to minimise.
    intervals : bool
        Whether to compute half the widths of the confidence intervals.
    """
    # Use an orthonormal basis, because the normal equations of the columns would lose precision.
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
    """Return whether the columns of a matrix, shape (n, p), are linearly independent."""
    sizes = np.linalg.norm(columns, axis=0)
    if len(columns) < columns.shape[1] or not sizes.all():
        return False
    return bool(np.linalg.svd(columns / sizes, compute_uv=False)[-1] > _ALIKE)


def noise_of(residuals: FloatArray, values: FloatArray) -> float:
    """Return a robust spread of residuals, at least the rounding error of the values."""
    spread = float(np.median(np.abs(residuals))) / _MEDIAN_OF_NORMAL
    return max(spread, _ROUNDING * _EPS * float(np.median(np.abs(values))))


def huber_weights(residuals: FloatArray, noise: float) -> FloatArray:
    """Return the weight of each row: 1 up to `BEND` times the noise, smaller beyond."""
    return np.minimum(1, BEND * noise / np.maximum(np.abs(residuals), noise))


def _descended(
    basis: FloatArray, values: FloatArray, loss: Loss
) -> tuple[FloatArray, FloatArray, float]:
    """Return the estimate in an orthonormal basis, the weights, and the residual at the bend."""
    weights = np.ones(len(values))
    turned = basis.T @ values
    # Refine once, to recover the digits lost in the first product.
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
    """Return the Newton step without each block, shape (blocks, p), in basis coordinates."""
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
    # A block may contain all entries of a column. Then take the least change of the remaining
    # rows.
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
