"""Whole runs of built-in policies as machine code; other policies are left to the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bfio.common.compilable import rewired
from bfio.common.engine_choice import Engine
from bfio.common.kernel_groups import ensure_compiled
from bfio.common.kernels import entry_point
from bfio.kvcache.instance import CacheInstance
from bfio.kvcache.look_ahead import LookAhead
from bfio.kvcache.machine.admission import (
    is_shortest_first,
    start_requests,
    start_rule,
)
from bfio.kvcache.machine.phases import run_batches
from bfio.kvcache.machine.state import new_record, new_state, settings_of
from bfio.kvcache.protection import Protection
from bfio.kvcache.record import finished_run
from bfio.kvcache.run import CacheLimits, CacheRun

if TYPE_CHECKING:
    from bfio.kvcache.policy import CachePolicy
    from formulations.arrays import IntArray


#: `run_batches` around the built-in policies as machine code.
compiled_batches = entry_point(rewired(run_batches, decide=start_requests))


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
