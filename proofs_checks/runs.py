"""Small runs of the decode engines that checks look at."""

from collections.abc import Sequence

import numpy as np

from bfio.decode.cluster import Cluster
from bfio.decode.drift import Drift
from bfio.decode.policy import Policy
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray
from proofs_checks.claim import Context


def small_run(
    prompts: Sequence[int],
    outputs: Sequence[int],
    policy: str | Policy,
    workers: int,
    slots: int,
    *,
    drift: Drift | None = None,
    steps: int | None = None,
) -> Run:
    """Run a policy in the readable engine, with all requests in the pool at once."""
    cluster = Cluster(workers, slots, step_overhead_s=0.0, token_time_s=1.0)
    return full_run(prompts, outputs, policy, cluster, drift=drift, steps=steps)


def step_loads(run: Run) -> IntArray:
    """Return the loads of a run, shape (K, G) [tokens]."""
    if run.loads is None:
        raise ValueError("the run kept no trajectory")
    return run.loads


def random_requests(
    rng: np.random.Generator, count: int, largest: int, longest: int
) -> tuple[list[int], list[int]]:
    """Return prompts in 1..largest and outputs in 1..longest, uniform."""
    prompts: list[int] = rng.integers(1, largest + 1, count).tolist()
    outputs: list[int] = rng.integers(1, longest + 1, count).tolist()
    return prompts, outputs


def engines(context: Context) -> tuple[str, ...]:
    """Return the engines to look at; loading the compiled one takes too long for quick effort."""
    both = ("reference", "compiled")
    return context.choose(("reference",), both, both)


def full_run(
    prompts: Sequence[int],
    outputs: Sequence[int],
    policy: str | Policy,
    cluster: Cluster,
    engine: str = "reference",
    *,
    drift: Drift | None = None,
    steps: int | None = None,
) -> Run:
    """Run a policy on an engine, with all requests in the pool at once.

    Policies of one's own run on the readable engine.
    """
    workload = Workload(np.array(prompts, dtype=np.int64), np.array(outputs, dtype=np.int64))
    able = engine if isinstance(policy, str) else "reference"
    return simulate(
        workload, policy, cluster, engine=able, pool=len(workload), drift=drift, steps=steps
    )
