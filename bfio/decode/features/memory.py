"""KV-cache memory of the workers: which requests may start, and the rules on overflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.common.checking import number
from bfio.common.compilable import compilable
from bfio.common.text import exact
from bfio.decode.cluster import Cluster, per_worker_text
from bfio.decode.drift import Drift, DriftReading
from bfio.decode.features.feature import Feature, RuleTable, profile
from bfio.decode.machine.counters import NOW, SWAP, SWAPPED
from bfio.decode.machine.moves import (
    RECOMPUTED,
    SWAPPED_OUT,
    begin,
    growth,
    interrupt,
    join_queue_at_its_head,
    wait_again,
)
from bfio.decode.options import (
    SWAP_TIME_S,
    Overflow,
    RunOptions,
    may_interrupt,
)
from bfio.decode.stints import Cause
from bfio.decode.tally import own_tally, takes
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bfio.decode.machine.state import Record, State
    from bfio.decode.policy_spec import PolicySpec
    from bfio.decode.replay import Replay
    from bfio.workloads.workload import Workload
    from formulations.arrays import FloatArray, IntArray


class Host(NamedTuple):
    """Requests swapped out to host memory, in order of their swap, with their number."""

    request: IntArray  #: Shape (n,) or (0,).
    ready_s: FloatArray  #: Same shape: earliest time at which each may return [s].


def peaks(workload: Workload, drift: Drift, leaves: bool, pauses: bool = False) -> IntArray:
    """Return the largest memory that each request may need, shape (n,) [tokens].

    If requests may leave a worker (``leaves``), a request may miss the steps of least growth, so
    its peak may be higher. The same holds if requests may rest (``pauses``), unless growth depends
    on age.
    """
    steps, misses = workload.output_tokens - 1, leaves
    if pauses and drift.reading is DriftReading.GLOBAL_STEP:
        misses = True
    gains = steps * max(drift.increments) if misses else drift.largest_gains(steps)
    return workload.prompt_tokens + gains


@compilable
def relieve(state: State, record: Record) -> None:
    """Interrupt the youngest requests of each worker until the remaining ones fit its memory."""
    loads, memory = state.workers.load, state.machine.memory
    for g in range(len(loads)):
        while loads[g] > memory[g]:
            make_room(state, record, g, int(state.order.youngest[g]))


@compilable
def make_room(state: State, record: Record, worker: int, request: int) -> None:
    """Interrupt one request of a worker whose memory is full.

    A request that does not fit even alone waits in the pool for another worker.
    """
    load = state.requests.size[request] + growth(state, request)
    fits = load <= state.machine.memory[worker]
    if fits and state.settings.overflow == SWAP:
        interrupt(state, record, request, SWAPPED_OUT)
        place = int(state.counters[SWAPPED])
        away = state.settings.swap_time_s * state.requests.size[request]
        state.host.request[place] = request
        state.host.ready_s[place] = state.clock[NOW] + away
        state.counters[SWAPPED] += 1
        state.workers.swapped[worker] += 1
        state.marks.worker[request] = worker
        return
    interrupt(state, record, request, RECOMPUTED)
    if fits and state.settings.immediate:
        join_queue_at_its_head(state, request, worker)
    else:
        wait_again(state, request)


@compilable(apart=True)
def swap_in(state: State) -> None:
    """Resume the swapped-out requests that are back and fit, in order of their swap."""
    kept = 0
    for place in range(state.counters[SWAPPED]):
        request = int(state.host.request[place])
        worker = int(state.marks.worker[request])
        is_back = state.host.ready_s[place] <= state.clock[NOW]
        if is_back and takes(own_tally(state, worker), state.requests.size[request]):
            state.workers.swapped[worker] -= 1
            begin(state, request, worker)
        else:
            state.host.request[kept] = request
            state.host.ready_s[kept] = state.host.ready_s[place]
            kept += 1
    state.counters[SWAPPED] = kept


@compilable
def leave_host(state: State, request: int, worker: int) -> bool:
    """Remove a request from the host; return False if the request is not on the host."""
    counters, host = state.counters, state.host
    kept = 0
    for place in range(counters[SWAPPED]):
        if host.request[place] != request:
            host.request[kept] = host.request[place]
            host.ready_s[kept] = host.ready_s[place]
            kept += 1
    if kept == counters[SWAPPED]:
        return False
    counters[SWAPPED] = kept
    state.workers.swapped[worker] -= 1
    return True


RULES = RuleTable()


@RULES.rule("memory")
def _memory(replay: Replay) -> int:
    """Check that the requests of a worker never exceed its memory, reserved peaks included."""
    memory = replay.cluster.worker_memory()
    if replay.cluster.memory is None:
        return 0
    wrong = number(replay.held[0] > memory)
    if replay.run.options.overflow is not Overflow.RESERVE:
        return wrong
    held = np.zeros((replay.cluster.workers, replay.run.steps), dtype=np.int64)
    for request, worker, start, end, _ in replay.walk():
        output = int(replay.workload.output_tokens[request])
        peak = replay.run.options.drift.largest_gain(output - 1)
        held[worker, start:end] += int(replay.workload.prompt_tokens[request]) + peak
    return wrong + number(memory < held.T)


@RULES.rule("overflow")
def _overflow(replay: Replay) -> int:
    """Check that overflow preempts only requests that would not fit, the youngest first."""
    if not np.isin(replay.stints.cause, (Cause.RECOMPUTATION, Cause.SWAP)).any():
        return 0
    memory, all_loads = replay.cluster.worker_memory(), replay.held[0]
    oldest_gone: dict[tuple[int, int], tuple[int, int, int]] = {}
    begun: dict[tuple[int, int], int] = {}
    drift = replay.run.options.drift
    causes, emissions = replay.stints.cause.tolist(), replay.stints.emitted.tolist()
    rows = zip(replay.walk(), causes, emissions, strict=True)
    for (request, worker, start, end, loads), cause, emitted in rows:
        begun[start, worker] = begun.get((start, worker), 0) + int(loads[0])
        if cause in (Cause.RECOMPUTATION, Cause.SWAP):
            grown = profile(drift, int(loads[-1]), end - 1, 2, emitted - 1)[1]
            gone = (start, request, int(grown))
            oldest_gone[end, worker] = min(gone, oldest_gone.get((end, worker), gone))
    wrong = 0
    for (step, worker), (start, request, load) in oldest_gone.items():
        if step == replay.run.steps:
            continue
        kept = all_loads[step, worker] - begun.get((step, worker), 0)
        wrong += int(kept + load <= memory[worker])
        on_it = (replay.stints.worker == worker) & (replay.stints.end > step)
        stays = on_it & (replay.stints.start < step)
        younger = replay.stints.start > start
        younger |= (replay.stints.start == start) & (replay.stints.request > request)
        wrong += number(stays & younger)
    return wrong


def _setting(cluster: Cluster, options: RunOptions) -> str:
    """Return the memory and its overflow rule; without a limit, the rule if not the default."""
    rule, time = options.overflow.value, f"{exact(options.swap_time_s)} s a token"
    swaps = options.swap_time_s != SWAP_TIME_S
    if cluster.memory is not None:
        how = f"{rule}, {time}" if swaps else rule
        return f"memory {per_worker_text(cluster.memory)} tokens ({how})"
    if swaps or options.overflow is not Overflow.RECOMPUTE:
        return f"overflow {rule}, {time}, where no memory is limited"
    return ""


def _check(
    workload: Workload, cluster: Cluster, options: RunOptions, look_ahead: int, pauses: bool
) -> None:
    """Raise InputError if the peak memory of a request exceeds that of every worker."""
    if cluster.memory is None:
        return
    most = int(cluster.worker_memory().max())
    largest = peaks(workload, options.drift, may_interrupt(cluster, options), pauses)
    too_large = np.flatnonzero(largest > most)
    if len(too_large):
        first = int(too_large[0])
        what = (
            f"needs up to {largest[first]} tokens of memory, but the largest worker has {most} "
            f"({len(too_large)} such requests)"
        )
        raise InputError(f"request {first}", what, "give more memory, or leave such requests out")


def _idle(
    policies: Sequence[PolicySpec], cluster: Cluster, options: RunOptions, tells_prompts: bool
) -> Iterator[str]:
    """Yield a remark if an overflow rule or a swap time was given but has no effect."""
    plain = RunOptions()
    if cluster.memory is None and options.overflow is not plain.overflow:
        yield (
            f"The option overflow={options.overflow} has no effect: the memory of the workers is "
            "not limited."
        )
    swaps = cluster.memory is not None and options.overflow is Overflow.SWAP
    if options.swap_time_s != plain.swap_time_s and not swaps:
        yield (
            "The swap time has no effect: tokens move to the host only with limited memory and "
            "overflow=swap."
        )


FEATURE = Feature(
    "memory",
    setting=_setting,
    after="speed",
    check=_check,
    idle=_idle,
    rules=RULES,
    rank=1,
)
