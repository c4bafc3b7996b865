"""All metrics of decode runs, and what measures a run by them.

A metric looks at a `RunPart`: the whole run, or its measured part (`bfio.decode.measured`).
To add one, write a function in the module of its subject: under ``.metric``; under ``.average`` if
it averages over steps or requests and is to have an interval; under ``.distribution`` if it is one
value each. Tables, JSON, studies and documentation read the table.

Request metrics count the requests of the part that completed.
"""

import numpy as np

from bfio.common.metrics import MetricTable, Value
from bfio.decode.energy_model import EnergyModel
from bfio.decode.metrics.balance import BALANCE
from bfio.decode.metrics.counts import COUNTS
from bfio.decode.metrics.part import RunPart
from bfio.decode.metrics.power import POWER
from bfio.decode.metrics.service_levels import SERVICE_LEVELS
from bfio.decode.metrics.serving import SERVING
from bfio.decode.metrics.times import TIMES
from bfio.decode.run import Run
from formulations.arrays import BoolArray, IntArray

#: Metrics of parts of runs, in the order in which they are shown, see `bfio.common.metrics`.
METRICS: MetricTable[RunPart] = COUNTS.extended(
    (*SERVING, *BALANCE, *TIMES, *SERVICE_LEVELS, *POWER)
)


def measure(
    run: Run,
    energy_model: EnergyModel | None = None,
    table: MetricTable[RunPart] = METRICS,
) -> dict[str, Value]:
    """Return every metric over the whole run, by name."""
    return table.measure(_part(run, np.arange(run.steps), energy_model))


def measured_of(run: Run, energy_model: EnergyModel | None = None) -> RunPart | None:
    """Return the part of a run that is measured (`bfio.decode.measured`); None if it has none."""
    part, steps = run.measured, run.measured_steps
    if part is None or steps is None:
        return None
    return RunPart(run, steps, energy_model or EnergyModel(), np.arange(part.first, part.last))


def measure_steady(
    run: Run,
    energy_model: EnergyModel | None = None,
    warm_up: int = 0,
    table: MetricTable[RunPart] = METRICS,
) -> dict[str, Value] | None:
    """Return every metric over the steady steps (`Run.steady_mask`), or None without any."""
    which = run.steady_mask(warm_up)
    return (
        None if which is None else table.measure(_part(run, np.flatnonzero(which), energy_model))
    )


def half_widths(run: Run, which: BoolArray | None) -> dict[str, float | None]:
    """Return half the widths of the 95 % intervals of those metrics that are averages.

    Parameters
    ----------
    run : Run
        The run.
    which : BoolArray, optional
        Shape (K,): the steps that count, such as `Run.steady_mask`.

    Returns
    -------
    dict
        By name of the metric, in its unit; None if there are no or few such steps.
    """
    steps = np.zeros(0, dtype=np.int64) if which is None else np.flatnonzero(which)
    return METRICS.half_widths(_part(run, steps, None))


def _part(run: Run, steps: IntArray, energy_model: EnergyModel | None) -> RunPart:
    return RunPart(run, steps, energy_model or EnergyModel())
