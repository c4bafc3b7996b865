"""Confidence intervals of steady-state means from one long run, by batch means.

Consecutive steps of a run are strongly correlated: most requests of a step are those of the step
before. The textbook interval, which takes them as independent, is far too narrow. Here the steps
are cut into 20 consecutive batches; the means of long batches are nearly independent, so Student's
t with 19 degrees of freedom applies to them (A. Law, Simulation Modeling and Analysis).

A ratio of two sums over steps, such as tokens per second, is linearised at its estimate: with
``r = Σx/Σy``, the residuals ``x - r·y`` have mean zero, and the error of r is their mean divided
by the mean of y. With y = 1 this is the interval of a mean.
"""

from functools import cache

import numpy as np

from bfio.decode.run import Run
from formulations.arrays import BoolArray, FloatArray, IntArray

BATCHES = 20
CONFIDENCE = 0.95
#: Steps below which batches are too short to say anything.
MIN_STEPS = 200


def half_width(numerator: FloatArray, denominator: FloatArray | None = None) -> float | None:
    """Return half the width of the 95 % interval of ``Σ numerator / Σ denominator``.

    Parameters
    ----------
    numerator : FloatArray
        Shape (K,): one value per step, in order.
    denominator : FloatArray, optional
        Shape (K,), with a positive sum; 1 for every step by default, which gives the interval of
        a mean.

    Returns
    -------
    float or None
        None for fewer than `MIN_STEPS` steps.
    """
    if len(numerator) < MIN_STEPS:
        return None
    weights = np.ones(len(numerator)) if denominator is None else denominator
    ratio = float(numerator.sum()) / float(weights.sum())
    errors = _batch_means(numerator - ratio * weights)
    spread = float(errors.std(ddof=1)) / np.sqrt(BATCHES)
    return float(_quantile() * spread / weights.mean())


def half_widths(run: Run, part: BoolArray | None) -> dict[str, float | None]:
    """Return the half widths of the metrics that are means or ratios over steps.

    Parameters
    ----------
    run : Run
        The run.
    part : BoolArray, optional
        Shape (K,): the steps that count, such as `Run.steady_mask`.

    Returns
    -------
    dict
        By name of the metric, in its unit; None if the part is missing or short.
    """
    steps = np.flatnonzero(part) if part is not None else np.zeros(0, dtype=np.int64)
    return {name: half_width(*terms) for name, terms in _terms(run, steps).items()}


def _terms(run: Run, steps: IntArray) -> dict[str, tuple[FloatArray, FloatArray | None]]:
    """Return what each metric sums over the steps, as `half_width` takes it."""
    workers = run.cluster.workers
    imbalance = (workers * run.max_load - run.total_load)[steps].astype(np.float64)
    gap = (run.max_load - run.min_load)[steps].astype(np.float64)
    return {
        "avg_imbalance": (imbalance, None),
        "avg_gap": (gap, None),
        "idle_fraction": (imbalance / (workers * run.max_load[steps]), None),
        "throughput_tokens_per_s": (
            run.active[steps].astype(np.float64), run.duration_s[steps],
        ),
    }  # fmt: skip


def _batch_means(values: FloatArray) -> FloatArray:
    """Return the means of consecutive batches, whose lengths differ by at most 1."""
    edges = np.arange(BATCHES + 1) * len(values) // BATCHES
    means: FloatArray = np.add.reduceat(values, edges[:-1]) / np.diff(edges)
    return means


@cache
def _quantile() -> float:
    from scipy.special import stdtrit

    return float(stdtrit(BATCHES - 1, (1 + CONFIDENCE) / 2))
