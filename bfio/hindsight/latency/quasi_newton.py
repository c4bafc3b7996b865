"""Steps of a quasi-Newton ascent: limited-memory BFGS, the two-loop recursion."""

import numpy as np

from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from formulations.arrays import FloatArray, IntArray

#: Steps remembered.
_HISTORY = 10
#: Largest entry of the first step, which knows nothing of curvature.
_FIRST_STEP = 0.1
#: Keeps divisions by a vanishing curvature or slope finite.
_TINY, _LEAST_SLOPE = 1e-300, 1e-9


class QuasiNewton:
    """The last steps and how they changed the slope.

    Parameters
    ----------
    size : int
        Number of variables.
    """

    def __init__(self, size: int) -> None:
        self._directions = np.zeros((_HISTORY, size))
        self._changes = np.zeros((_HISTORY, size))
        # Per step: direction times change of slope, and that over the change's own square.
        self._curvature = np.zeros(_HISTORY)
        self._scale = np.zeros(_HISTORY)
        self._share = np.zeros(_HISTORY)
        # How many are remembered, and where the next one goes.
        self._known, self._where = 0, 0

    def step(self, slope: FloatArray) -> FloatArray:
        """Return the step to take at a slope of any shape."""
        step = slope.copy()
        if self._known == 0:
            return step * (_FIRST_STEP / max(_LEAST_SLOPE, float(np.abs(step).max())))
        newest = self._where - 1
        order = np.arange(newest, newest - self._known, -1) % _HISTORY
        _turn(
            step.reshape(-1),
            order,
            self._directions,
            self._changes,
            self._curvature,
            self._scale[order[0]],
            self._share,
        )
        return step

    def add(self, direction: FloatArray, change: FloatArray) -> None:
        """Remember a step taken and by how much the slope fell."""
        h = self._where
        self._directions[h] = direction.reshape(-1)
        self._changes[h] = change.reshape(-1)
        self._curvature[h], square = _products(self._directions[h], self._changes[h])
        self._scale[h] = self._curvature[h] / square
        self._known, self._where = min(self._known + 1, _HISTORY), (h + 1) % _HISTORY


@entry_point
def _turn(
    step: FloatArray,
    order: IntArray,
    directions: FloatArray,
    changes: FloatArray,
    curvature: FloatArray,
    scale: float,
    share: FloatArray,
) -> None:
    """Turn a slope into a step, in place; ``order`` is from the newest step remembered back."""
    for h in order:
        share[h] = _dot(directions[h], step) / curvature[h]
        _add(step, -share[h], changes[h])
    step *= scale
    for h in order[::-1]:
        _add(step, share[h] - _dot(changes[h], step) / curvature[h], directions[h])


@entry_point
def _products(direction: FloatArray, change: FloatArray) -> tuple[float, float]:
    """Return direction times change, and change times itself."""
    return _TINY + _dot(direction, change), _TINY + _dot(change, change)


@compilable
def _dot(one: FloatArray, other: FloatArray) -> float:
    # One number after the other: a library's sum may depend on its number of threads.
    total = 0.0
    for j in range(len(one)):
        total += one[j] * other[j]
    return total


@compilable
def _add(target: FloatArray, share: float, source: FloatArray) -> None:
    for j in range(len(target)):
        target[j] += share * source[j]
