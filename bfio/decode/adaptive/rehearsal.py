"""Rehearsals: every setting is played through on a twin of the machine, and the best one stays."""

import numpy as np

from bfio.common.by_reference import by_reference
from bfio.common.compilable import compilable, linked
from bfio.common.kernels import entry_point
from bfio.decode.adaptive import memory as kept
from bfio.decode.adaptive.lengths import draw_lengths
from bfio.decode.adaptive.memory import BEGUN, PROMPT, RUNNING, WORKER, Memory
from bfio.decode.adaptive.observing import note_choice, set_weights
from bfio.decode.adaptive.settings import UNCOUNTED
from bfio.decode.machine.counters import (
    ACTIVE,
    ADMITTED,
    FURTHEST,
    GROWS,
    KNOWN,
    REVEALED,
    SLOTS,
    STEP,
    TAKEN,
    WAITING,
)
from bfio.decode.machine.endings import add_ending, enter_window, gained
from bfio.decode.machine.phases import run_step
from bfio.decode.machine.state import State
from bfio.decode.machine.two_stage import admit_by_score
from bfio.decode.machine.window import Window, grow_alike, waiting_requests
from bfio.step.two_stage.heuristic import TwoStageParameters
from bfio.step.two_stage.kernels.two_stage import order_by_size
from formulations.arrays import IntArray


@compilable(allocates=True)
def admit_by_setting(state: State, memory: Memory, setting: int) -> bool:
    """Let a setting admit waiting requests; False if it would not be exact.

    The window is only as long as the setting looks.
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
    sizes, by_size = state.requests.size[waiting_requests(state)], memory.by_size[:num]
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
    """Put the requests that run and wait, and those to come, on the twin."""
    counters, drawn, counts = twin.counters, memory.drawn, memory.seen.counts
    num_running, num_waiting = counts[RUNNING], counts[kept.WAITING]
    twin.wheel[:] = -1
    twin.marks.worker[:] = -1
    twin.workers.load[:] = 0
    twin.workers.running[:] = 0
    twin.ending_load[:] = 0
    twin.ending_count[:] = 0
    twin.requests.size[:] = drawn.prompt
    twin.requests.output[:] = drawn.output
    for place in range(len(twin.pool)):
        twin.pool[place] = place
    counters[:] = 0
    counters[STEP], counters[FURTHEST] = step, -1
    counters[SLOTS] = twin.machine.slots.sum()
    counters[ACTIVE], counters[WAITING] = num_running, num_waiting
    counters[REVEALED] = num_running + num_waiting
    for request in range(num_running):
        twin.requests.size[request] = memory.scene.running[PROMPT, request]
        resume(
            twin,
            request,
            memory.scene.running[WORKER, request],
            memory.scene.running[BEGUN, request],
            step + drawn.remaining[request] - 1,
        )
    for i in range(num_waiting):
        twin.requests.size[num_running + i] = memory.scene.waiting[i]


@compilable
def resume(twin: State, request: int, worker: int, begun: int, last: int) -> None:
    """Let a request run on that started earlier; it is the next of the list of those that run."""
    twin.marks.worker[request] = worker
    twin.marks.start[request] = begun
    twin.marks.last[request] = last
    age_gain = gained(twin.gains, twin.counters[STEP]) - gained(twin.gains, begun)
    twin.workers.load[worker] += twin.requests.size[request] + age_gain
    twin.workers.running[worker] += 1
    twin.lists.running[request] = request
    twin.requests.place[request] = request
    slot = last & (len(twin.wheel) - 1)
    twin.requests.next[request] = twin.wheel[slot]
    twin.wheel[slot] = request
    # The last step of the window enters with `enter_window`.
    if twin.sight[KNOWN] and last < twin.counters[STEP] + twin.settings.horizon:
        add_ending(twin, request, last, 1)


@compilable(allocates=True)
def rehearsed(twin: State, memory: Memory, setting: int, num_steps: int) -> float:
    """Return the mean imbalance of a setting on a twin [tokens], -1 if it is not exact."""
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
        if step >= num_steps // UNCOUNTED:
            total += num_workers * record.max_load[0] - record.total_load[0]
            counted += 1
    return float(total / max(1, counted))


@compilable
def reveal_up_to(twin: State, pool: int) -> bool:
    """Let as many requests wait as did at first; False if there are not enough left."""
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
    """Rehearse settings from the scene at hand, and let the best one decide from now on.

    First a few, far apart, then the neighbours of the best of them. Nothing changes if one of
    them could not be rehearsed exactly.

    Parameters
    ----------
    memory : Memory
        With a scene.
    step : int
        The step.
    grows : bool
        Whether loads grow within windows.
    """
    counts, rule, twin = memory.seen.counts, memory.rule, memory.twin
    twin.sight[KNOWN] = counts[kept.TELLS] == 1 and twin.settings.horizon > 0
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
    """Return the length of a rehearsal, where requests have ``left`` steps left in the mean.

    It goes no further ahead than back to the first step, and so hardly beyond the ages up to which
    the run and its windows have told who ends.
    """
    told = step + memory.seen.counts[kept.AHEAD_KNOWN]
    return int(2 * UNCOUNTED + min(memory.rule.lives * left, told))


@compilable(allocates=True)
def play_each(twin: State, memory: Memory, step: int, num_steps: int, settings: IntArray) -> bool:
    """Score some settings, up to the first -1, on the same draw; False if one is not exact."""
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
    """Return the setting of least score, earlier rehearsals included, of those just played."""
    best, least = 0, np.inf
    for k in range(len(memory.score)):
        if memory.score[k] >= 0:
            earlier = memory.rule.decay * memory.total[k]
            weight = memory.rule.decay * memory.weight[k] + 1
            mean = (earlier + np.log(memory.score[k] + 1) - level) / weight
            if mean < least:
                best, least = k, mean
    return best


@compilable
def remember(memory: Memory, level: float) -> None:
    """Add the scores of this rehearsal to those of earlier ones, which count less from now on."""
    for k in range(len(memory.score)):
        memory.total[k] *= memory.rule.decay
        memory.weight[k] *= memory.rule.decay
        if memory.score[k] >= 0:
            memory.total[k] += np.log(memory.score[k] + 1) - level
            memory.weight[k] += 1


#: The score of a setting that was not rehearsed.
NOT_PLAYED = -1.0


def _rehearse(memory: Memory, step: int, grows: bool) -> None:
    rehearse_all(by_reference(memory), step, grows)


#: `rehearse_all` as machine code.
rehearse = entry_point(linked(_rehearse))


def warm_up() -> None:
    """Compile or load the kernel of rehearsals, by one of an idle machine."""
    memory = kept.new_memory(1, 1, 0, 1, TwoStageParameters())
    memory.seen.counts[kept.PAST] = 1
    rehearse(memory, 0, False)
