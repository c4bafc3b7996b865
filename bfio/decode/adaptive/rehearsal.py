"""Rehearsals: simulate every candidate setting on a twin of the machine, and keep the best one.

A rehearsal draws request lengths from those seen in the run so far. For requests that still run,
only a lower bound on the length is known. Therefore a request is drawn at random; if it still
runs, it is replaced by a longer one drawn at random, until the drawn request has ended. This
samples the product-limit estimate (Kaplan and Meier 1958), in the form of Efron's redistribution
to the right (1967). A running request keeps its prompt, and its length if this is known. Beyond
the longest length seen, remaining lengths are geometric with mean (steps observed) / (ends
observed).
"""

import numpy as np

from bfio.common.array_kernels import copy_to, first_above, sort, sum_of, taken
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.common.words import random_below
from bfio.decode.adaptive import memory as kept
from bfio.decode.adaptive.memory import (
    Drawn,
    Memory,
    is_due,
    look,
    new_memory,
    note_choice,
    note_decision,
    set_weights,
    statistics,
    windows_tell,
)
from bfio.decode.machine.counters import (
    ACTIVE,
    ADMITTED,
    COMPLETED,
    FURTHEST,
    GROWS,
    KNOWN,
    REVEALED,
    SLOTS,
    STEP,
    TAKEN,
    WAITING,
)
from bfio.decode.machine.endings import add_ending, column_of, enter_window, gained
from bfio.decode.machine.kernel import Kernel, KernelTask
from bfio.decode.machine.moves import first_waiting, occupy
from bfio.decode.machine.phases import run_step
from bfio.decode.machine.state import State, most_waiting
from bfio.decode.machine.two_stage import MAX_CONTRIBUTIONS, admit_by_score
from bfio.decode.machine.window import (
    Window,
    grow_alike,
    left_of,
    remaining_running,
    remaining_waiting,
    waiting_requests,
)
from bfio.decode.policy import look_ahead_of
from bfio.step.two_stage.heuristic import TwoStageParameters
from bfio.step.two_stage.kernel import order_by_size
from formulations.arrays import IntArray


@compilable(allocates=True)
def draw_lengths(memory: Memory, step: int) -> int:
    """Draw the lengths of running and future requests; return the mean remaining steps.

    If no request runs, return the mean length of past requests.
    """
    counts, drawn, past = memory.seen.counts, memory.drawn, memory.scene.past
    num = counts[kept.PAST]
    mean = sort_by_length(drawn, past[:, :num])
    lengths = drawn.sorted[:num]
    for i in range(counts[kept.RUNNING]):
        drawn.remaining[i] = memory.scene.running[kept.LEFT, i]
        if drawn.remaining[i] > 0:
            continue
        begun = memory.scene.running[kept.BEGUN, i]
        age = step + counts[kept.AHEAD_KNOWN] - begun
        longer = first_above(lengths, age)
        length = drawn_length(drawn, past[:, :num], longer, age, mean)
        drawn.remaining[i] = length - (step - begun)
    for i in range(len(drawn.prompt)):
        place = random_below(drawn.word, num)
        chosen = drawn.order[place]
        drawn.prompt[i] = past[kept.PROMPT, chosen]
        drawn.output[i] = past[kept.LENGTH, chosen]
        if past[kept.IS_OPEN, chosen] != 0:
            drawn.output[i] = drawn_length(
                drawn, past[:, :num], place + 1, past[kept.LENGTH, chosen], mean
            )
    left = sum_of(drawn.remaining[: counts[kept.RUNNING]])
    return mean if counts[kept.RUNNING] == 0 else int(left // counts[kept.RUNNING])


@compilable(allocates=True)
def sort_by_length(drawn: Drawn, past: IntArray) -> int:
    """Sort past requests by length, ended ones before running ones; return the mean length."""
    num = past.shape[1]
    # A key modulo their number is the place of the request.
    keys = np.empty(num, np.int64)
    for place in range(num):
        keys[place] = (2 * past[kept.LENGTH, place] + past[kept.IS_OPEN, place]) * num + place
    sort(keys)
    steps, ends = 0, 0
    for place in range(num):
        drawn.order[place] = keys[place] % num
        drawn.sorted[place] = past[kept.LENGTH, drawn.order[place]]
        steps += past[kept.LENGTH, place]
        ends += 1 - past[kept.IS_OPEN, place]
    return max(1, steps // max(1, ends))


@compilable
def drawn_length(drawn: Drawn, past: IntArray, place: int, age: int, mean: int) -> int:
    """Draw a length from the sorted requests from ``place`` on; if none ended, exceed ``age``."""
    num = past.shape[1]
    while place < num:
        place += random_below(drawn.word, num - place)
        chosen = drawn.order[place]
        age = past[kept.LENGTH, chosen]
        if past[kept.IS_OPEN, chosen] == 0:
            return int(age)
        place += 1
    extra = 1
    while extra < kept.LONGEST_TAIL * mean and random_below(drawn.word, mean) != 0:
        extra += 1
    return int(age + extra)


@compilable(allocates=True)
def admit_by_setting(state: State, memory: Memory, setting: int) -> bool:
    """Admit waiting requests by a setting; return False if 64-bit arithmetic would not be exact.

    The window has only as many columns as the setting needs.
    """
    rule, num_workers = memory.rule, len(state.workers.load)
    num = state.counters[WAITING]
    columns = set_weights(rule, setting, num_workers)
    window = Window(
        np.empty(columns, np.int64),
        np.empty((num_workers, columns), np.int64),
        np.empty((num_workers, columns), np.int64),
        np.empty((0 if grow_alike(state) else num, columns), np.int64),
    )
    sizes, by_size = taken(state.requests.size, waiting_requests(state)), memory.by_size[:num]
    order_by_size(sizes, by_size)
    return admit_by_score(
        state,
        window,
        sizes,
        by_size,
        rule.reward[:columns],
        rule.overflow[:columns],
        rule.threshold,
        rule.candidates,
        rule.product_key != 0,
        memory.assignment[:num],
    )


@compilable(allocates=True)
def set_scene(twin: State, memory: Memory, step: int) -> None:
    """Write the running, waiting and future requests into the state of the twin."""
    counters, drawn, counts = twin.counters, memory.drawn, memory.seen.counts
    num_running, num_waiting = counts[kept.RUNNING], counts[kept.WAITING]
    twin.wheel[:] = -1
    twin.marks.worker[:] = -1
    twin.workers.load[:] = 0
    twin.workers.running[:] = 0
    twin.ending_load[:] = 0
    twin.ending_count[:] = 0
    copy_to(twin.requests.size, drawn.prompt)
    copy_to(twin.requests.output, drawn.output)
    for place in range(len(twin.pool)):
        twin.pool[place] = place
    counters[:] = 0
    counters[STEP], counters[FURTHEST] = step, -1
    counters[SLOTS] = sum_of(twin.machine.slots)
    counters[WAITING] = num_waiting
    counters[REVEALED] = num_running + num_waiting
    for request in range(num_running):
        twin.requests.size[request] = memory.scene.running[kept.PROMPT, request]
        resume(
            twin,
            request,
            memory.scene.running[kept.WORKER, request],
            memory.scene.running[kept.BEGUN, request],
            step + drawn.remaining[request] - 1,
        )
    for i in range(num_waiting):
        twin.requests.size[num_running + i] = memory.scene.waiting[i]


@compilable
def resume(twin: State, request: int, worker: int, begun: int, last: int) -> None:
    """Add a request to the twin that started on its worker before the rehearsal."""
    twin.marks.worker[request] = worker
    twin.marks.start[request] = begun
    twin.marks.last[request] = last
    age_gain = gained(twin.gains, twin.counters[STEP]) - gained(twin.gains, begun)
    occupy(twin, request, worker, twin.requests.size[request] + age_gain)
    # Endings in the last step of the window are added by `enter_window`.
    if twin.sight[KNOWN] and last < twin.counters[STEP] + twin.settings.look_ahead:
        add_ending(twin, request, last, 1)


@compilable(allocates=True)
def rehearsed(twin: State, memory: Memory, setting: int, num_steps: int) -> float:
    """Return the mean imbalance of a setting on the twin [tokens], or -1 if it is not exact."""
    counters, record = twin.counters, memory.record
    num_workers = len(twin.workers.load)
    total, counted = 0, 0
    pool = memory.seen.counts[kept.WAITING]
    for step in range(num_steps):
        if not reveal_up_to(twin, pool):
            break
        has_choice = counters[WAITING] > 0 and counters[ACTIVE] < counters[SLOTS]
        if has_choice and not admit_by_setting(twin, memory, setting):
            return -1.0
        run_step(twin, record, 0)
        if step >= num_steps // kept.UNCOUNTED:
            total += num_workers * record.max_load[0] - record.total_load[0]
            counted += 1
    return float(total / max(1, counted))


@compilable
def reveal_up_to(twin: State, pool: int) -> bool:
    """Fill the waiting pool of the twin to ``pool`` requests; return False if too few are left."""
    counters = twin.counters
    missing = max(0, int(pool - counters[WAITING]))
    if counters[REVEALED] + missing > len(twin.pool):
        return False
    counters[REVEALED] += missing
    counters[WAITING] += missing
    counters[ADMITTED] = counters[TAKEN] = 0
    if twin.sight[KNOWN]:
        enter_window(twin)
    return True


@compilable(allocates=True)
def rehearse_all(memory: Memory, step: int, grows: bool) -> None:
    """Rehearse settings from the current scene, and select the best one for the next decisions.

    The coarse settings are rehearsed first, then the neighbours of the best coarse one. If a
    rehearsal is not exact in 64 bits, the current setting is kept. ``grows`` says whether loads
    grow within windows.
    """
    counts, rule, twin = memory.seen.counts, memory.rule, memory.twin
    twin.sight[KNOWN] = counts[kept.TELLS] == 1 and twin.settings.look_ahead > 0
    twin.sight[GROWS] = grows
    best = counts[kept.CURRENT]
    num_steps = steps_to_play(memory, step, draw_lengths(memory, step))
    memory.score[:] = NOT_PLAYED
    if play_each(twin, memory, step, num_steps, rule.coarse):
        level = np.log(memory.score[rule.coarse] + 1).mean()
        middle = best_played(memory, level)
        if play_each(twin, memory, step, num_steps, rule.near[middle]):
            best = best_played(memory, level)
            remember(memory, level)
    note_choice(memory.seen, best, twin.counters[SLOTS])


@compilable
def steps_to_play(memory: Memory, step: int, left: int) -> int:
    """Return the number of steps of a rehearsal; running requests have ``left`` steps on average.

    The number is limited by the length of the run so far plus the known part of the window,
    because lengths beyond these ages have not been observed.
    """
    told = step + memory.seen.counts[kept.AHEAD_KNOWN]
    return int(2 * kept.UNCOUNTED + min(kept.LIVES * left, told))


@compilable(allocates=True)
def play_each(twin: State, memory: Memory, step: int, num_steps: int, settings: IntArray) -> bool:
    """Score settings, up to the first -1, on the same draw; return False if one is not exact."""
    for setting in settings:
        if setting < 0:
            break
        set_scene(twin, memory, step)
        memory.score[setting] = rehearsed(twin, memory, setting, num_steps)
        if memory.score[setting] < 0:
            return False
    return True


@compilable
def best_played(memory: Memory, level: float) -> int:
    """Return the rehearsed setting of least mean score over this and earlier rehearsals."""
    best, least = 0, np.inf
    for k in range(len(memory.score)):
        if memory.score[k] >= 0:
            earlier = kept.DECAY * memory.total[k]
            weight = kept.DECAY * memory.weight[k] + 1
            mean = (earlier + np.log(memory.score[k] + 1) - level) / weight
            if mean < least:
                best, least = k, mean
    return best


@compilable
def remember(memory: Memory, level: float) -> None:
    """Add the scores of this rehearsal to the discounted scores of earlier ones."""
    for k in range(len(memory.score)):
        memory.total[k] *= kept.DECAY
        memory.weight[k] *= kept.DECAY
        if memory.score[k] >= 0:
            memory.total[k] += np.log(memory.score[k] + 1) - level
            memory.weight[k] += 1


#: Score of a setting that was not rehearsed.
NOT_PLAYED = -1.0


#: `rehearse_all` as an entry point.
rehearse = entry_point(rehearse_all, name=f"{__name__}:rehearse", by_reference=True)


def warm_up() -> None:
    """Compile or load the kernel by one rehearsal on an idle machine."""
    memory = new_memory(1, 1, 0, 1, TwoStageParameters())
    memory.seen.counts[kept.PAST] = 1
    rehearse(memory, 0, False)


# Rehearsals as a kernel of whole runs; the policy `adaptive` imports this module on demand.


def memory(task: KernelTask) -> Memory | None:
    """Return the memory of the compiled policy, or None if it does not support the run."""
    most = most_waiting(task.workload, task.cluster, task.options)
    look_ahead = look_ahead_of(task.policy)
    cluster = task.cluster
    equal = cluster.keeps_one_pace and isinstance(cluster.slots, int)
    if not equal or cluster.memory is not None or most * (look_ahead + 1) > MAX_CONTRIBUTIONS:
        return None
    parameters = task.policy.parameters  # type: ignore[attr-defined]
    return new_memory(
        cluster.workers, cluster.total_slots // cluster.workers, look_ahead, most, parameters
    )


@compilable(allocates=True)
def decide(state: State, window: Window, memory: Memory) -> bool:
    """Admit waiting requests by the current setting, after a rehearsal if one is due."""
    counters, seen = state.counters, memory.seen
    num_workers, slots, step = len(state.workers.load), state.machine.slots[0], counters[STEP]
    if counters[WAITING] == 0 or counters[ACTIVE] == counters[SLOTS]:
        return True
    look(seen, step, counters[COMPLETED], state.workers.running)
    if is_due(seen, state.workers.running, num_workers * slots):
        write_scene(state, memory)
        rehearse(memory, step, loads_grow(state))
    for g in range(num_workers):
        seen.foretold[g] = 0
        if state.settings.look_ahead > 0:
            seen.foretold[g] = state.ending_count[g, column_of(state, step)]
    if not admit_by_setting(state, memory, seen.counts[kept.CURRENT]):
        return False
    note_decision(seen)
    copy_to(seen.running, state.workers.running)
    return True


@compilable(allocates=True)
def write_scene(state: State, memory: Memory) -> None:
    """Write the running, the waiting and the most recently revealed requests into the scene."""
    counters, counts, scene = state.counters, memory.seen.counts, memory.scene
    running = state.lists.running[: counters[ACTIVE]].copy()
    sort(running)
    left = remaining_running(state, running)
    counts[kept.TELLS] = int(windows_tell(memory.seen, left, state.settings.look_ahead))
    ahead = counts[kept.AHEAD_KNOWN] = counts[kept.TELLS] * state.settings.look_ahead
    num_past = min(counters[REVEALED], scene.past.shape[1])
    for i in range(num_past):
        write_past(state, scene.past[:, i], counters[REVEALED] - 1 - i, ahead)
    for i in range(len(running)):
        scene.running[kept.LEFT, i] = left[i] if left[i] <= ahead else 0
        scene.running[kept.PROMPT, i] = state.requests.size[running[i]]
        scene.running[kept.WORKER, i] = state.marks.worker[running[i]]
        scene.running[kept.BEGUN, i] = state.marks.start[running[i]]
    first, num_waiting = first_waiting(state), min(counters[WAITING], len(scene.waiting))
    for i in range(num_waiting):
        scene.waiting[i] = state.requests.size[state.pool[first + i]]
    counts[kept.PAST], counts[kept.RUNNING], counts[kept.WAITING] = (
        num_past,
        len(running),
        num_waiting,
    )


@compilable
def write_past(state: State, column: np.ndarray, request: int, ahead: int) -> None:
    """Write prompt and known length of a request, and whether it continues beyond."""
    start, last, step = state.marks.start[request], state.marks.last[request], state.counters[STEP]
    column[kept.PROMPT] = state.requests.prompt[request]
    if start < 0:
        column[kept.LENGTH], column[kept.IS_OPEN] = 0, 1
    elif last < step:
        column[kept.LENGTH], column[kept.IS_OPEN] = last + 1 - start, 0
    else:
        left = left_of(state, request)
        column[kept.LENGTH], column[kept.IS_OPEN] = (
            step - start + min(left, ahead),
            int(left > ahead),
        )


@compilable(allocates=True)
def loads_grow(state: State) -> bool:
    """Return whether the projected load of a waiting request grows in the window."""
    settings, step = state.settings, state.counters[STEP]
    since = 0 if settings.by_age else step
    grows = gained(state.gains, since + 1) > gained(state.gains, since)
    if not (grows and state.sight[GROWS] and settings.look_ahead > 0):
        return False
    if grow_alike(state):
        return True
    return bool((remaining_waiting(state, waiting_requests(state)) > 1).any())


KERNEL = Kernel(memory, decide=decide, reads_window=True, statistics=statistics)
