"""What a row keeps of a run: values, series, timings, and what its solver left unproven."""

from dataclasses import dataclass

import numpy as np

from bfio.common.metrics import MetricTable
from bfio.common.statistics import batch_means
from bfio.decode.energy_model import EnergyModel
from bfio.decode.metrics import (
    METRICS,
    half_widths,
    measure,
    measure_steady,
    measured_of,
)
from bfio.decode.run import Run
from bfio.decode.run_part import RunPart
from bfio.decode.simulation import second_proven_share
from bfio.studies.row import MAX_POINTS, Value
from bfio.studies.row_kind import MEASURED_PART, STEADY, described_metrics, descriptions

#: The metrics of a run, and the parts of it that they are also measured over.
RUN_VALUES = described_metrics(METRICS)
PARTS = {
    MEASURED_PART: "over the measured part of the run",
    STEADY: "over the steady part of the run",
}
TIMINGS = descriptions(
    """
    decide_s | s | wall-clock time of the decisions, a timing
    solve_s | s | wall-clock time of the solver, a timing
    second_s | s | wall-clock time of choosing among optima, a timing
    """
)


@dataclass(frozen=True)
class Solves:
    """Optima a run asked for, those that stayed unproven, and those that the clock decided."""

    asked: int
    unproven: int
    clocked: int


def run_values(
    run: Run,
    energy: EnergyModel,
    warm_up: int = 0,
    table: MetricTable[RunPart] = METRICS,
    measured: Run | None = None,
) -> dict[str, Value]:
    """Return every metric of the whole run and of its parts, with intervals of the latter.

    Parameters
    ----------
    run : Run
        The run.
    energy : EnergyModel
        Constants of the energy metrics.
    warm_up : int
        Steps at the beginning that the steady part leaves out.
    table : MetricTable
        The metrics.
    measured : Run, optional
        The run of which a part is measured, if the requests were repeated for it.

    Returns
    -------
    dict
        ``NAME``; ``measured.NAME`` and ``steady.NAME``, None without such a part; each of these
        with ``.half_width`` of a 95 % interval by batch means; ``is_drained``; ``proven_share``
        of the steps solved, and ``second_proven_share`` if a second objective chose among their
        optima.
    """
    solves = run_solves(run)
    no_part: dict[str, Value] = dict.fromkeys(entry.name for entry in table)
    steady = measure_steady(run, energy, warm_up, table) or no_part
    widths = half_widths(run, run.steady_mask(warm_up))
    part = measured_of(measured or run, energy)
    inside = no_part if part is None else table.measure(part)
    inner = dict.fromkeys(widths) if part is None else table.half_widths(part)
    return {
        **measure(run, energy, table),
        **{f"measured.{name}": value for name, value in inside.items()},
        **{f"measured.{name}.half_width": width for name, width in inner.items()},
        **{f"steady.{name}": value for name, value in steady.items()},
        **{f"steady.{name}.half_width": width for name, width in widths.items()},
        "is_drained": run.is_drained,
        "proven_share": 1 - solves.unproven / solves.asked if solves.asked else None,
        **second_proven_share(run.statistics),
    }


def run_series(run: Run) -> dict[str, list[float]]:
    """Return imbalance, largest and mean load [tokens] and idle fraction over the steps.

    Each series has at most `MAX_POINTS` points, means over equally many consecutive steps.
    """
    series = {
        "imbalance": run.imbalance,
        "max_load": run.max_load,
        "mean_load": run.total_load / run.cluster.workers,
        "idle_fraction": run.idle_fractions(),
    }
    return {
        name: batch_means(values.astype(np.float64), MAX_POINTS).tolist()
        for name, values in series.items()
    }


def run_timings(run: Run) -> dict[str, float]:
    """Return the wall-clock time of the simulation, of its decisions and of its solver [s]."""
    timings = {"wall_s": run.wall_s, "decide_s": run.decide_s}
    for name in ("solve_s", "second_s"):
        if isinstance(spent := run.statistics.get(name), float):
            timings[name] = spent
    return timings


def run_solves(run: Run) -> Solves:
    """Return how many steps of a run were solved, and what limits did to them.

    What a policy leaves unproven counts as the clock's unless it says otherwise.
    """
    proven, unproven = (run.statistics.get(f"{kind}_steps") for kind in ("proven", "unproven"))
    if not isinstance(proven, int) or not isinstance(unproven, int):
        return Solves(0, 0, 0)
    clocked = run.statistics.get("clocked_steps")
    return Solves(proven + unproven, unproven, clocked if isinstance(clocked, int) else unproven)
