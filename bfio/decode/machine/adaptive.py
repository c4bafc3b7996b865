"""Rehearsals as a kernel of whole runs; `adaptive` loads this with its first run."""

import numpy as np

from bfio.common.compilable import compilable
from bfio.decode.adaptive import memory as kept
from bfio.decode.adaptive.memory import (
    AHEAD_KNOWN,
    BEGUN,
    IS_OPEN,
    LEFT,
    LENGTH,
    PAST,
    PROMPT,
    RUNNING,
    TELLS,
    WORKER,
    Memory,
    new_memory,
    statistics,
)
from bfio.decode.adaptive.observing import is_due, look, note_decision, windows_tell
from bfio.decode.adaptive.rehearsal import admit_by_setting, rehearse_all
from bfio.decode.machine.counters import ACTIVE, COMPLETED, GROWS, REVEALED, SLOTS, STEP, WAITING
from bfio.decode.machine.endings import column_of, gained
from bfio.decode.machine.kernel import Kernel, KernelTask
from bfio.decode.machine.state import State, most_waiting
from bfio.decode.machine.two_stage import MAX_CONTRIBUTIONS
from bfio.decode.machine.waiting import first_waiting
from bfio.decode.machine.window import (
    Window,
    grow_alike,
    left_of,
    remaining_running,
    remaining_waiting,
    waiting_requests,
)


def memory(task: KernelTask) -> Memory | None:
    """Return what the kernel keeps, or None if windows are too large for it."""
    most = most_waiting(task.workload, task.cluster, task.options)
    horizon = task.policy.horizon  # type: ignore[attr-defined]
    cluster = task.cluster
    equal = cluster.keeps_one_pace and isinstance(cluster.slots, int)
    if not equal or cluster.memory is not None or most * (horizon + 1) > MAX_CONTRIBUTIONS:
        return None
    parameters = task.policy.parameters  # type: ignore[attr-defined]
    return new_memory(
        cluster.workers, cluster.total_slots // cluster.workers, horizon, most, parameters
    )


@compilable(allocates=True)
def decide(state: State, window: Window, memory: Memory) -> bool:
    """Let the current setting admit waiting requests, after a rehearsal if one is due."""
    counters, seen = state.counters, memory.seen
    num_workers, slots, step = len(state.workers.load), state.machine.slots[0], counters[STEP]
    if counters[WAITING] == 0 or counters[ACTIVE] == counters[SLOTS]:
        return True
    look(seen, step, counters[COMPLETED], state.workers.running)
    if is_due(seen, state.workers.running, num_workers * slots):
        write_scene(state, memory)
        rehearse_all(memory, step, loads_grow(state))
    for g in range(num_workers):
        seen.foretold[g] = 0
        if state.settings.horizon > 0:
            seen.foretold[g] = state.ending_count[g, column_of(state, step)]
    if not admit_by_setting(state, memory, seen.counts[kept.CURRENT]):
        return False
    note_decision(seen)
    seen.running[:] = state.workers.running
    return True


@compilable(allocates=True)
def write_scene(state: State, memory: Memory) -> None:
    """Write what runs, what waits and the requests revealed last."""
    counters, counts, scene = state.counters, memory.seen.counts, memory.scene
    running = np.sort(state.lists.running[: counters[ACTIVE]])
    left = remaining_running(state, running)
    counts[TELLS] = int(windows_tell(memory.seen, left, state.settings.horizon))
    ahead = counts[AHEAD_KNOWN] = counts[TELLS] * state.settings.horizon
    num_past = min(counters[REVEALED], scene.past.shape[1])
    for i in range(num_past):
        write_past(state, scene.past[:, i], counters[REVEALED] - 1 - i, ahead)
    for i in range(len(running)):
        scene.running[LEFT, i] = left[i] if left[i] <= ahead else 0
        scene.running[PROMPT, i] = state.requests.size[running[i]]
        scene.running[WORKER, i] = state.marks.worker[running[i]]
        scene.running[BEGUN, i] = state.marks.start[running[i]]
    first, num_waiting = first_waiting(state), min(counters[WAITING], len(scene.waiting))
    for i in range(num_waiting):
        scene.waiting[i] = state.requests.size[state.pool[first + i]]
    counts[PAST], counts[RUNNING], counts[kept.WAITING] = num_past, len(running), num_waiting


@compilable
def write_past(state: State, column: np.ndarray, request: int, ahead: int) -> None:
    """Write prompt and length of a request as far as known, and whether it goes on after that."""
    start, last, step = state.marks.start[request], state.marks.last[request], state.counters[STEP]
    column[PROMPT] = state.requests.prompt[request]
    if start < 0:
        column[LENGTH], column[IS_OPEN] = 0, 1
    elif last < step:
        column[LENGTH], column[IS_OPEN] = last + 1 - start, 0
    else:
        left = left_of(state, request)
        column[LENGTH], column[IS_OPEN] = step - start + min(left, ahead), int(left > ahead)


@compilable(allocates=True)
def loads_grow(state: State) -> bool:
    """Whether the window shows a waiting request larger at the next step."""
    settings, step = state.settings, state.counters[STEP]
    since = 0 if settings.by_age else step
    grows = gained(state.gains, since + 1) > gained(state.gains, since)
    if not (grows and state.sight[GROWS] and settings.horizon > 0):
        return False
    if grow_alike(state):
        return True
    return bool((remaining_waiting(state, waiting_requests(state)) > 1).any())


KERNEL = Kernel(memory, decide=decide, reads_window=True, statistics=statistics)
