"""Intervals of the metrics of a run that are means or ratios over its steps."""

import numpy as np

from bfio.common.statistics import half_width
from bfio.decode.run import Run
from formulations.arrays import BoolArray, FloatArray, IntArray


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
