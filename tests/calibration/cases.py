"""Steps with known constants."""

import numpy as np

from bfio.calibration.measurements import MeasuredSteps
from formulations.arrays import FloatArray

#: Overhead [s], time per token of peak and of mean [s/token].
TRUE = np.array([4.8875e-3, 1.0e-7, 3.0e-8])


def drawn_loads(rng: np.random.Generator, steps: int, workers: int) -> FloatArray:
    """Draw loads that wander, worker by worker [tokens]."""
    noise = rng.normal(0, 1, (2, steps, workers))
    found: FloatArray = np.abs(1e5 + 300 * np.cumsum(noise[0], axis=0) + 4000 * noise[1])
    return found


def durations(loads: FloatArray) -> FloatArray:
    """Return the step durations with the true constants, without noise [s]."""
    found: FloatArray = TRUE[0] + TRUE[1] * loads.max(axis=1) + TRUE[2] * loads.mean(axis=1)
    return found


def exact_steps(seed: int = 0, steps: int = 300, workers: int = 4) -> MeasuredSteps:
    """Draw steps without noise."""
    loads = drawn_loads(np.random.default_rng(seed), steps, workers)
    return MeasuredSteps.from_loads(durations(loads), loads)
