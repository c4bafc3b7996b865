"""Projected loads and contributions over the look-ahead window, as kernels.

They are those of `bfio.decode.projection.Projector` for drifts that are alike for all. With known
lengths, what ends at each step of the window is kept up to date in a ring of H columns per
worker, so that the projection of a step costs O(G·H) however many requests run.
"""

from typing import NamedTuple

from bfio.common.kernels import in_place
from bfio.decode.compiled.phases import gained
from bfio.decode.compiled.state import (
    LAST,
    LOADS,
    NEXT,
    OUTPUT,
    PROMPT,
    REVEALED,
    RUNNING,
    START,
    STEP,
    WAITING,
    WORKER,
    State,
)
from formulations.arrays import IntArray

# Entries of `Window.options`: whether loads grow and lengths are known; θ, K (0: the default)
# and whether the key is the product, of the two-stage heuristic.
(GROWING, KNOWN, THRESHOLD, CANDIDATES, PRODUCT) = range(5)


class Window(NamedTuple):
    """What a two-stage policy sees of a step, and how it weighs it.

    Parameters
    ----------
    options : IntArray
        See the names of its entries above.
    reward, penalty : IntArray
        Shape (H+1,): factors of the score, see `bfio.step.two_stage.fscore.ScoreWeights`.
    growth : IntArray
        Shape (H+1,): what each request gains over h steps from now [tokens].
    base : IntArray
        Shape (G, H+1): projected loads without new admissions [tokens].
    contribution : IntArray
        Shape (most waiting, H+1): projected load of each waiting request [tokens].
    by_size, assignment : IntArray
        Shape (most waiting,): the waiting requests, largest first; the worker of each, -1 for
        none.
    ending_load, ending_count : IntArray
        Shape (G, H): requests whose last step is k = column modulo H, if that lies in the
        window: their prompts less the drift before they started [tokens], and their number.
    """

    options: IntArray
    reward: IntArray
    penalty: IntArray
    growth: IntArray
    base: IntArray
    contribution: IntArray
    by_size: IntArray
    assignment: IntArray
    ending_load: IntArray
    ending_count: IntArray


@in_place
def project(state: State, window: Window) -> None:
    """Compute growth, projected loads and contributions of this step."""
    step = state.counters[STEP]
    for h in range(len(window.growth)):
        ahead = step + h if window.options[GROWING] else step
        window.growth[h] = gained(state.gains, ahead) - gained(state.gains, step)
    project_loads(state, window)
    project_contributions(state, window)


@in_place
def project_loads(state: State, window: Window) -> None:
    """Compute ``b_g(h)``: what runs now, less what has ended by step h, plus growth."""
    horizon = len(window.growth) - 1
    step, workers = state.counters[STEP], state.workers
    drift = gained(state.gains, step)
    for g in range(workers.shape[1]):
        load, running = workers[LOADS, g], workers[RUNNING, g]
        window.base[g, 0] = load
        for h in range(1, horizon + 1):
            if window.options[KNOWN]:
                column = (step + h - 1) % horizon
                ended = window.ending_count[g, column]
                load -= window.ending_load[g, column] + drift * ended
                running -= ended
            window.base[g, h] = load + running * window.growth[h]


@in_place
def project_contributions(state: State, window: Window) -> None:
    """Compute ``v_i(h)`` of the waiting requests."""
    first = state.counters[REVEALED] - state.counters[WAITING]
    for i in range(state.counters[WAITING]):
        request = state.pool[first + i]
        size, output = state.requests[PROMPT, request], state.requests[OUTPUT, request]
        for h in range(len(window.growth)):
            lasts = h < output or not window.options[KNOWN]
            window.contribution[i, h] = size + window.growth[h] if lasts else 0


@in_place
def enter_window(state: State, window: Window) -> None:
    """Note the running requests whose last step has just come into the window."""
    horizon = len(window.growth) - 1
    if horizon == 0 or not window.options[KNOWN]:
        return
    last = state.counters[STEP] + horizon - 1
    request = state.wheel[last & (len(state.wheel) - 1)]
    while request >= 0:
        if state.marks[LAST, request] == last:
            note_ending(state, window, request)
        request = state.requests[NEXT, request]


@in_place
def note_start(state: State, window: Window, request: int) -> None:
    """Note a request that starts now, if it ends within the window."""
    horizon = len(window.growth) - 1
    known = horizon > 0 and window.options[KNOWN]
    if known and state.marks[LAST, request] < state.counters[STEP] + horizon:
        note_ending(state, window, request)


@in_place
def note_ending(state: State, window: Window, request: int) -> None:
    """Add a request to the column of its last step."""
    column = state.marks[LAST, request] % window.ending_load.shape[1]
    worker = state.marks[WORKER, request]
    drift = gained(state.gains, state.marks[START, request])
    window.ending_load[worker, column] += state.requests[PROMPT, request] - drift
    window.ending_count[worker, column] += 1


@in_place
def leave_window(state: State, window: Window) -> None:
    """Clear the column of the step that is about to end."""
    horizon = len(window.growth) - 1
    if horizon > 0 and window.options[KNOWN]:
        column = state.counters[STEP] % horizon
        window.ending_load[:, column] = 0
        window.ending_count[:, column] = 0
