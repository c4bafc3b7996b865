"""The compiled two-stage heuristic with the interface of the reference implementation."""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache, lru_cache
from typing import Protocol

import numpy as np

from bfio.step.two_stage.fscore import ScoreWeights
from bfio.step.two_stage.kernels.two_stage import (
    DECIDED,
    order_by_size,
    two_stage_decide,
    two_stage_decide_within,
)
from bfio.step.two_stage.limits import Limits
from formulations.arrays import IntArray

#: Factors from this on could overflow 64-bit integers.
_LARGEST = 2**61


class Parameters(Protocol):
    """The attributes of `bfio.step.two_stage.heuristic.TwoStageParameters`."""

    @property
    def threshold(self) -> int:
        """Free slots up to which subsets are chosen (stage 2)."""

    @property
    def candidates(self) -> int | None:
        """Requests considered per subset."""

    @property
    def alpha(self) -> Fraction:
        """Reward factor."""

    @property
    def beta(self) -> Fraction | None:
        """Penalty factor; None is the number of workers."""

    @property
    def key(self) -> str:
        """Order of workers in stage 2."""


def two_stage_compiled(
    capacity: IntArray,
    base: IntArray,
    contribution: IntArray,
    weights: Sequence[int],
    parameters: Parameters,
    limits: Limits | None = None,
) -> list[int | None] | None:
    """Decide as `bfio.step.two_stage.heuristic.two_stage_reference`, with the same arguments.

    Returns
    -------
    list of (int or None), or None
        Worker of each request; None instead of a list if the kernels do not support the data.
    """
    if limits is not None and limits.benefit is not None:
        return None
    beta = Fraction(len(capacity)) if parameters.beta is None else parameters.beta
    factors = _factors(parameters.alpha, beta, tuple(weights))
    if factors is None:
        return None
    # Writeable contiguous copies, so that all callers use the same compiled signature.
    added = np.array(contribution, dtype=np.int64, order="C")
    sizes, growth = added[:, 0].copy(), np.zeros(len(weights), dtype=np.int64)
    if len(added):
        growth = added[0] - added[0, 0]
    by_size, assignment = np.empty((2, len(added)), dtype=np.int64)
    order_by_size(sizes, by_size)
    if limits is not None:
        status = _decide_within(
            capacity, base, added, by_size, factors, parameters, limits, assignment
        )
        return _read(status, assignment)
    status = two_stage_decide(
        np.array(capacity, dtype=np.int64),
        np.array(base, dtype=np.int64, order="C"),
        sizes,
        growth,
        added,
        by_size,
        factors[0],
        factors[1],
        parameters.threshold,
        parameters.candidates or 0,
        parameters.key == "product",
        assignment,
    )
    return _read(status, assignment)


def _decide_within(
    capacity: IntArray,
    base: IntArray,
    added: IntArray,
    by_size: IntArray,
    factors: tuple[IntArray, IntArray],
    parameters: Parameters,
    limits: Limits,
    assignment: IntArray,
) -> int:
    """Call `two_stage_decide_within`, which fills the assignment."""
    pools = [by_size[limits.required[by_size]], by_size[~limits.required[by_size]]]
    most_time = np.empty(0, np.int64) if limits.most_time is None else limits.most_time
    return two_stage_decide_within(
        np.array(capacity, dtype=np.int64),
        np.ascontiguousarray(base * limits.time[:, None]),
        added,
        np.concatenate(pools),
        len(pools[0]),
        limits.num_slots,
        limits.time.astype(np.int64),
        most_time.astype(np.int64),
        factors[0],
        factors[1],
        parameters.threshold,
        parameters.candidates or 0,
        parameters.key == "product",
        assignment,
    )


def _read(status: int, assignment: IntArray) -> list[int | None] | None:
    if status != DECIDED:
        return None
    return [None if worker < 0 else worker for worker in assignment.tolist()]


@cache
def warm_up() -> None:
    """Compile the kernels or load them from the cache on disk, before any time is measured."""
    one = np.ones((1, 1), dtype=np.int64)
    by_size, assignment = np.zeros((2, 1), dtype=np.int64)
    row, none = one[0].copy(), one[0, :0].copy()
    order_by_size(row, by_size)
    two_stage_decide(
        row.copy(), one.copy(), row, row, one, by_size, row, row, 1, 0, False, assignment
    )
    two_stage_decide_within(
        row, one.copy(), one, by_size, 0, 1, row, none, row, row, 1, 0, False, assignment
    )


@lru_cache(maxsize=64)
def _factors(
    alpha: Fraction, beta: Fraction, weights: tuple[int, ...]
) -> tuple[IntArray, IntArray] | None:
    factors = ScoreWeights.of(alpha, beta, weights)
    if max(*factors.reward, *factors.penalty) >= _LARGEST:
        return None
    return np.array(factors.reward, dtype=np.int64), np.array(factors.penalty, dtype=np.int64)
