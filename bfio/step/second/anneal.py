"""Simulated annealing of the second objective, within a limit on the first objective."""

from typing import NamedTuple

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.common.words import RandomState, next_random
from bfio.step.exact.windows.anneal import (
    Exchange,
    Placement,
    added_excess,
    is_refused,
    make,
    placed,
    placed_objective,
    set_change,
    set_peaks,
)
from bfio.step.exact.windows.model import Goal, Requests, Workers
from formulations.arrays import IntArray

#: Half of the exchange partners are at most this far away in the order of sizes.
_NEAR = 8
#: Random bits per choice; their value times the largest number of requests fits in 64 bits.
_BITS = 20
_MASK = np.uint64((1 << _BITS) - 1)
#: Operations counted per tried exchange, in addition to those per look-ahead step.
_LOOK = 60


class Program(NamedTuple):
    """Loads and objective of a step or of a window; see `bfio.step.exact.windows.model`."""

    requests: Requests
    workers: Workers
    goal: Goal


@compilable
def _drawn(word: np.uint64, held: IntArray, placement: Placement, partners: int) -> Exchange:
    """Return a random admitted request and a partner; worker −1 if this is not an exchange."""
    first = int(held[((word & _MASK) * np.uint64(len(held))) >> np.uint64(_BITS)])
    draw = (word >> np.uint64(_BITS)) & _MASK
    if word >> np.uint64(63):
        second = int(np.int64((draw * np.uint64(partners)) >> np.uint64(_BITS)))
    else:
        second = first + int(np.int64(draw % np.uint64(2 * _NEAR + 1))) - _NEAR
    N = len(placement.owner)
    nothing = Exchange(first, second, -1, -1)
    if second < 0 or second >= partners:
        return nothing
    if second >= N and (partners == N or placement.free[second - N] == 0):
        return nothing
    worker = int(placement.owner[first])
    other = int(placement.owner[second]) if second < N else second - N
    return nothing if worker == other else Exchange(first, second, worker, other)


@compilable
def _cost_change(exchange: Exchange, cost: IntArray) -> int:
    """Return the change of the admitted requests' cost by an exchange with the pool."""
    if exchange.other >= 0 or exchange.second >= len(cost):
        return 0
    return int(cost[exchange.second] - cost[exchange.first])


@entry_point
def anneal_second(
    step: Program,
    window: Program,
    cost: IntArray,
    most: int,
    price: float,
    temperature: float,
    turns: int,
    move: bool,
    owner: IntArray,
    state: RandomState,
    spent: IntArray,
) -> int:
    """Exchange requests between workers and the pool, starting within the limit.

    At least one request must be admitted. The function is long because each exchange updates both
    objectives.

    Parameters
    ----------
    step, window : Program
        First objective, and the part of the second that depends on loads; both use the positions
        of the first.
    cost : IntArray
        Shape (N,): the other part of the second objective, per admitted position.
    most : int
        Limit on the first objective.
    price : float
        Weight of a unit of the second objective, relative to a unit of excess of the first
        objective above the limit.
    temperature : float
        Initial temperature: an increase of the weighted sum by this much is accepted with
        probability 1/e. The temperature decreases to 0.
    turns : int
        Number of random exchanges.
    move : bool
        Whether requests may also move to free slots.
    owner : IntArray
        Shape (N,): worker of each position or -1; overwritten with the best placement found.
    state : RandomState
        Shape (1,): state of the random generator; updated.
    spent : IntArray
        Shape (1,): number of operations (`bfio.step.exact.effort`); increased.

    Returns
    -------
    int
        Second objective of the best placement within the limit.
    """
    first = placed(step.requests, step.workers, step.goal, owner)
    second = placed(window.requests, window.workers, window.goal, owner.copy())
    value = placed_objective(first, step.workers, step.goal)
    costs = placed_objective(second, window.workers, window.goal)
    for i in range(len(owner)):
        if owner[i] >= 0:
            costs += cost[i]
    held = np.flatnonzero(owner >= 0)
    best_costs = costs
    best = owner.copy()
    partners = len(owner) + len(step.workers.slots) if move else len(owner)
    look = _LOOK + 4 * (len(first.peaks) + len(second.peaks))
    for turn in range(turns):
        state[0] = next_random(state[0])
        exchange = _drawn(state[0], held, first, partners)
        if exchange.worker < 0:
            continue
        if exchange.other < 0 and step.requests.required[exchange.first]:
            continue
        changes, gain = set_change(exchange, step.requests, step.workers, step.goal, first.change)
        other_changes, other_gain = set_change(
            exchange, window.requests, window.workers, window.goal, second.change
        )
        added = _cost_change(exchange, cost)
        if not changes and not other_changes and added == 0:
            continue
        spent[0] += look
        if added_excess(exchange, first, step.workers) > 0:
            continue
        new_value = value - gain + set_peaks(exchange, first, step.workers, step.goal)
        new_costs = costs + added - other_gain
        new_costs += set_peaks(exchange, second, window.workers, window.goal)
        # The first objective counts only above the limit; exchanges below it are free.
        rise = price * float(new_costs - costs)
        rise += float(max(0, new_value - most) - max(0, value - most))
        if is_refused(rise, temperature * (1.0 - turn / turns), state[0]):
            continue
        make(exchange, first)
        make(exchange, second)
        # In an exchange with the pool the partner becomes the admitted request.
        if exchange.other < 0:
            held[((state[0] & _MASK) * np.uint64(len(held))) >> np.uint64(_BITS)] = exchange.second
        value, costs = new_value, new_costs
        if value <= most and costs < best_costs:
            best_costs = costs
            copy_to(best, owner)
    copy_to(owner, best)
    return int(best_costs)
