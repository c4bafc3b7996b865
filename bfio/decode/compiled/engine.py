"""Whole runs of built-in policies as machine code.

`run_compiled` gives the `Run` that `bfio.decode.engine.simulate` gives for the same policy, equal
in every array, or None where only the reference applies.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

from bfio.decode.cluster import Cluster
from bfio.decode.compiled.baselines import MAX_SAMPLED_WORKERS
from bfio.decode.compiled.plan import Advance, compile_kernel, plan_run
from bfio.decode.compiled.records import Chunks, finished_run, last_view
from bfio.decode.compiled.scope import may_compile
from bfio.decode.compiled.setup import alike_for_all
from bfio.decode.compiled.state import State
from bfio.decode.engine import (
    arrival_seconds,
    check_length,
    check_magnitude,
    policy_name,
    run_options,
)
from bfio.decode.observers import Observer, ProgressObserver, StepView
from bfio.decode.options import RunOptions
from bfio.decode.policy_options import PolicyOptions
from bfio.decode.policy_registry import build, find
from bfio.decode.predictor import Predictor
from bfio.decode.run import Run
from bfio.workloads.workload import Workload

#: Steps of the first chunk, and the time that later ones are meant to take [s].
FIRST_CHUNK_STEPS = 100
CHUNK_S = 0.2
#: Sums of loads below this are floats exactly, so that the kernel's mean load is the reference's.
EXACT_FLOAT = 2**53


def run_compiled(
    workload: Workload,
    name: str,
    policy_options: PolicyOptions,
    cluster: Cluster,
    *,
    predictor: str | Predictor = "none",
    observers: Sequence[Observer] = (),
    keep_trajectory: bool = True,
    stop: Callable[[], bool] | None = None,
    **options: Any,
) -> Run | None:
    """Simulate a built-in policy, or return None if the kernels do not apply.

    Parameters
    ----------
    workload : Workload
        The requests.
    name : str
        Name of the policy in the registry.
    policy_options : PolicyOptions
        Its options.
    cluster : Cluster
        The machine.
    predictor : str or Predictor
        The kernels know those by name that `may_compile` does.
    observers : sequence of Observer
        The kernels serve `ProgressObserver` only, once per chunk of steps.
    keep_trajectory : bool
        Keep loads and running requests of every step and worker in the run.
    stop : callable, optional
        Asked before each chunk of steps (about 0.2 s); True ends the run there.
    **options
        The others of `bfio.decode.engine.simulate`.

    Returns
    -------
    Run or None
        The record; its ``wall_s`` leaves compilation out, its ``decide_s`` is 0, since kernels do
        not time their decisions apart.

    Raises
    ------
    InputError
        If an option is out of its domain, as in the reference.
    """
    if not isinstance(predictor, str) or not may_compile(name, predictor, observers):
        return None
    policy = build(name, policy_options)
    checked = run_options(policy, predictor=predictor, **options)
    most = check_magnitude(workload, cluster, checked.drift)
    check_length(workload, checked.steps)
    if not _applies(name, cluster, checked, most):
        return None
    compile_kernel(name)
    # From here on nothing is imported or compiled any more.
    began = perf_counter()
    arrival_s = arrival_seconds(workload, checked)
    plan = plan_run(workload, name, policy_options, cluster, checked, arrival_s)
    if plan is None:
        return None
    chunks = Chunks(cluster.workers, keep_trajectory)
    if not _run_chunks(plan.advance, plan.state, chunks, observers, stop):
        return None
    run = finished_run(policy_name(policy), cluster, checked, plan.state, chunks, arrival_s)
    return replace(run, wall_s=perf_counter() - began)


def _applies(name: str, cluster: Cluster, options: RunOptions, most: int) -> bool:
    """Whether the kernels would give the same run as the reference, bit by bit."""
    return (
        alike_for_all(options.drift)
        and options.dispatch in find(name).dispatch
        and not (name == "power-of-2" and cluster.workers > MAX_SAMPLED_WORKERS)
        and not (cluster.mean_time_s > 0 and most >= EXACT_FLOAT)
    )


def _run_chunks(
    advance: Advance,
    state: State,
    chunks: Chunks,
    observers: Sequence[Observer],
    stop: Callable[[], bool] | None,
) -> bool:
    """Call the kernel until the run ends, looking out for `stop` in between.

    Returns
    -------
    bool
        False if a step came up that the kernel cannot decide exactly.
    """
    num_steps = min(FIRST_CHUNK_STEPS, chunks.most_steps)
    while stop is None or not stop():
        record = chunks.new(num_steps)
        began = perf_counter()
        rows = advance(record)
        seconds = perf_counter() - began
        if rows < 0:
            return False
        chunks.keep(record, rows)
        if rows:
            _report(observers, last_view(state, record, rows - 1))
        if rows < num_steps:
            break
        num_steps = max(1, min(int(num_steps * CHUNK_S / max(seconds, 1e-9)), chunks.most_steps))
    return True


def _report(observers: Sequence[Observer], view: StepView) -> None:
    for observer in observers:
        if isinstance(observer, ProgressObserver):
            observer.report(view)
