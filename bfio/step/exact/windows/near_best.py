"""All sets of requests that bounds allow on each worker, and the search for disjoint ones."""

from typing import NamedTuple

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from bfio.step.exact.windows.costs import NEVER, Costs, reduced_costs
from bfio.step.exact.windows.model import Goal, Requests
from bfio.step.exact.windows.pricing import best_value, collect_exact
from formulations.arrays import BoolArray, IntArray

#: Operations of one column looked at in the search.
_LOOK = 10


class NearBest(NamedTuple):
    """Sets of requests, with the costs of choosing them above the bound.

    Parameters
    ----------
    worker, cost, worth : IntArray
        Shape (J,): worker, reduced cost above its worker's least, weight in the total.
    members : IntArray
        Shape (J, C): positions of requests, padded with -1.
    times : IntArray
        Shape (J, S): time of the worker; negated from step H+1 on (gap objective).
    """

    worker: IntArray
    cost: IntArray
    worth: IntArray
    members: IntArray
    times: IntArray


class Partial(NamedTuple):
    """A partial choice of sets, by depth of the search; changed in place.

    Parameters
    ----------
    alive : IntArray
        Shape (K+1, J): at its front, the sets that can still be chosen.
    number : IntArray
        Shape (K+1,): number of alive sets.
    peaks : IntArray
        Shape (K+1, S): peaks of the floors and the chosen sets.
    cost, worth, size : IntArray
        Shape (K+1,): costs, weights in the total, and number of requests of the chosen sets.
    pick, at : IntArray
        Shape (K+1,): worker whose sets are tried, -1 for none; and the position in ``alive``.
    current : IntArray
        Shape (K,): set chosen for each worker, or -1.
    left : IntArray
        Shape (number of kinds,): number of requests in no chosen set.
    must : BoolArray
        Shape (number of kinds,): whether all of them must be admitted.
    fewest, cheapest, dearest : IntArray
        Shape (K,): number, least cost and largest weight of each worker's alive sets.
    """

    alive: IntArray
    number: IntArray
    peaks: IntArray
    cost: IntArray
    worth: IntArray
    size: IntArray
    pick: IntArray
    at: IntArray
    current: IntArray
    left: IntArray
    must: BoolArray
    fewest: IntArray
    cheapest: IntArray
    dearest: IntArray


@entry_point
def collect_near_best(
    costs: Costs,
    bests: IntArray,
    least: IntArray,
    budget: int,
    scans: int,
    worker: IntArray,
    cost: IntArray,
    members: IntArray,
    spent: IntArray,
) -> int:
    """Collect all sets whose reduced cost is within a budget of their worker's least.

    Parameters
    ----------
    costs : Costs
        Shares, prices and modes.
    bests : IntArray
        Shape (T, L + 1, C + 1): from `prefix_bests`, for each token time.
    least : IntArray
        Shape (K,): least reduced cost of each worker.
    budget : int
        Largest reduced cost above ``least``.
    scans : int
        Limit on the requests examined for one sum.
    worker, cost, members : IntArray
        Filled with the sets, as in `NearBest`.
    spent : IntArray
        Shape (1,): number of operations; increased.

    Returns
    -------
    int
        Number of sets found; -1 if the arrays are too small or a limit was reached.
    """
    modes, priced = costs.modes, costs.priced
    number = 0
    subsets = np.empty((len(worker), members.shape[1]), np.int64)
    for m in range(len(modes.low)):
        k = modes.worker[m]
        count = modes.number[m]
        speed = priced.speed[k]
        reduced = np.empty(modes.high[m] - modes.low[m] + 1, np.int64)
        reduced_costs(costs, m, modes.low[m], reduced, np.empty(len(reduced) + 1, np.int64))
        for x in range(len(reduced)):
            above = reduced[x] - least[k]
            if reduced[x] >= NEVER or above > budget:
                continue
            total = modes.low[m] + x
            value = best_value(priced, speed, count, total)
            found, complete = collect_exact(
                priced,
                speed,
                bests[speed],
                count,
                total,
                value - (budget - above),
                scans,
                subsets[: len(worker) - number],
                spent,
            )
            if not complete:
                return -1
            for f in range(found):
                worth = 0
                for c in range(count):
                    members[number, c] = subsets[f, c]
                    worth += priced.values[speed, subsets[f, c]]
                for c in range(count, members.shape[1]):
                    members[number, c] = -1
                for c in range(modes.own.shape[1]):
                    if modes.own[m, c] >= 0:
                        members[number, count + c] = modes.own[m, c]
                worker[number] = k
                cost[number] = above + value - worth
                number += 1
    return number


@compilable(allocates=True)
def _nothing_chosen(
    columns: NearBest, requests: Requests, floors: IntArray, num_workers: int
) -> Partial:
    K, J = num_workers, len(columns.worker)
    kinds = requests.kind.max() + 1
    left = np.zeros(kinds, np.int64)
    must = np.zeros(kinds, np.bool_)
    for i in range(len(requests.kind)):
        left[requests.kind[i]] += 1
        must[requests.kind[i]] = requests.required[i]
    alive = np.empty((K + 1, J), np.int64)
    for j in range(J):
        alive[0, j] = j
    number = np.zeros(K + 1, np.int64)
    number[0] = J
    peaks = np.empty((K + 1, len(floors)), np.int64)
    copy_to(peaks[0], floors)
    return Partial(
        alive=alive,
        number=number,
        peaks=peaks,
        cost=np.zeros(K + 1, np.int64),
        worth=np.zeros(K + 1, np.int64),
        size=np.zeros(K + 1, np.int64),
        pick=np.full(K + 1, -1, np.int64),
        at=np.zeros(K + 1, np.int64),
        current=np.full(K, -1, np.int64),
        left=left,
        must=must,
        fewest=np.empty(K, np.int64),
        cheapest=np.empty(K, np.int64),
        dearest=np.empty(K, np.int64),
    )


@compilable
def _objective(goal: Goal, peaks: IntArray, worth: int) -> int:
    value = -goal.fixed - worth
    for s in range(len(peaks)):
        value += goal.pays[s] * peaks[s]
    return value


@compilable
def _admits(partial: Partial, depth: int, admitted: int) -> bool:
    """Return whether all required requests are chosen, and the right number in total."""
    for c in range(len(partial.left)):
        if partial.must[c] and partial.left[c] > 0:
            return False
    return bool(partial.size[depth] == admitted)


@compilable
def _survey(columns: NearBest, partial: Partial, depth: int) -> None:
    """Write number, least cost and largest weight of each worker's alive sets."""
    for k in range(len(partial.fewest)):
        partial.fewest[k] = 0
        partial.cheapest[k] = NEVER
        partial.dearest[k] = -NEVER
    for a in range(partial.number[depth]):
        j = partial.alive[depth, a]
        k = columns.worker[j]
        partial.fewest[k] += 1
        partial.cheapest[k] = min(partial.cheapest[k], columns.cost[j])
        partial.dearest[k] = max(partial.dearest[k], columns.worth[j])


@compilable(into_caller=True)
def _next_worker(
    columns: NearBest, goal: Goal, partial: Partial, depth: int, budget: int, value: int
) -> int:
    """Return the worker with the fewest sets; -1 if no completion beats ``value``."""
    _survey(columns, partial, depth)
    cost = partial.cost[depth]
    worth = partial.worth[depth]
    chosen = -1
    for k in range(len(partial.current)):
        if partial.current[k] < 0:
            if partial.fewest[k] == 0:
                return -1
            cost += partial.cheapest[k]
            worth += partial.dearest[k]
            if chosen < 0 or partial.fewest[k] < partial.fewest[chosen]:
                chosen = k
    if cost > budget or _objective(goal, partial.peaks[depth], worth) >= value:
        return -1
    return chosen


@compilable(into_caller=True)
def _next_set(columns: NearBest, partial: Partial, depth: int, budget: int) -> int:
    """Return the next affordable set of the worker at this depth; -1 if there is none."""
    while partial.at[depth] < partial.number[depth]:
        j = partial.alive[depth, partial.at[depth]]
        partial.at[depth] += 1
        if (
            columns.worker[j] == partial.pick[depth]
            and partial.cost[depth] + columns.cost[j] <= budget
        ):
            return int(j)
    return -1


@compilable
def _count_out(members: IntArray, kind: IntArray, left: IntArray) -> int:
    """Remove a set's requests from those left; return their number."""
    taken = 0
    for c in range(len(members)):
        if members[c] >= 0:
            left[kind[members[c]]] -= 1
            taken += 1
    return taken


@compilable
def _put_back(members: IntArray, kind: IntArray, left: IntArray) -> None:
    """Undo `_count_out`."""
    for c in range(len(members)):
        if members[c] >= 0:
            left[kind[members[c]]] += 1


@compilable
def _fits(members: IntArray, kind: IntArray, left: IntArray) -> bool:
    """Return whether enough requests of each kind are left for a set."""
    _count_out(members, kind, left)
    fits = True
    for c in range(len(members)):
        if members[c] >= 0:
            fits = fits and left[kind[members[c]]] >= 0
    _put_back(members, kind, left)
    return fits


@compilable(into_caller=True)
def _choose(
    columns: NearBest, requests: Requests, partial: Partial, depth: int, j: int, budget: int
) -> None:
    """Choose a set, and write the sets that remain alive at the next depth."""
    partial.current[columns.worker[j]] = j
    taken = _count_out(columns.members[j], requests.kind, partial.left)
    cost = partial.cost[depth] + columns.cost[j]
    partial.cost[depth + 1] = cost
    partial.worth[depth + 1] = partial.worth[depth] + columns.worth[j]
    partial.size[depth + 1] = partial.size[depth] + taken
    for s in range(partial.peaks.shape[1]):
        partial.peaks[depth + 1, s] = max(partial.peaks[depth, s], columns.times[j, s])
    count = 0
    for a in range(partial.number[depth]):
        other = partial.alive[depth, a]
        if (
            partial.current[columns.worker[other]] < 0
            and cost + columns.cost[other] <= budget
            and _fits(columns.members[other], requests.kind, partial.left)
        ):
            partial.alive[depth + 1, count] = other
            count += 1
    partial.number[depth + 1] = count


@entry_point
def choose_disjoint(
    columns: NearBest,
    requests: Requests,
    goal: Goal,
    floors: IntArray,
    num_workers: int,
    admitted: int,
    budget: int,
    scale: int,
    value: int,
    most: int,
    chosen: IntArray,
    spent: IntArray,
) -> tuple[int, bool]:
    """Search for disjoint sets, one per worker, of an objective below ``value``.

    The search branches on the worker with the fewest sets left.

    Parameters
    ----------
    columns : NearBest
        All sets within the budget.
    requests, goal
        The problem.
    floors : IntArray
        Shape (S,): lower bounds on the peaks.
    num_workers : int
        Number of open workers, K.
    admitted : int
        Number of requests to admit.
    budget : int
        Cost of an objective of ``value - 1`` above the bound.
    scale : int
        Units of costs per unit of the objective.
    value : int
        Objective to beat.
    most : int
        Limit on the number of sets tried.
    chosen : IntArray
        Shape (K,): filled with the sets of the best choice found.
    spent : IntArray
        Shape (1,): number of operations; increased.

    Returns
    -------
    tuple of (int, bool)
        Least objective found, or ``value`` if none is lower; and whether the search was
        exhaustive.
    """
    K, S = num_workers, len(floors)
    partial = _nothing_chosen(columns, requests, floors, K)
    depth = 0
    enters = True
    while depth >= 0:
        if enters:
            number = partial.number[depth]
            most -= number
            if most < 0:
                return value, False
            spent[0] += 4 * _LOOK * number + 4 * S + K
            partial.pick[depth] = -1
            partial.at[depth] = 0
            if depth < K:
                partial.pick[depth] = _next_worker(columns, goal, partial, depth, budget, value)
            elif _admits(partial, depth, admitted):
                found = _objective(goal, partial.peaks[depth], partial.worth[depth])
                if found < value:
                    budget -= scale * (value - found)
                    value = found
                    copy_to(chosen, partial.current)
        # Undo the set chosen at this depth, and go to its worker's next one.
        k = partial.pick[depth]
        if k >= 0 and partial.current[k] >= 0:
            _put_back(columns.members[partial.current[k]], requests.kind, partial.left)
            partial.current[k] = -1
        j = _next_set(columns, partial, depth, budget) if k >= 0 else -1
        enters = j >= 0
        if enters:
            _choose(columns, requests, partial, depth, j, budget)
        depth += 1 if enters else -1
    return value, True
