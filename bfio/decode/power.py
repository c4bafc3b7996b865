"""Power over time (BF-IO, figs. 2 and 7): energy of `bfio.decode.energy`, spread over the clock.

Within a step power is taken as constant, its energy over its length; between steps every worker
idles. The integral over time is therefore the energy of the run, whichever way time is cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bfio.decode.energy import EnergyReading, cluster_energies
from bfio.decode.energy_model import EnergyModel
from formulations.arrays import integer

if TYPE_CHECKING:
    from bfio.decode.run import Run
    from formulations.arrays import FloatArray

#: Equal parts that time is cut into unless told otherwise.
DEFAULT_PARTS = 300


@dataclass(frozen=True)
class PowerOverTime:
    """Mean power of all workers together in equal parts of a run's time.

    Parameters
    ----------
    edges_s : FloatArray
        Shape (N + 1,): where the parts begin and end [s].
    power_w : FloatArray
        Shape (N,): mean power in each [W]; 0 in a run that takes no time.
    """

    edges_s: FloatArray
    power_w: FloatArray

    @property
    def energy_j(self) -> float:
        """The integral over time [J]."""
        return float(np.diff(self.edges_s) @ self.power_w)


def power_over_time(
    run: Run,
    model: EnergyModel,
    reading: EnergyReading = EnergyReading.TWO_PHASE,
    parts: int = DEFAULT_PARTS,
) -> PowerOverTime | None:
    """Return the power of a run over its time, or None if it kept no trajectory.

    Parameters
    ----------
    run : Run
        The run.
    model, reading
        The power curve and its reading.
    parts : int
        ``N``, >= 1.
    """
    integer(parts, "parts", minimum=1)
    energies = cluster_energies(run, model, reading)
    if energies is None:
        return None
    idle_power_w = run.cluster.workers * model.idle_power_w
    # Idle time and step, alternately.
    lengths = np.column_stack((run.idle_before_s, run.duration_s)).ravel()
    spent = np.column_stack((idle_power_w * run.idle_before_s, energies)).ravel()
    times = np.concatenate(([0.0], np.cumsum(lengths)))
    edges = np.linspace(0.0, times[-1], parts + 1)
    until = np.interp(edges, times, np.concatenate(([0.0], np.cumsum(spent))))
    widths = np.diff(edges)
    power = np.divide(np.diff(until), widths, out=np.zeros(parts), where=widths > 0)
    origin = float(run.start_s[0] - run.idle_before_s[0]) if run.steps else 0.0
    return PowerOverTime(origin + edges, power)
