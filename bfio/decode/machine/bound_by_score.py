"""Immediate dispatch by the F-score, compiled.

`bfio.decode.policies.balance_route.bound_by_score` is its readable form.
"""

import numpy as np

from bfio.common.compilable import compilable
from bfio.decode.machine.phases import (
    bind,
    close_gaps,
    may_be_bound,
    most_bound,
    start_queued,
)
from bfio.decode.machine.pool import first_waiting
from bfio.decode.machine.state import REVEALED, TAKEN, State
from bfio.decode.machine.window import (
    Window,
    bound_loads,
    growth_of_waiting,
    project_contributions,
    project_running,
    remaining_waiting,
)
from bfio.decode.tally import takes, worker_tally
from formulations.arrays import IntArray

#: Scores estimated below it stay exact in 64 bits, with room for the rounding of the estimate.
_SAFE = 2.0**61


@compilable(allocates=True)
def bind_by_score(
    state: State,
    window: Window,
    reward: IntArray,
    penalty: IntArray,
    token_time: IntArray,
    overhead_tokens: IntArray,
) -> bool:
    """Bind each request that waits for a worker; False if that would not be exact.

    Parameters
    ----------
    state, window
        The step, and room for its projections.
    reward, penalty, token_time, overhead_tokens
        See `bfio.decode.machine.two_stage.TwoStage`.
    """
    counters, most = state.counters, most_bound(state)
    if most > 0:
        project_running(state, window)
        loads = window.base + bound_loads(state, window)
        time = np.ones(len(loads), dtype=np.int64)
        if len(token_time) > 0:
            time = token_time
            for g in range(len(loads)):
                loads[g] = (loads[g] + overhead_tokens[g]) * time[g]
        growth = growth_of_waiting(state, window)
        factors = float(reward.sum()) + float(penalty.sum())
        for position in range(first_waiting(state), counters[REVEALED]):
            if counters[TAKEN] == most:
                break
            request = state.pool[position]
            if not may_be_bound(state, request):
                continue
            waiting = state.pool[position : position + 1]
            project_contributions(state, window, waiting, remaining_waiting(state, waiting))
            added = window.contribution[0]
            heaviest = float(loads.max()) + float(added.max()) * float(time.max())
            if heaviest * factors >= _SAFE:
                return False
            worker = best_worker(state, request, loads, added, time, reward, penalty)
            if bind(state, position, worker):
                loads[worker] += (state.requests.size[request] + growth) * time[worker]
        close_gaps(state)
    start_queued(state)
    return True


@compilable(allocates=True)
def best_worker(
    state: State,
    request: int,
    loads: IntArray,
    added: IntArray,
    time: IntArray,
    reward: IntArray,
    penalty: IntArray,
) -> int:
    """Return the open worker of highest score; ties: most left, largest least margin, lowest."""
    envelope = np.zeros(loads.shape[1], dtype=np.int64)
    for g in range(len(loads)):
        for h in range(len(envelope)):
            envelope[h] = max(envelope[h], loads[g, h])
    best, best_value, best_left, best_margin = -1, 0, 0, 0
    for g in range(len(loads)):
        worker = worker_tally(state, g)
        if not takes(worker, state.requests.need[request]):
            continue
        value, margin = 0, envelope[0] - loads[g, 0]
        for h in range(len(envelope)):
            left, more = envelope[h] - loads[g, h], added[h] * time[g]
            value += reward[h] * more - penalty[h] * max(0, more - left)
            margin = min(margin, left)
        is_better = value > best_value
        if value == best_value:
            is_better = worker.free > best_left
            if worker.free == best_left:
                is_better = margin > best_margin
        if best < 0 or is_better:
            best, best_value, best_left, best_margin = g, value, worker.free, margin
    return best
