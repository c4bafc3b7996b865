"""What requests do on workers: they start, run, end, and are interrupted.

An interrupted request keeps what it has emitted: where it starts again its size is its prompt and
what it had gained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bfio.common.compilable import compilable
from bfio.decode.features.memory.start_order import put_in_order, take_from_order
from bfio.decode.machine.counters import ACTIVE, ADMITTED, KNOWN, LOGGED, QUEUED, RESERVE, STEP
from bfio.decode.machine.endings import add_ending, forget, gained, predict, predicts
from bfio.decode.machine.waiting import wait_again
from bfio.decode.tally import running_tally, takes
from formulations.arrays import IntArray

if TYPE_CHECKING:
    from bfio.decode.machine.state import Record, State

# Why a request was interrupted: values of `bfio.decode.stints.Cause`.
(RECOMPUTED, SWAPPED_OUT, FAILED, CANCELLED) = range(4)


@compilable
def start_queued(state: State) -> None:
    """Let the heads of the queues start where they fit, if their decisions take effect by now."""
    start_queued_until(state, state.counters[STEP] - state.settings.delay)


@compilable
def start_queued_until(state: State, latest: int) -> None:
    """Let the heads of the queues start where they fit that were bound up to a step.

    With pooled dispatch those that fit no more wait again.
    """
    workers, need = state.workers, state.requests.need
    for g in range(len(workers.load)):
        while workers.queued[g] > 0 and state.marks.bound[workers.head[g]] <= latest:
            request = int(workers.head[g])
            fits = takes(running_tally(state, g), need[request])
            if not fits and state.settings.immediate:
                break
            workers.head[g] = state.requests.next[request]
            workers.queued[g] -= 1
            workers.queued_tokens[g] -= state.requests.size[request]
            state.counters[QUEUED] -= 1
            if fits:
                start(state, request, g)
            else:
                state.marks.worker[request] = -1
                wait_again(state, request)


@compilable
def start(state: State, request: int, worker: int) -> None:
    """Let a waiting request run on its worker from this step on."""
    begin(state, request, worker)
    state.lists.started[state.counters[ADMITTED]] = request
    state.counters[ADMITTED] += 1


@compilable
def begin(state: State, request: int, worker: int) -> None:
    """Let a request run from this step on, for the first time or again."""
    counters, step = state.counters, int(state.counters[STEP])
    emitted = int(state.requests.emitted[request])
    last = step + int(state.requests.output[request]) - emitted - 1
    if emitted == 0:
        state.marks.first[request] = step
    state.marks.start[request] = step
    state.marks.last[request] = last
    state.workers.load[worker] += state.requests.size[request]
    state.workers.running[worker] += 1
    if state.settings.overflow == RESERVE:
        state.machine.used[worker] += state.requests.need[request]
    state.lists.running[counters[ACTIVE]] = request
    state.requests.place[request] = counters[ACTIVE]
    counters[ACTIVE] += 1
    if state.order.is_on:
        put_in_order(state.order, state.marks.start, request, worker)
    slot = last & (len(state.wheel) - 1)
    state.requests.next[request] = state.wheel[slot]
    state.wheel[slot] = request
    if state.sight[KNOWN] and last <= step + state.settings.look_ahead:
        add_ending(state, request, last, 1)
    if predicts(state):
        predict(state, request, emitted)


@compilable
def end(state: State, request: int) -> None:
    """Take a running request from its worker."""
    counters, worker = state.counters, state.marks.worker[request]
    state.workers.load[worker] -= state.requests.size[request] + growth(state, request)
    state.workers.running[worker] -= 1
    if state.settings.overflow == RESERVE:
        state.machine.used[worker] -= state.requests.need[request]
    if state.order.is_on:
        take_from_order(state.order, request, worker)
    counters[ACTIVE] -= 1
    # The last one that runs takes its place.
    place, moved = state.requests.place[request], state.lists.running[counters[ACTIVE]]
    state.lists.running[place] = moved
    state.requests.place[moved] = place


@compilable
def growth(state: State, request: int) -> int:
    """Return what a running request has gained since it last started [tokens]."""
    step, begun = int(state.counters[STEP]), int(state.marks.start[request])
    if state.settings.by_age:
        emitted = int(state.requests.emitted[request])
        return gained(state.gains, emitted + step - begun) - gained(state.gains, emitted)
    return gained(state.gains, step) - gained(state.gains, begun)


@compilable(allocates=True)
def ages_of(state: State, running: IntArray) -> IntArray:
    """Return the tokens that running requests have emitted, shape (n,)."""
    since: IntArray = state.counters[STEP] - state.marks.start[running]
    return state.requests.emitted[running] + since


@compilable
def interrupt(state: State, record: Record, request: int, cause: int) -> None:
    """Take a running request from its worker before this step, and note it."""
    counters, step = state.counters, int(state.counters[STEP])
    worker, begun = int(state.marks.worker[request]), int(state.marks.start[request])
    entry = record.interruptions[counters[LOGGED]]
    entry[0], entry[1], entry[2], entry[3], entry[4] = request, worker, begun, step, cause
    counters[LOGGED] += 1
    last = int(state.marks.last[request])
    strike_from_wheel(state, request, last)
    # Endings up to one step less than the window are noted: this step has revealed none yet.
    if state.sight[KNOWN] and last < step + state.settings.look_ahead:
        add_ending(state, request, last, -1)
    if predicts(state):
        forget(state, request)
    gain = growth(state, request)
    end(state, request)
    state.requests.size[request] += gain
    state.requests.emitted[request] += step - begun
    state.marks.last[request] = -1
    state.marks.worker[request] = -1


@compilable
def strike_from_wheel(state: State, request: int, last: int) -> None:
    """Take a request off the list of those that end at a step."""
    slot = last & (len(state.wheel) - 1)
    following = state.requests.next[request]
    before = int(state.wheel[slot])
    if before == request:
        state.wheel[slot] = following
        return
    while state.requests.next[before] != request:
        before = int(state.requests.next[before])
    state.requests.next[before] = following


@compilable(part_of="interruptions", otherwise=False)
def log_is_full(state: State, record: Record) -> bool:
    """Whether the next step might interrupt more requests than the record has room for."""
    left = len(record.interruptions) - state.counters[LOGGED]
    return bool(left < state.counters[ACTIVE])
