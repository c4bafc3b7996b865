"""The linear program over subsets: one subset per worker, no request twice (simplex).

    max Σ_j s(S_j) x_j   s.t.  Σ_{j of g} x_j = 1 for each worker g,  Σ_{j ∋ i} x_j ≤ 1 for each i.

The duals only propose prices; bounds are proven in integers elsewhere. So floats suffice.
"""

from typing import NamedTuple

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from formulations.arrays import FloatArray, IntArray

#: Reduced costs and pivots below this count as zero.
_TOLERANCE = 1e-7


class Pool(NamedTuple):
    """Subsets of requests that the linear program may use.

    Parameters
    ----------
    members : IntArray
        Shape (K, C): positions of requests, filled up with -1.
    worker : IntArray
        Shape (K,): worker of each subset.
    worth : FloatArray
        Shape (K,): total size of each subset.
    """

    members: IntArray
    worker: IntArray
    worth: FloatArray


class Basis(NamedTuple):
    """A basic solution of the linear program, with R rows: the W workers, then the requests.

    Parameters
    ----------
    column : IntArray
        Shape (R,): the column of each row in the pool, or ``-1 - r`` for the slack of row r; a
        worker's slack is its penalty for staying empty.
    inverse : FloatArray
        Shape (R, R): the inverse of the basis, transposed.
    primal, dual : FloatArray
        Shape (R,).
    """

    column: IntArray
    inverse: FloatArray
    primal: FloatArray
    dual: FloatArray


def empty_basis(rows: int) -> Basis:
    """Return the uninitialised memory of a basis, for `start_basis`."""
    inverse = np.empty((rows, rows))
    return Basis(np.empty(rows, np.int64), inverse, np.empty(rows), np.zeros(rows))


@entry_point
def start_basis(
    num_workers: int,
    available: IntArray,
    first: IntArray,
    pool: Pool,
    penalty: float,
    basis: Basis,
) -> None:
    """Begin with one subset for each worker, pairwise disjoint, and slack variables.

    Parameters
    ----------
    available : IntArray
        Shape (N,): number of requests of each size; there are R = W + N rows.
    first : IntArray
        Shape (W,): the column of each worker, -1 for none.
    penalty : float
        Cost of a worker without a subset [tokens].
    basis : Basis
        Overwritten.
    """
    column, inverse, primal, dual = basis
    inverse[:] = 0.0
    for r in range(num_workers + len(available)):
        inverse[r, r] = 1.0
        column[r] = -1 - r
        primal[r] = 1.0
        dual[r] = 0.0
        if r >= num_workers:
            # Right-hand sides that differ a little keep degenerate pivots from cycling.
            primal[r] = available[r - num_workers] + 1e-6 * (1.0 + (r * 7919 % 1013) / 1013.0)
    for g in range(num_workers):
        dual[g] = -penalty
        if first[g] < 0:
            continue
        column[g] = first[g]
        dual[g] = pool.worth[first[g]]
        for i in pool.members[first[g]]:
            if i >= 0:
                inverse[g, num_workers + i] -= 1.0
                primal[num_workers + i] -= 1.0


@compilable
def _entering(num_workers: int, pool: Pool, dual: FloatArray) -> tuple[int, float]:
    """Return the column (or slack, as ``-1 - r``) of the largest reduced cost, and that cost."""
    best = _TOLERANCE
    entering = 0
    for j in range(len(pool.worth)):
        cost = pool.worth[j] - dual[pool.worker[j]]
        for i in pool.members[j]:
            if i >= 0:
                cost -= dual[num_workers + i]
        if cost > best:
            best = cost
            entering = j
    for r in range(num_workers, len(dual)):
        if -dual[r] > best:
            best = -dual[r]
            entering = -1 - r
    return entering, best


@compilable
def _direction(
    num_workers: int, entering: int, pool: Pool, inverse: FloatArray, direction: FloatArray
) -> None:
    """Express the entering column in terms of the basis."""
    if entering < 0:
        copy_to(direction, inverse[-1 - entering])
        return
    copy_to(direction, inverse[pool.worker[entering]])
    for i in pool.members[entering]:
        if i >= 0:
            direction += inverse[num_workers + i]


@entry_point
def _leaving(direction: FloatArray, primal: FloatArray) -> int:
    """Return the row of the least ratio; of nearly equal ratios, that of the largest pivot."""
    leaving = -1
    least = np.inf
    for r in range(len(direction)):
        if direction[r] > _TOLERANCE:
            ratio = max(primal[r], 0.0) / direction[r]
            if ratio < least - 1e-12 or (
                ratio < least + 1e-12 and direction[r] > direction[leaving]
            ):
                least = min(ratio, least)
                leaving = r
    return leaving


@compilable
def _subtract(row: FloatArray, factor: float, direction: FloatArray) -> None:
    for r in range(len(row)):
        row[r] -= factor * direction[r]


@entry_point
def improve_basis(num_workers: int, pool: Pool, pivots: int, basis: Basis) -> int:
    """Pivot until no column has a positive reduced cost; return the pivots, at most ``pivots``."""
    column, inverse, primal, dual = basis
    direction = np.empty(len(column))
    for step in range(pivots):
        entering, cost = _entering(num_workers, pool, dual)
        if cost <= _TOLERANCE:
            return step
        _direction(num_workers, entering, pool, inverse, direction)
        p = _leaving(direction, primal)
        if p < 0:
            return step
        amount = max(primal[p], 0.0) / direction[p]
        _subtract(primal, amount, direction)
        primal[p] = amount
        pivot = direction[p]
        for r in range(len(column)):
            factor = inverse[r, p] / pivot
            if factor != 0.0:
                _subtract(inverse[r], factor, direction)
                inverse[r, p] = factor
                dual[r] += factor * cost
        column[p] = entering
    return pivots
