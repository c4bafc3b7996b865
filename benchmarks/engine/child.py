"""The child process: reads a `SimulationSpec` on stdin, prints what it measured on stdout."""

import json
import resource
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.case import DEFAULT_DATA
from benchmarks.engine.simulation import ENGINE_KEYWORD, SimulationSpec, engines
from benchmarks.workloads import SYNTHETIC, draw
from bfio.decode.cluster import Cluster
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.workloads.workload import Workload
from formulations.errors import InputError

#: Requests of the run that loads kernels before anything is timed.
_WARM_UP_REQUESTS = 200


def measure(spec: SimulationSpec) -> dict[str, Any]:
    """Warm up, run, and return times [s], counts and memory [bytes]."""
    _simulate(spec, _workload(replace(spec, requests=min(spec.requests, _WARM_UP_REQUESTS))))
    workload = _workload(spec)
    before = peak_memory()
    timed = [_timed(spec, workload) for _ in range(spec.repeats)]
    after = peak_memory()
    run = timed[0][1]
    walls = [wall for wall, _ in timed]
    wall_s = statistics.median(walls)
    return {
        "engine": engine_that_runs(spec, workload),
        "wall_s": wall_s,
        "walls_s": walls,
        "decide_s": statistics.median(run.decide_s for _, run in timed),
        "steps": run.steps,
        "completed": run.completed,
        "tokens": run.tokens,
        "steps_per_s": run.steps / wall_s,
        "requests_per_s": run.completed / wall_s,
        "memory_before_bytes": before,
        "peak_memory_bytes": after,
        "steady": _steady(spec, workload, run) if spec.steady else None,
    }


def engine_that_runs(spec: SimulationSpec, workload: Workload) -> str:
    """Return which engine serves this simulation.

    A run does not say; but a compiled engine that does not apply refuses when it is asked for.
    """
    if spec.engine == "reference" or len(engines()) == 1:
        return "reference"
    try:
        _simulate(replace(spec, engine="compiled"), workload, steps=1)
    except InputError:
        return "reference"
    return "compiled"


def peak_memory() -> int:
    """Return the largest resident memory of this process so far [bytes].

    ``getrusage`` would do, but Linux lets a started process inherit the peak of the one that
    started it; the kernel's own ``VmHWM`` is of this process alone.
    """
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _workload(spec: SimulationSpec) -> Workload:
    return draw(SYNTHETIC, spec.requests, spec.output_mean, spec.seed, DEFAULT_DATA)


def _simulate(spec: SimulationSpec, workload: Workload, steps: int | None = None) -> Run:
    # Without the keyword there is one engine, and nothing to choose.
    chosen: dict[str, Any] = {ENGINE_KEYWORD: spec.engine} if len(engines()) > 1 else {}
    return simulate(
        workload,
        spec.policy,
        Cluster(spec.workers, spec.slots),
        pool=spec.pool,
        steps=steps,
        seed=spec.seed,
        keep_trajectory=spec.keep_trajectory,
        **chosen,
    )


def _timed(
    spec: SimulationSpec, workload: Workload, steps: int | None = None
) -> tuple[float, Run]:
    began = time.perf_counter()
    run = _simulate(spec, workload, steps)
    return time.perf_counter() - began, run


def _steady(spec: SimulationSpec, workload: Workload, run: Run) -> dict[str, Any] | None:
    """Time the steady part as the difference of two runs, cut at its end and before its start.

    Every engine can be cut by a number of steps, while not every one calls back between steps.
    """
    mask = run.steady_mask()
    if mask is None:
        return None
    first, last = (int(k) for k in np.flatnonzero(mask)[[0, -1]])
    differences = [
        _timed(spec, workload, last + 1)[0] - _timed(spec, workload, first)[0]
        for _ in range(spec.repeats)
    ]
    wall_s = statistics.median(differences)
    if wall_s <= 0.0:
        return None
    steps = last + 1 - first
    started = int(run.admitted[first : last + 1].sum())
    return {
        "steps": steps,
        "started": started,
        "wall_s": wall_s,
        "steps_per_s": steps / wall_s,
        "requests_per_s": started / wall_s,
    }


def main() -> None:
    """Measure what stdin describes."""
    spec = SimulationSpec(**json.load(sys.stdin))
    json.dump(measure(spec), sys.stdout)


if __name__ == "__main__":
    main()
