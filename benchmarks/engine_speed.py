"""Rows that measure time and memory of one simulation, each row in its own process."""

import statistics
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.requests import SYNTHETIC, draw
from bfio.common.clock import timed
from bfio.decode import policy_registry as registry
from bfio.decode.cluster import Cluster
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.studies.row import RowContext, RowResult, Value
from bfio.studies.row_kind import Planned, descriptions, planned_kind
from bfio.studies.row_parts.arguments import Arguments
from bfio.studies.worker import peak_memory
from bfio.workloads.workload import Workload

ARGUMENTS = (
    "policy", "engine", "workers", "slots", "pool", "requests", "output_mean", "seed", "repeats",
    "steady", "keep_trajectory",
)  # fmt: skip
#: Requests of a first run that loads the kernels.
_WARM_UP_REQUESTS = 200


def plan(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Check the arguments of a row; requests are drawn from its seed."""
    given = Arguments(arguments, ARGUMENTS)
    registry.find(given.text("policy", "fcfs"))
    return Planned("", lambda: measure(given))


def measure(given: Arguments) -> RowResult:
    """Warm up, run the simulation, and return counts, median times [s] and memory [bytes]."""
    requests = given.whole("requests", 8000)
    _simulate(given, _workload(given, min(requests, _WARM_UP_REQUESTS)))
    workload = _workload(given, requests)
    before = peak_memory()
    runs = [_timed(given, workload) for _ in range(given.whole("repeats", 1, minimum=1))]
    # The system counts pages approximately, so a later peak may read slightly lower.
    after = max(before, peak_memory())
    run, run_s = runs[0][0], statistics.median(seconds for _, seconds in runs)
    values: dict[str, Value] = {
        "engine_that_ran": run.engine,
        "steps": run.steps,
        "completed": run.completed,
    }
    timings = {
        "run_s": run_s,
        "decide_s": statistics.median(run.decide_s for run, _ in runs),
        "steps_per_s": run.steps / run_s,
        "requests_per_s": run.completed / run_s,
        "memory_before_bytes": before,
        "memory_bytes": after,
    }
    if given.flag("steady"):
        timings |= _steady(given, workload, run)
    return RowResult(values=values, timings=timings)


def _workload(given: Arguments, requests: int) -> Workload:
    mean, seed = given.whole("output_mean", 300), given.whole("seed", 0)
    return draw(SYNTHETIC, requests, mean, seed, Path())


def _simulate(given: Arguments, workload: Workload, steps: int | None = None) -> Run:
    return simulate(
        workload,
        given.text("policy", "fcfs"),
        Cluster(given.whole("workers", 16), given.whole("slots", 72)),
        pool=given.whole("pool", 128),
        steps=steps,
        seed=given.whole("seed", 0),
        keep_trajectory=given.flag("keep_trajectory"),
        engine=given.text("engine", "auto"),
    )


def _timed(given: Arguments, workload: Workload, steps: int | None = None) -> tuple[Run, float]:
    # Processor time: a run has one thread, and other load has no effect.
    return timed(lambda: _simulate(given, workload, steps), time.process_time)


def _steady(given: Arguments, workload: Workload, run: Run) -> dict[str, float]:
    """Time the steady part as the difference of two runs, which stop at its end and its start.

    Every engine can stop after a number of steps, but not every one calls back between steps.
    """
    mask = run.steady_mask()
    if mask is None:
        return {}
    first, last = (int(k) for k in np.flatnonzero(mask)[[0, -1]])
    seconds = statistics.median(
        _timed(given, workload, last + 1)[1] - _timed(given, workload, first)[1]
        for _ in range(given.whole("repeats", 1))
    )
    if seconds <= 0.0:
        return {}
    started = int(run.admitted[first : last + 1].sum())
    return {
        "steady_steps_per_s": (last + 1 - first) / seconds,
        "steady_requests_per_s": started / seconds,
    }


KIND = planned_kind(
    "engine-speed",
    "speed and memory of one simulation",
    plan,
    descriptions("""
        engine_that_ran | | compiled or reference
        steps | steps | steps of the run
        completed | requests | completed requests
        run_s | s | processor time of a run, median of its repeats
        decide_s | s | time in the policy, if the engine reports it
        steps_per_s | steps/s | steps over the time of the run
        requests_per_s | requests/s | requests served over the time of the run
        steady_steps_per_s | steps/s | steps per second in the steady part
        steady_requests_per_s | requests/s | requests started per second in the steady part
        memory_before_bytes | bytes | largest resident memory before the run
        memory_bytes | bytes | largest resident memory after it
    """),
)
