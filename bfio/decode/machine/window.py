"""Projected loads of workers over the look-ahead window (BF-IO section 4, BalanceRoute eq. 7).

Two independent choices define a projection. The first is the load of a request in the window:
either it grows by the drift, or it stays constant. The second is the end of a request, after which
its load is 0. The ends of waiting requests may be hidden from the policy
(`bfio.decode.options.WindowKnows`). With known lengths, a ring buffer of H + 1 columns per worker
holds the requests that end at each step. So a projection costs O(G·H), independent of the number
of running requests.
"""

from typing import NamedTuple

import numpy as np

from bfio.common.array_kernels import (
    add_each,
    add_products,
    add_times,
    copy_to,
    take_in_turn,
    taken,
    while_active,
)
from bfio.common.compilable import compilable
from bfio.decode.features.telemetry import receive, show_projection
from bfio.decode.machine.counters import ACTIVE, GROWS, KNOWN, REVEALED, STEP
from bfio.decode.machine.endings import (
    column_of,
    gained,
    gained_each,
    predicted_steps,
    predicts,
    write_gains,
)
from bfio.decode.machine.moves import age_of, ages_of, first_waiting
from bfio.decode.machine.state import State
from formulations.arrays import IntArray


class Window(NamedTuple):
    """The projected loads and contributions at one step."""

    #: Shape (H+1,): drift since step 0 included in the loads at each step of the window [tokens].
    level: IntArray
    base: IntArray  #: Shape (G, H+1): projected loads without new admissions [tokens].
    #: Shape (G, H+1): number of requests still running at each step of the window.
    running: IntArray
    #: Shape (most waiting, H+1): projected load of each waiting request [tokens].
    contribution: IntArray


def new_window(num_workers: int, look_ahead: int, most_waiting: int) -> Window:
    """Return an empty window of ``H + 1`` columns."""
    return Window(
        level=np.zeros(look_ahead + 1, dtype=np.int64),
        base=np.zeros((num_workers, look_ahead + 1), dtype=np.int64),
        running=np.zeros((num_workers, look_ahead + 1), dtype=np.int64),
        contribution=np.empty((most_waiting, look_ahead + 1), dtype=np.int64),
    )


@compilable(allocates=True, apart=True)
def project(state: State, window: Window) -> None:
    """Compute projected loads and contributions at this step, without calling a predictor."""
    waiting = waiting_requests(state)
    if len(window.level) == 1:
        # Without look-ahead, nothing ends or grows.
        copy_to(window.base[:, 0], state.reports.load)
        copy_to(window.running[:, 0], state.reports.running)
        copy_to(window.contribution[:, 0], taken(state.requests.size, waiting))
        return
    project_running(state, window)
    project_contributions(state, window, waiting, remaining_waiting(state, waiting))


@compilable(allocates=True, apart=True)
def project_running(state: State, window: Window) -> None:
    """Compute the projected loads that policies see, either the true or the reported ones."""
    if state.reports.is_on:
        show_projection(state, window)
    else:
        project_as_it_is(state, window)


@compilable(allocates=True, apart=True)
def project_as_it_is(state: State, window: Window) -> None:
    """Compute the projected loads from the true state of the workers."""
    active = state.lists.running[: state.counters[ACTIVE]]
    remaining = active
    if state.settings.by_age and len(window.level) > 1:
        remaining = remaining_running(state, active)
    project_loads(state, window, remaining)


@compilable(allocates=True, apart=True)
def report(state: State, window: Window) -> None:
    """Project the true loads and let workers report them, if reports can be late or lost."""
    if state.reports.is_on:
        project_as_it_is(state, window)
        receive(state, window)


@compilable(allocates=True)
def waiting_requests(state: State) -> IntArray:
    """Return the waiting requests, oldest first."""
    waiting: IntArray = state.pool[first_waiting(state) : state.counters[REVEALED]]
    return waiting


@compilable
def grow_alike(state: State) -> bool:
    """Return whether all waiting requests grow equally, because no end is known."""
    told = state.sight[KNOWN] or predicts(state)
    return not (told and state.settings.waiting_ends)


def _remaining_running(state: State, active: IntArray) -> IntArray:
    left = np.empty_like(active)
    for k in range(len(active)):
        left[k] = left_of(state, active[k])
    return left


@compilable(allocates=True, compiled_as=_remaining_running)
def remaining_running(state: State, active: IntArray) -> IntArray:
    """Return the remaining steps of running requests, shape (A,); H + 1 if no end is known."""
    if predicts(state):
        left: IntArray = state.prediction.last[active] - state.counters[STEP] + 1
        return left
    return remaining_of(state, state.marks.last[active] - state.counters[STEP] + 1, True)


@compilable
def left_of(state: State, request: int) -> int:
    """Return the remaining steps of one running request; H + 1 if no end is known."""
    if predicts(state):
        return int(state.prediction.last[request] - state.counters[STEP] + 1)
    if state.sight[KNOWN]:
        return int(state.marks.last[request] - state.counters[STEP] + 1)
    return int(state.settings.look_ahead + 1)


@compilable(allocates=True)
def remaining_waiting(state: State, waiting: IntArray) -> IntArray:
    """Return the output lengths of waiting requests, shape (N,); H + 1 if hidden or unknown."""
    if predicts(state) and state.settings.waiting_ends:
        steps = np.empty_like(waiting)
        for i in range(len(waiting)):
            request = waiting[i]
            age = state.requests.emitted[request]
            steps[i] = predicted_steps(state.prediction, request, age)
        return steps
    left = taken(state.requests.output, waiting) - taken(state.requests.emitted, waiting)
    return remaining_of(state, left, state.settings.waiting_ends)


@compilable(allocates=True)
def remaining_of(state: State, true: IntArray, may_ask: bool) -> IntArray:
    """Return the true remaining steps if these are known and may be used, else ``H + 1``."""
    if state.sight[KNOWN] and may_ask:
        return true
    return np.full(len(true), state.settings.look_ahead + 1)


@compilable(allocates=True)
def project_loads(state: State, window: Window, remaining: IntArray) -> None:
    """Compute the projected loads ``b_g(h)`` of each worker.

    ``remaining``, the remaining steps of running requests, is read only if growth depends on age.
    """
    step, look_ahead = int(state.counters[STEP]), len(window.level) - 1
    window.level[:] = gained(state.gains, step)
    if state.sight[GROWS]:
        write_gains(window.level, state.gains, step)
    loads, running = state.workers.load, state.workers.running
    if look_ahead == 0:
        copy_to(window.base[:, 0], loads)
        copy_to(window.running[:, 0], running)
    elif state.settings.by_age:
        project_by_age(state, window, remaining)
    else:
        # Loads less the drift since step 0 are constant while a request runs.
        first = column_of(state, step)
        take_in_turn(window.base, loads - running * window.level[0], state.ending_load, first)
        take_in_turn(window.running, running, state.ending_count, first)
        add_products(window.base, window.running, window.level)


def _project_by_age(state: State, window: Window, remaining: IntArray) -> None:
    window.base[:] = 0
    window.running[:] = 0
    for k in range(len(remaining)):
        request = state.lists.running[k]
        g, age = state.marks.worker[request], age_of(state, request)
        gone = gained(state.gains, state.requests.emitted[request])
        for h in range(min(remaining[k], len(window.level))):
            later = age + h if state.sight[GROWS] else age
            window.base[g, h] += state.requests.size[request] - gone + gained(state.gains, later)
            window.running[g, h] += 1


@compilable(compiled_as=_project_by_age)
def project_by_age(state: State, window: Window, remaining: IntArray) -> None:
    """Compute ``b_g(h)`` request by request, for increments that depend on age."""
    active = state.lists.running[: state.counters[ACTIVE]]
    ages = ages_of(state, active)
    gone = gained_each(state.gains, state.requests.emitted[active])
    prompts, workers = state.requests.size[active] - gone, state.marks.worker[active]
    window.base[:] = 0
    window.running[:] = 0
    for h in range(len(window.level)):
        later = ages + h if state.sight[GROWS] else ages
        loads = prompts + gained_each(state.gains, later)
        runs = remaining > h
        add_each(window.base[:, h], workers, np.where(runs, loads, 0))
        add_each(window.running[:, h], workers, np.where(runs, 1, 0))


@compilable(allocates=True)
def project_contributions(
    state: State, window: Window, waiting: IntArray, remaining: IntArray
) -> None:
    """Compute the loads ``v_i(h)`` that waiting requests add if admitted now.

    Call `project_loads` before. ``remaining`` is the number of steps that each request will run.
    """
    growth = growth_of_waiting(state, window)
    sizes = taken(state.requests.size, waiting)
    while_active(window.contribution[: len(waiting)], sizes, growth, remaining)


@compilable(allocates=True)
def growth_of_waiting(state: State, window: Window) -> IntArray:
    """Return the growth of a request admitted now at each step of the window, shape (H+1,)."""
    if state.settings.by_age and state.sight[GROWS]:
        growth = np.empty_like(window.level)
        write_gains(growth, state.gains, 0)
        return growth
    since: IntArray = window.level - window.level[0]
    return since


@compilable(allocates=True)
def bound_loads(state: State, window: Window) -> IntArray:
    """Return the load of the requests bound to each worker if all started now, shape (G, H+1).

    Their starts are unknown, so none of these requests ends within the window.
    """
    growth, workers = growth_of_waiting(state, window), state.reports
    loads = np.empty_like(window.base)
    for g in range(len(loads)):
        loads[g] = workers.queued_tokens[g]
        add_times(loads[g], growth, workers.queued[g])
    return loads


def note_predicted(state: State, remaining: IntArray) -> None:
    """Fill the ring buffer with the predicted remaining steps of running requests, in 1..H+1."""
    look_ahead, width = int(state.settings.look_ahead), state.ending_load.shape[1]
    within = remaining <= look_ahead
    ending = state.lists.running[: state.counters[ACTIVE]][within]
    columns = (state.counters[STEP] + remaining[within] - 1) & (width - 1)
    cells = state.marks.worker[ending] * width + columns
    drift = gained_each(state.gains, state.marks.start[ending])
    state.ending_load[:] = 0
    state.ending_count[:] = 0
    add_each(state.ending_load.reshape(-1), cells, state.requests.size[ending] - drift)
    add_each(state.ending_count.reshape(-1), cells, np.ones_like(cells))
