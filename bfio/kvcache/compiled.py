"""Runs of built-in policies in machine code; other policies run on the reference engine.

The running requests are sorted by their ends, so the tokens left in the cache at each completion
are a running sum from the right. Testing a candidate takes one pass, O(M), and a round with O(M)
candidates O(M²), as the paper claims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.common.compilable import compilable, rewired
from bfio.common.engine_choice import Engine
from bfio.common.kernel_groups import ensure_compiled
from bfio.common.kernels import entry_point
from bfio.kvcache.instance import CacheInstance
from bfio.kvcache.machine import (
    BATCH,
    LEAST_NEED,
    RUNNING,
    USED,
    WAITING,
    MachineState,
    RunningRows,
    admit,
    close_gaps,
    finished_run,
    new_record,
    new_state,
    run_batches,
    settings_of,
    waiting_at,
)
from bfio.kvcache.policy import Admission, LookAhead, Order, Protection, Scan
from bfio.kvcache.run import CacheLimits, CacheRun

if TYPE_CHECKING:
    from bfio.kvcache.policy import CachePolicy
    from formulations.arrays import IntArray


class StartRule(NamedTuple):
    """Parameters of a policy: look-ahead if ``limit`` < 0, else protection with that limit.

    Protection tests its limit before each prompt, or once for the batch if ``once_per_batch``.
    ``cap`` is the maximum number of requests in a batch, 0 for no limit.
    """

    limit: int
    once_per_batch: bool
    cap: int
    keeps_scanning: bool


def start_rule(policy: LookAhead | Protection, memory: int) -> StartRule:
    """Return the parameters of a built-in policy."""
    if isinstance(policy, LookAhead):
        return StartRule(-1, False, 0, policy.scan is Scan.CONTINUE)
    once = policy.admission is Admission.BATCH
    return StartRule(policy.limit(memory), once, policy.cap, False)


def is_shortest_first(policy: LookAhead | Protection) -> bool:
    """Whether a built-in policy tries the shortest request first instead of the oldest."""
    return isinstance(policy, LookAhead) and policy.order is Order.SHORTEST


@compilable
def start_requests(state: MachineState, rule: StartRule) -> None:
    """Start requests, in the order of the queue."""
    counters, memory = state.counters, state.settings.memory
    looks_ahead = rule.limit < 0
    if looks_ahead and counters[USED] + counters[LEAST_NEED] > memory:
        return
    limit = rule.limit
    if not looks_ahead and rule.once_per_batch:
        limit = memory if counters[USED] <= limit else 0
    running, least = counters[RUNNING], memory
    for position in range(counters[WAITING]):
        request = waiting_at(state, position)
        if looks_ahead:
            starts = stays_within(state, request)
        else:
            starts = is_let_in(state, request, limit, rule.cap)
        if starts:
            admit(state, position)
            continue
        least = min(least, state.requests.need[request])
        if not rule.keeps_scanning:
            least = 0
            break
    if counters[RUNNING] > running:
        close_gaps(state)
    counters[LEAST_NEED] = least


@compilable
def is_let_in(state: MachineState, request: int, limit: int, cap: int) -> bool:
    """Whether protection allows a request to start."""
    used, running = state.counters[USED], state.counters[RUNNING]
    has_room = used == 0 or used + state.requests.need[request] <= limit
    return bool(has_room and (cap == 0 or running < cap))


@compilable
def stays_within(state: MachineState, request: int) -> bool:
    """Whether Equation (1) stays true at all future times if a request starts."""
    counters, memory = state.counters, state.settings.memory
    need, length = state.requests.need[request], state.requests.believed[request]
    if counters[USED] + need > memory:
        return False
    return fits(state.running, counters[RUNNING], counters[BATCH], need, length, memory)


@compilable
def fits(running: RunningRows, num: int, batch: int, need: int, length: int, memory: int) -> bool:
    """Test Equation (1) with an additional request, from the last completion to the first."""
    own_last = batch + length - 1
    level, count, own_open = 0, 0, True
    for j in range(num - 1, -1, -1):
        last = running.end[j] - 1
        if own_open and last < own_last:
            own_open = False
            if level + count * own_last + need + length - 1 > memory:
                return False
        level += running.level[j]
        count += 1
        if last <= own_last and level + count * last + need + last - batch > memory:
            return False
    return not own_open or bool(level + count * own_last + need + length - 1 <= memory)


#: `run_batches` with the built-in policies, as machine code.
compiled_batches = entry_point(rewired(run_batches, decide=start_requests))


def compile_kernel() -> None:
    """Compile the kernel, or load it from the cache on disk, before a run is timed."""
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
    """Serve an instance; arguments as in `bfio.kvcache.simulation.run_reference`."""
    ensure_compiled("kv-cache")
    assert isinstance(policy, LookAhead | Protection)
    settings = settings_of(instance, policy, limits, shortest_first=is_shortest_first(policy))
    state = new_state(instance, believed, settings)
    rule = start_rule(policy, instance.memory)
    ended, record = compiled_batches(state, new_record(), rule, rng)
    return finished_run(instance, name, state, record, ended, engine=Engine.COMPILED)
