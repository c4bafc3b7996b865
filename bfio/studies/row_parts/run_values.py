"""What a row keeps of a run: values, series, timings, and what its solver left unproven."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bfio.common.statistics import batch_means
from bfio.decode.energy_model import EnergyModel
from bfio.decode.metrics import METRICS, half_widths, measure, measure_steady
from bfio.decode.run import Run
from bfio.decode.saturated import measure_saturated, saturated_mask
from bfio.studies.row import MAX_POINTS, Value
from bfio.studies.row_kind import described_metrics, descriptions

#: The metrics of a run, and the parts of it that they are also measured over.
RUN_VALUES = described_metrics(METRICS)
PARTS = {
    "steady.": "over the steady part of the run",
    "saturated.": "over the part of the run in which the pool was refilled",
}
TIMINGS = descriptions(
    """
    decide_s | s | wall-clock time of the decisions, a timing
    solve_s | s | wall-clock time of the solver, a timing
    """
)


@dataclass(frozen=True)
class Solves:
    """Optima a run asked for, and those of them that stayed unproven."""

    asked: int
    unproven: int


def run_values(run: Run, energy: EnergyModel, warm_up: int = 0) -> dict[str, Value]:
    """Return every metric of the whole run and of two parts of it, with intervals of the latter.

    Parameters
    ----------
    run : Run
        The run.
    energy : EnergyModel
        Constants of the energy metrics.
    warm_up : int
        Steps at the beginning that the saturated part leaves out.

    Returns
    -------
    dict
        ``NAME``; ``steady.NAME`` and ``saturated.NAME``, None without such a part;
        ``steady.NAME.half_width`` of a 95 % interval by batch means, and the same for saturated;
        ``is_drained``; ``proven_share`` of the steps solved.
    """
    solves = run_solves(run)
    saturated = measure_saturated(run, energy, warm_up)
    return {
        **measure(run, energy),
        **_part_values("steady", measure_steady(run, energy), half_widths(run, run.steady_mask())),
        **_part_values("saturated", saturated, half_widths(run, saturated_mask(run, warm_up))),
        "is_drained": run.is_drained,
        "proven_share": 1 - solves.unproven / solves.asked if solves.asked else None,
    }


def _part_values(
    part: str, measured: Mapping[str, Value] | None, widths: Mapping[str, float | None]
) -> dict[str, Value]:
    present = measured or {entry.name: None for entry in METRICS}
    return {
        **{f"{part}.{name}": value for name, value in present.items()},
        **{f"{part}.{name}.half_width": width for name, width in widths.items()},
    }


def run_series(run: Run) -> dict[str, list[float]]:
    """Return imbalance, largest and mean load [tokens] and idle fraction over the steps.

    Each series has at most `MAX_POINTS` points, means over equally many consecutive steps.
    """
    workers = run.cluster.workers
    imbalance = workers * run.max_load - run.total_load
    series = {
        "imbalance": imbalance,
        "max_load": run.max_load,
        "mean_load": run.total_load / workers,
        "idle_fraction": imbalance / (workers * run.max_load),
    }
    return {
        name: batch_means(values.astype(np.float64), MAX_POINTS).tolist()
        for name, values in series.items()
    }


def run_timings(run: Run) -> dict[str, float]:
    """Return the wall-clock time of the simulation, of its decisions and of its solver [s]."""
    solve_s = run.statistics.get("solve_s")
    timings = {"wall_s": run.wall_s, "decide_s": run.decide_s}
    return timings | ({"solve_s": solve_s} if isinstance(solve_s, float) else {})


def run_solves(run: Run) -> Solves:
    """Return how many steps of a run were solved, and how many of them stayed unproven."""
    proven, unproven = (run.statistics.get(f"{kind}_steps") for kind in ("proven", "unproven"))
    if not isinstance(proven, int) or not isinstance(unproven, int):
        return Solves(0, 0)
    return Solves(proven + unproven, unproven)
