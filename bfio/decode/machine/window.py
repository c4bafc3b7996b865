"""Projected loads over the look-ahead window (BF-IO section 4, BalanceRoute eq. 7).

Two independent choices make a projection: how a request's load moves (it grows by the drift, or is
held at its load now), and when it ends (then it adds 0); when a waiting one ends may be kept from
the policy (`bfio.decode.options.WindowKnows`). With known lengths what ends at each
step of the window is kept up to date in a ring of H + 1 columns per worker, so that the projection
of a step costs O(G·H) however many requests run.
"""

from typing import NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.decode.features.telemetry import (
    receive,
    show_projection,
)
from bfio.decode.machine.arrays import add_each, copy_to, gather, take_in_turn, while_active
from bfio.decode.machine.counters import ACTIVE, GROWS, KNOWN, REVEALED, STEP
from bfio.decode.machine.endings import column_of, gained, gained_each, predicted_steps, predicts
from bfio.decode.machine.moves import ages_of, first_waiting
from bfio.decode.machine.state import State
from formulations.arrays import IntArray


class Window(NamedTuple):
    """The projections of a step."""

    #: Shape (H+1,): drift since step 0 that the loads of each step of the window have [tokens].
    level: IntArray
    base: IntArray  #: Shape (G, H+1): projected loads without new admissions [tokens].
    #: Shape (G, H+1): running requests that are left at each step of the window.
    running: IntArray
    #: Shape (most waiting, H+1): projected load of each waiting request [tokens].
    contribution: IntArray


def new_window(num_workers: int, look_ahead: int, most_waiting: int) -> Window:
    """Return a window of ``H + 1`` columns."""
    return Window(
        level=np.zeros(look_ahead + 1, dtype=np.int64),
        base=np.zeros((num_workers, look_ahead + 1), dtype=np.int64),
        running=np.zeros((num_workers, look_ahead + 1), dtype=np.int64),
        contribution=np.empty((most_waiting, look_ahead + 1), dtype=np.int64),
    )


@compilable(allocates=True)
def project(state: State, window: Window) -> None:
    """Compute projected loads and contributions of this step, with lengths known or not at all."""
    if len(window.level) == 1:
        project_now(state, window)
        return
    project_running(state, window)
    waiting = waiting_requests(state)
    project_contributions(state, window, waiting, remaining_waiting(state, waiting))


@compilable(allocates=True)
def project_running(state: State, window: Window) -> None:
    """Compute projected loads of this step, with lengths known or not at all."""
    if state.reports.is_on:
        show_projection(state, window)
    else:
        project_as_it_is(state, window)


@compilable(allocates=True)
def project_as_it_is(state: State, window: Window) -> None:
    """Do so whatever policies are told."""
    active = state.lists.running[: state.counters[ACTIVE]]
    remaining = active
    if state.settings.by_age and len(window.level) > 1:
        remaining = remaining_running(state, active)
    project_loads(state, window, remaining)


@compilable(allocates=True, part_of="telemetry")
def report(state: State, window: Window) -> None:
    """Project loads as they are and let workers report them, where reports are late or lost."""
    if state.reports.is_on:
        project_as_it_is(state, window)
        receive(state, window)


@compilable(allocates=True)
def waiting_requests(state: State) -> IntArray:
    """Return the requests that wait, oldest first."""
    waiting: IntArray = state.pool[first_waiting(state) : state.counters[REVEALED]]
    return waiting


@compilable
def grow_alike(state: State) -> bool:
    """Whether all waiting requests would grow alike over the window, as none is known to end."""
    told = state.sight[KNOWN] or predicts(state)
    return not (told and state.settings.waiting_ends)


@compilable(allocates=True)
def project_now(state: State, window: Window) -> None:
    """Write loads and sizes as they are: without look-ahead nobody ends and nothing grows."""
    waiting = waiting_requests(state)
    copy_to(window.base[:, 0], state.reports.load)
    copy_to(window.running[:, 0], state.reports.running)
    gather(window.contribution[: len(waiting), 0], state.requests.size, waiting)


@compilable(allocates=True)
def remaining_running(state: State, active: IntArray) -> IntArray:
    """Return the steps that running requests have left as far as known or predicted."""
    if predicts(state):
        left: IntArray = state.prediction.last[active] - state.counters[STEP] + 1
        return left
    return remaining_of(state, state.marks.last[active] - state.counters[STEP] + 1, True)


@compilable
def left_of(state: State, request: int) -> int:
    """Return the steps that one running request has left as far as known or predicted."""
    if predicts(state):
        return int(state.prediction.last[request] - state.counters[STEP] + 1)
    if state.sight[KNOWN]:
        return int(state.marks.last[request] - state.counters[STEP] + 1)
    return int(state.settings.look_ahead + 1)


@compilable(allocates=True)
def remaining_waiting(state: State, waiting: IntArray) -> IntArray:
    """Return the steps that waiting requests will run as far as known or predicted, if told."""
    if predicts(state) and state.settings.waiting_ends:
        steps = np.empty_like(waiting)
        for i in range(len(waiting)):
            request = waiting[i]
            age = state.requests.emitted[request]
            steps[i] = predicted_steps(state.prediction, request, age)
        return steps
    left = state.requests.output[waiting] - state.requests.emitted[waiting]
    return remaining_of(state, left, state.settings.waiting_ends)


@compilable(allocates=True)
def remaining_of(state: State, true: IntArray, may_ask: bool) -> IntArray:
    """Return true remaining steps if they are known and may be, otherwise beyond the window."""
    if state.sight[KNOWN] and may_ask:
        return true
    return np.full(len(true), state.settings.look_ahead + 1)


@compilable(allocates=True)
def project_loads(state: State, window: Window, remaining: IntArray) -> None:
    """Compute ``b_g(h)``.

    ``remaining``, the steps left of those that run, is read if they do not all grow alike.
    """
    step, look_ahead = int(state.counters[STEP]), len(window.level) - 1
    window.level[:] = gained(state.gains, step)
    if state.sight[GROWS]:
        window.level[:] = gained_each(state.gains, np.arange(step, step + look_ahead + 1))
    loads, running = state.workers.load, state.workers.running
    if look_ahead == 0:
        copy_to(window.base[:, 0], loads)
        copy_to(window.running[:, 0], running)
    elif state.settings.by_age:
        project_by_age(state, window, remaining)
    else:
        # Loads less the drift since step 0: these do not move while a request runs.
        first = column_of(state, step)
        take_in_turn(window.base, loads - running * window.level[0], state.ending_load, first)
        take_in_turn(window.running, running, state.ending_count, first)
        base = window.base
        base += window.running * window.level


@compilable(allocates=True, part_of="age")
def project_by_age(state: State, window: Window, remaining: IntArray) -> None:
    """Compute ``b_g(h)`` request by request, as increments depend on the age of each."""
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
    """Compute ``v_i(h)`` of waiting requests if they were admitted now, after `project_loads`.

    ``remaining`` says how many steps each will run.
    """
    growth = growth_of_waiting(state, window)
    sizes = state.requests.size[waiting]
    while_active(window.contribution[: len(waiting)], sizes, growth, remaining)


@compilable(allocates=True)
def growth_of_waiting(state: State, window: Window) -> IntArray:
    """Return what a request admitted now gains until each step of the window, shape (H+1,)."""
    if state.settings.by_age and state.sight[GROWS]:
        return gained_each(state.gains, np.arange(len(window.level)))
    growth: IntArray = window.level - window.level[0]
    return growth


@compilable(allocates=True)
def bound_loads(state: State, window: Window) -> IntArray:
    """Return what those bound to each worker would weigh if they started now, shape (G, H+1).

    When they start is not known, so none of them ends within the window.
    """
    growth, workers = growth_of_waiting(state, window), state.reports
    loads = np.empty_like(window.base)
    for g in range(len(loads)):
        loads[g] = workers.queued_tokens[g] + workers.queued[g] * growth
    return loads


def note_predicted(state: State, remaining: IntArray) -> None:
    """Fill the ring with the remaining steps that a predictor says of those that run, 1..H+1."""
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
