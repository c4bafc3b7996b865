"""What a request weighs at each of its steps."""

import numpy as np

from bfio.common.metrics import exact_sum
from bfio.decode.drift import Drift, DriftReading
from formulations.arrays import IntArray


def profile(drift: Drift, prompt: int, start: int, steps: int, emitted: int = 0) -> IntArray:
    """Return the loads of ``steps`` steps of a request that starts at step ``start`` [tokens].

    Parameters
    ----------
    drift : Drift
        How it grows.
    prompt, start, steps : int
        Its load at the first of these steps [tokens], that step, and how many they are.
    emitted : int
        Tokens that it has emitted before.
    """
    if len(drift.increments) == 1:
        grown: IntArray = prompt + drift.increments[0] * np.arange(steps)
        return grown
    first = start if drift.reading is DriftReading.GLOBAL_STEP else emitted
    period = np.array(drift.increments, dtype=np.int64)
    increments = period[(first + np.arange(steps - 1)) % len(period)]
    loads: IntArray = prompt + np.concatenate(([0], np.cumsum(increments, dtype=np.int64)))
    return loads


def profile_with_rests(
    drift: Drift, prompt: int, start: int, steps: int, emitted: int, rests: list[tuple[int, int]]
) -> IntArray:
    """Return the same of a request that does not grow at some of these steps [tokens].

    Parameters
    ----------
    drift, prompt, start, steps, emitted
        As `profile` takes them.
    rests : list of (int, int)
        First step and end of each time that it rests.
    """
    runs = np.ones(steps - 1, dtype=np.int64)
    for first, end in rests:
        runs[first - start : end - start] = 0
    at = start + np.arange(steps - 1)
    if drift.reading is not DriftReading.GLOBAL_STEP:
        at = emitted + np.cumsum(runs) - runs
    period = np.array(drift.increments, dtype=np.int64)
    gains = runs * period[at % len(period)]
    loads: IntArray = prompt + np.concatenate(([0], np.cumsum(gains, dtype=np.int64)))
    return loads


def total_work(drift: Drift, prompt: int, start: int, output: int) -> int:
    """Return ``Σ_j w(j)`` of one request, exact [tokens]."""
    if drift.increments == (1,):
        return output * prompt + output * (output - 1) // 2
    return exact_sum(profile(drift, prompt, start, output))
