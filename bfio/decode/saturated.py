"""The part of a run in which the pool is still refilled.

The steady part lasts as long as any request waits. Once the last request of the workload has been
revealed, nothing refills the pool, and a policy that chooses among waiting requests is left with
those it has passed over so far: the largest or the smallest. With a pool that is large beside the
slots these last steps can dominate the mean of the steady part. The saturated part ends before
them.
"""

import numpy as np

from bfio.common.metrics import Value
from bfio.decode.energy_model import EnergyModel
from bfio.decode.metrics import measure_steps
from bfio.decode.run import Run
from formulations.arrays import BoolArray


def saturated_mask(run: Run, warm_up: int = 0) -> BoolArray | None:
    """Return which steps are saturated, shape (K,), or None if no step is.

    Saturated steps are the steady ones (`Run.steady_mask`) up to the step at which the last
    request of the workload is revealed; all steady ones if the run ended before that.

    Parameters
    ----------
    run : Run
        The run.
    warm_up : int
        Steps at the beginning that do not count. A run starts empty, and how well its first
        requests were placed shows for as long as they live.
    """
    steady = run.steady_mask()
    if steady is None:
        return None
    steady = steady & (np.arange(run.steps) >= warm_up)
    if run.num_requests and int(run.reveal_step.min()) >= 0:
        steady = steady & (np.arange(run.steps) <= int(run.reveal_step.max()))
    return steady if steady.any() else None


def measure_saturated(
    run: Run, energy_model: EnergyModel | None = None, warm_up: int = 0
) -> dict[str, Value] | None:
    """Return every metric over the saturated steps, or None if the run has none."""
    return measure_steps(run, saturated_mask(run, warm_up), energy_model)
