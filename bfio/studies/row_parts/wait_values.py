"""The figures of a run of one engine in stages, and what the fluid model says of its load."""

from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache

import numpy as np

from bfio.studies.row import Value
from bfio.studies.row_kind import described_metrics, descriptions
from bfio.studies.row_parts.wait_classes import offered_load, total_rate
from bfio.wait.run import METRICS, StageRun
from formulations.fluid import FluidObjective, FluidProblem, equilibrium, knapsack, work_rate

RUN_VALUES = described_metrics(METRICS) + descriptions(
    """
    verdict | | how the run ended
    open_share | share | share of the arrived requests that did not complete in time
    left_out | requests | requests that exceed the memory alone and were left out
    observed_s | s | length of the observation
    peak_memory_share | 1 | that over the memory; above 1 could not take place
    mean_memory_share | 1 | mean tokens in the cache over the memory, while batches ran
    overflow_share | share | share of the batches that needed more than the memory
    is_within_memory | | whether no batch needed more than the memory
    unscaled_gap | 1/s | gap on the clock without scaling
    unscaled_latency_mean_s | s | mean latency on the clock without scaling
    unscaled_ttft_mean_s | s | mean time to first token on the clock without scaling
    """
)
FLUID_VALUES = descriptions(
    """
    fluid_throughput | 1/s | most stages that the fluid model serves within the memory
    fluid_decode_throughput | 1/s | the same in output tokens
    throughput_share | 1 | stages served over the fluid optimum
    decode_throughput_share | 1 | output tokens served over the fluid optimum
    rate_per_s | 1/s | arrivals per second that offer the load
    offered_load | 1 | work per second over what a full memory serves, A/K
    work_load | 1 | work per second times the time per token, d1·A
    equilibrium_memory | tokens | memory of the fluid equilibrium; None from a work load of 1 on
    equilibrium_batch_s | s | iteration time of the fluid equilibrium
    """
)
#: Times of a run, which shrink with ζ.
_TIMES = ("latency_mean_s", "ttft_mean_s")


def run_values(run: StageRun) -> dict[str, Value]:
    """Return the metrics of a run, with their intervals, and shares of what there was."""
    measured, memory = METRICS.measure(run), run.instance.memory
    requests, mean_memory = int(np.count_nonzero(run.arrived)), measured["mean_memory"]
    still_open = requests - int(np.count_nonzero(run.is_completed))
    return {
        **measured,
        **{f"{name}.half_width": width for name, width in METRICS.half_widths(run).items()},
        "verdict": run.verdict.value,
        "observed_s": measured["horizon_s"],
        "open_share": still_open / requests if requests else None,
        "peak_memory_share": run.peak_memory / memory,
        "mean_memory_share": None if mean_memory is None else mean_memory / memory,
        "is_within_memory": run.overflows == 0,
        "overflow_share": run.overflows / len(run.batches) if len(run.batches) else None,
    }


def fluid_values(offered: FluidProblem, run: StageRun) -> dict[str, Value]:
    """Return the best that the fluid model promises, and the run as a share of it.

    The optimum is that of the throughput program: the most stages, or output tokens, per second
    that admitted rates with an equilibrium within the memory give. It is the offered throughput
    if all fits.
    """
    values = dict(_fluid_values(offered))
    for name in ("throughput", "decode_throughput"):
        best = values[f"fluid_{name}"]
        attained = run.throughput(decode=name.startswith("decode"))
        values[f"{name}_share"] = attained / best if isinstance(best, float) and best else None
    return values


# Thousands of different requests of a trace make one problem for many rows.
@lru_cache(maxsize=64)
def _fluid_values(offered: FluidProblem) -> Mapping[str, Value]:
    worker = offered.single_worker()
    load = worker.d1 * work_rate(offered.classes)
    state = equilibrium(offered.classes, worker) if load < 1 else None
    best = {
        objective: float(knapsack(offered, objective=objective).value or 0)
        for objective in FluidObjective
    }
    return {
        "rate_per_s": float(total_rate(offered)),
        "offered_load": float(offered_load(offered)),
        "work_load": float(load),
        "equilibrium_memory": None if state is None else float(state.memory),
        "equilibrium_batch_s": None if state is None else float(state.iteration_time),
        "fluid_throughput": best[FluidObjective.STAGES],
        "fluid_decode_throughput": best[FluidObjective.DECODE],
    }


def unscaled_values(run: StageRun, scale: Fraction) -> dict[str, Value]:
    """Return gap, latency and TTFT on the clock without ζ: gap over ζ, times multiplied by it."""
    summary, zeta = run.summary(), float(scale)
    times = {name: summary[name] for name in _TIMES}
    return {
        "unscaled_gap": summary["gap"] / zeta,
        **{f"unscaled_{k}": None if v is None else v * zeta for k, v in times.items()},
    }
