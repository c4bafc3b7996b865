"""Whole runs of built-in policies as machine code; other policies are left to the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bfio.common.compilable import linked
from bfio.common.engine_choice import Engine
from bfio.common.kernel_groups import ensure_compiled
from bfio.common.kernels import entry_point
from bfio.kvcache.instance import CacheInstance
from bfio.kvcache.look_ahead import LookAhead
from bfio.kvcache.machine.admission import (
    StartRule,
    is_shortest_first,
    start_requests,
    start_rule,
)
from bfio.kvcache.machine.phases import close_batch, is_over, leave_open, open_batch
from bfio.kvcache.machine.state import (
    GOES_ON,
    Record,
    State,
    enlarged,
    is_full,
    new_record,
    new_state,
    settings_of,
)
from bfio.kvcache.protection import Protection
from bfio.kvcache.record import finished_run
from bfio.kvcache.run import CacheLimits, CacheRun

if TYPE_CHECKING:
    from bfio.kvcache.policy import CachePolicy
    from formulations.arrays import IntArray


def run_batches(
    state: State, record: Record, rule: StartRule, rng: np.random.Generator
) -> tuple[int, Record]:
    """Serve everything, or stop; return how the run ends, and its record."""
    ended = GOES_ON
    while ended == GOES_ON and not is_over(state):
        if is_full(record, state):
            record = enlarged(record, state)
        ended = open_batch(state, record, rng)
        if ended == GOES_ON:
            start_requests(state, rule)
            ended = close_batch(state, record)
    leave_open(state, record)
    return ended, record


#: `run_batches` as machine code, made by its first call and kept on disk.
compiled_batches = entry_point(linked(run_batches))


def compile_kernel() -> None:
    """Compile the kernel, or load it from the cache on disk, before any clock runs."""
    one = np.ones(1, dtype=np.int64)
    instance = CacheInstance(2, one, one, one)
    run_compiled(instance, LookAhead(), "mc-sf", one, np.random.default_rng(0), CacheLimits())


def run_compiled(
    instance: CacheInstance,
    policy: CachePolicy,
    name: str,
    believed: IntArray,
    rng: np.random.Generator,
    limits: CacheLimits,
) -> CacheRun:
    """Serve the instance as `bfio.kvcache.engine.run_reference` does, with its arguments."""
    ensure_compiled("kv-cache")
    assert isinstance(policy, LookAhead | Protection)
    settings = settings_of(instance, policy, limits, shortest_first=is_shortest_first(policy))
    state = new_state(instance, believed, settings)
    rule = start_rule(policy, instance.memory)
    ended, record = compiled_batches(state, new_record(), rule, rng)
    return finished_run(instance, name, state, record, ended, engine=Engine.COMPILED)
