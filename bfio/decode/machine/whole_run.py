"""Compiled whole runs of policies that have a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bfio.common.kernel_groups import Engine, KernelGroup, ensure_compiled, groups, is_worthwhile
from bfio.common.kernels import entry_point, rewired
from bfio.common.metrics import exact_sum
from bfio.decode import policy_registry
from bfio.decode.cluster import Cluster
from bfio.decode.machine.greedy import one_of, serving
from bfio.decode.machine.kernel import NOT_EXACT, STALLED, Kernel, KernelTask, run_chunk
from bfio.decode.machine.outcome import finished_run, stalled, step_view
from bfio.decode.machine.phases import is_over
from bfio.decode.machine.state import Chunks, Record, State, most_waiting, new_state
from bfio.decode.machine.window import Window, new_window
from bfio.decode.observers import ProgressObserver, Watching
from bfio.decode.options import Dispatch, RunOptions
from bfio.decode.policy import look_ahead_of
from bfio.prediction.predictor import LengthSource
from bfio.prediction.registry import lengths_of, made
from bfio.workloads.workload import Workload
from formulations.named_objects import load_object

if TYPE_CHECKING:
    from bfio.decode.policy_spec import PolicySpec
    from bfio.decode.run import Run

#: Steps of the first chunk, and target duration of later chunks [s].
FIRST_CHUNK_STEPS = 100
CHUNK_S = 0.2
#: Approximate time saved by a compiled run, per step and per request [s].
SAVED_PER_STEP_S, SAVED_PER_REQUEST_S = 4.5e-5, 4.5e-5
#: Approximate compile time of the loop of a policy that is not built in [s].
_SECONDS = 20

CompiledLoop = Callable[[State, Window, Any, Record], int]


@dataclass(frozen=True)
class Loop:
    """Key of a compiled loop of runs."""

    name: str  #: ``module:function``, the key of its machine code on disk.
    #: The policies that share the loop; all built-in greedy policies share one.
    members: tuple[PolicySpec, ...]


def loop_of(spec: PolicySpec) -> Loop:
    """Return the loop of a policy with a kernel; the built-in greedy policies share one."""
    shared = greedy_policies()
    members: tuple[PolicySpec, ...] = (spec,)
    if isinstance(spec.kernel, str):
        name = f"{spec.kernel.partition(':')[0]}:run"
    elif spec in shared:
        name, members = f"{policy_registry.__name__}:run_greedy", shared
    else:
        name = f"{kernel_of(spec).module}:run"
    return Loop(name, members)


def group_of(loop: Loop) -> KernelGroup:
    """Return the kernel group of a loop; the loop of a user's policy is its own group."""
    alone = KernelGroup(loop.name, (partial(machine_code_of, loop),), lambda: None, _SECONDS)
    return next((group for group in groups().values() if loop.name in group.made), alone)


def kernel_of(spec: PolicySpec) -> Kernel:
    """Return the kernel of a policy; the policy must have one."""
    kernel = load_object(spec.kernel, "kernel") if isinstance(spec.kernel, str) else spec.kernel
    assert isinstance(kernel, Kernel)
    return kernel


def supports(spec: PolicySpec, options: RunOptions) -> bool:
    """Return whether the kernel of a policy supports the dispatch of a run."""
    kernel = kernel_of(spec)
    return kernel.decide is None or kernel.binds or options.dispatch is not Dispatch.IMMEDIATE


def pays(spec: PolicySpec, workload: Workload, cluster: Cluster, options: RunOptions) -> bool:
    """Return whether a run saves enough time to load or compile the loop of its policy."""
    outputs = workload.output_tokens
    steps = max(int(outputs.max(initial=0)), exact_sum(outputs) // cluster.total_slots)
    requests = len(outputs)
    if options.steps is not None and options.steps < steps:
        requests = requests * options.steps // steps
        steps = options.steps
    saved_s = steps * SAVED_PER_STEP_S + requests * SAVED_PER_REQUEST_S
    loop = loop_of(spec)
    return is_worthwhile(loop.name, saved_s, partial(group_of, loop))


@cache
def greedy_policies() -> tuple[PolicySpec, ...]:
    """Return the built-in policies that assign requests one by one; they share one loop."""
    return tuple(
        spec
        for spec in policy_registry.built_in().values()
        if isinstance(spec.kernel, Kernel) and spec.kernel.choose is not None
    )


@cache
def machine_code_of(loop: Loop) -> CompiledLoop:
    """Return a loop that is compiled at its first call."""
    run = rewired(run_chunk, decide=decide_of(loop))
    return entry_point(run, name=loop.name, by_reference=True)


def decide_of(loop: Loop) -> Callable[..., bool]:
    """Return the decision function of a loop (see `Kernel.decide`), as plain Python."""
    kernels = [kernel_of(member) for member in loop.members]
    chooses = [kernel.choose for kernel in kernels if kernel.choose is not None]
    decide = serving(one_of(chooses)) if chooses else kernels[0].decide
    assert decide is not None
    return decide


def compile_loop(spec: PolicySpec) -> None:
    """Compile the loop of a policy, or load it from disk; announce long compiling."""
    loop = loop_of(spec)
    name = group_of(loop).name
    if name in groups():
        ensure_compiled(name)
    warm_up(loop)


@cache
def warm_up(loop: Loop) -> None:
    """Compile or load a loop in this process, by a run without requests."""
    none = np.zeros(0, dtype=np.int64)
    spec, cluster = loop.members[0], Cluster(1, 1)
    policy = spec.factory(spec.options)
    task = KernelTask(Workload(none, none), cluster, RunOptions(), spec.options, policy)
    prepared = _prepared(spec, task, loop)
    if prepared is not None:
        prepared.step(Chunks(prepared.state, keep_trajectory=True).new(1))


class _Prepared(NamedTuple):
    """A compiled run before its first step: options, state and functions."""

    options: RunOptions
    state: State
    step: Callable[[Record], int]
    statistics: Callable[[], dict[str, object]]


def _prepared(spec: PolicySpec, task: KernelTask, loop: Loop) -> _Prepared | None:
    """Return a run of a policy before its first step, or None if the kernel would not be exact."""
    kernel = kernel_of(spec)
    memory = kernel.memory(task._replace(rule=loop.members.index(spec)))
    if memory is None:
        return None
    workload, cluster, options = task.workload, task.cluster, task.options
    look_ahead = look_ahead_of(task.policy) if kernel.reads_window else 0
    source = lengths_of(options.predictor)
    prediction = None
    if source is LengthSource.COMPILED:
        predictor = made(options.predictor, workload, options.seed, task.history)
        options = replace(options, predictor=predictor.name)
        if look_ahead > 0:
            prediction = predictor.compiled(look_ahead)
            if prediction is None:
                return None
    known = source is LengthSource.KNOWN
    state = new_state(
        workload, cluster, options, look_ahead=look_ahead, known=known, prediction=prediction
    )
    most = most_waiting(workload, cluster, options)
    window = new_window(cluster.workers, look_ahead, most if kernel.reads_window else 0)
    code = machine_code_of(loop)
    told = kernel.statistics
    return _Prepared(
        options,
        state,
        lambda record: code(state, window, memory, record),
        lambda: {} if told is None else told(memory),
    )


def run_compiled(spec: PolicySpec, task: KernelTask, watching: Watching) -> Run | None:
    """Simulate a run of a policy with a kernel; return None if the kernel is not exact.

    Observers must be of type `ProgressObserver`, and see the last step of each chunk. The stop
    condition is checked before each chunk. ``wall_s`` of the run excludes compilation.
    ``decide_s`` is 0, because decisions in kernels are not timed.
    """
    compile_loop(spec)
    # From here on, nothing is imported or compiled.
    began = perf_counter()
    prepared = _prepared(spec, task, loop_of(spec))
    if prepared is None:
        return None
    chunks = Chunks(prepared.state, watching.keep_trajectory)
    if not _run_chunks(prepared, chunks, watching, spec.name):
        return None
    return finished_run(
        policy=spec.name,
        engine=Engine.COMPILED,
        cluster=task.cluster,
        options=prepared.options,
        state=prepared.state,
        chunks=chunks,
        statistics=prepared.statistics(),
        wall_s=perf_counter() - began,
    )


def _run_chunks(prepared: _Prepared, chunks: Chunks, watching: Watching, policy: str) -> bool:
    """Run until the end or a stop; return False if the kernel is not exact."""
    num_steps = min(FIRST_CHUNK_STEPS, chunks.most_steps)
    while not watching.is_stopped():
        record = chunks.new(num_steps)
        began = perf_counter()
        rows = prepared.step(record)
        seconds = perf_counter() - began
        if rows == STALLED:
            raise stalled(policy, prepared.state)
        if rows == NOT_EXACT:
            return False
        chunks.keep(record, rows, prepared.state)
        for observer in watching.observers if rows else ():
            if isinstance(observer, ProgressObserver):
                observer.report(step_view(prepared.state, record, rows - 1))
        if is_over(prepared.state):
            break
        num_steps = max(1, min(int(num_steps * CHUNK_S / max(seconds, 1e-9)), chunks.most_steps))
    return True
