"""The first state of a compiled run."""

import numpy as np

from bfio.decode.cluster import Cluster
from bfio.decode.compiled.state import (
    FURTHEST,
    NUM_COUNTERS,
    NUM_WORKER_ROWS,
    OUTPUT,
    PROMPT,
    State,
    wheel_size,
)
from bfio.decode.drift import Drift, DriftReading
from bfio.decode.options import Arrivals, Dispatch, RunOptions
from bfio.workloads.workload import Workload
from formulations.arrays import FloatArray, IntArray


def alike_for_all(drift: Drift) -> bool:
    """Whether all running requests gain the same at each step, which the kernels rely on."""
    return drift.is_uniform or drift.reading is DriftReading.GLOBAL_STEP


def gains_of(drift: Drift) -> IntArray:
    """Return ``D(0..period)`` of a drift that is alike for all [tokens]."""
    increments = drift.increments[:1] if drift.is_uniform else drift.increments
    return np.concatenate(([0], np.cumsum(increments))).astype(np.int64)


def settings_of(
    cluster: Cluster, options: RunOptions, order: int, rule: int, choices: int, cap: int
) -> IntArray:
    """Return the settings, in the order of their names in `bfio.decode.compiled.state`."""
    steps = -1 if options.steps is None else options.steps
    return np.array(
        [
            rule,
            order,
            options.arrivals is Arrivals.TIMED,
            options.dispatch is Dispatch.IMMEDIATE,
            options.pool,
            cluster.slots,
            steps,
            choices,
            cap,
        ],
        dtype=np.int64,
    )


def new_state(
    workload: Workload,
    cluster: Cluster,
    options: RunOptions,
    settings: IntArray,
    arrival_s: FloatArray | None,
    *,
    sorts: bool = False,
) -> State:
    """Return the state before the first step.

    Parameters
    ----------
    workload, cluster, options
        What is simulated.
    settings : IntArray
        From `settings_of`.
    arrival_s : FloatArray or None
        Shape (n,): arrival times [s], with timed arrivals.
    sorts : bool
        Whether the policy orders requests by size.
    """
    n = len(workload)
    requests = np.full((3, n), -1, dtype=np.int64)
    requests[PROMPT], requests[OUTPUT] = workload.prompt_tokens, workload.output_tokens
    counters = np.zeros(NUM_COUNTERS, dtype=np.int64)
    counters[FURTHEST] = -1
    longest = int(workload.output_tokens.max(initial=1))
    return State(
        settings=settings,
        times=np.array(
            [cluster.step_overhead_s, cluster.token_time_s, cluster.mean_time_s], dtype=np.float64
        ),
        counters=counters,
        clock=np.zeros(2),
        gains=gains_of(options.drift),
        requests=requests,
        marks=np.full((4, n), -1, dtype=np.int64),
        reveal_s=np.full(n, np.nan),
        # A copy: the kernel is compiled for arrays that may be written.
        arrival_s=np.zeros(0) if arrival_s is None else arrival_s.copy(),
        pool=np.arange(n, dtype=np.int64),
        keys=np.empty(n if sorts else 0, dtype=np.int64),
        places=np.empty(n if sorts else 0, dtype=np.int64),
        wheel=np.full(wheel_size(longest, options.horizon), -1, dtype=np.int64),
        workers=np.zeros((NUM_WORKER_ROWS, cluster.workers), dtype=np.int64),
        sampled=np.zeros((2, cluster.workers), dtype=np.int64),
        rng=options.generator(),
    )
