"""All sets of requests that bounds leave to each worker, and the search for disjoint ones."""

from typing import NamedTuple

import numpy as np

from bfio.common.array_kernels import copy_to
from bfio.common.kernels import entry_point, in_place
from bfio.step.exact.windows.model import Goal, Modes, Requests, Workers
from bfio.step.exact.windows.pricing import NEVER, Priced, collect_exact, reduced_costs
from bfio.step.exact.windows.shares import WeightedShares
from formulations.arrays import IntArray

#: Operations of one column looked at in the search.
_LOOK = 10


class NearBest(NamedTuple):
    """Sets of requests, and what choosing them costs above the bound.

    Parameters
    ----------
    worker, cost, worth : IntArray
        Shape (J,): worker, reduced cost above its worker's least, weight in the total.
    members : IntArray
        Shape (J, C): positions, filled up with -1.
    times : IntArray
        Shape (J, S): time of the worker, negated behind the window.
    """

    worker: IntArray
    cost: IntArray
    worth: IntArray
    members: IntArray
    times: IntArray


@entry_point
def collect_near_best(
    modes: Modes,
    fixed: IntArray,
    workers: Workers,
    shares: WeightedShares,
    priced: Priced,
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
    modes, fixed, workers, shares, priced
        As in `price_modes`.
    bests : IntArray
        Shape (T, L + 1, C + 1): from `prefix_bests`, for each token time.
    least : IntArray
        Shape (K,): least reduced cost of each worker.
    budget : int
        Most above it.
    scans : int
        Most requests to look at for one sum.
    worker, cost, members : IntArray
        Filled, as in `NearBest`.
    spent : IntArray
        Shape (1,).

    Returns
    -------
    int
        Number found; -1 if they are more than fit, or not all were found.
    """
    widest = 0
    for m in range(len(modes.low)):
        widest = max(widest, modes.high[m] - modes.low[m] + 1)
    costs = np.empty(widest, np.int64)
    number = 0
    subsets = np.empty((len(worker), members.shape[1]), np.int64)
    for m in range(len(modes.low)):
        k = modes.worker[m]
        count = modes.number[m]
        speed = priced.speed[k]
        reduced_costs(m, modes, fixed, workers, shares, priced, costs)
        for x in range(modes.high[m] - modes.low[m] + 1):
            above = costs[x] - least[k]
            if costs[x] >= NEVER or above > budget:
                continue
            total = modes.low[m] + x
            value = priced.tables[speed, count, total]
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


@in_place
def _fits(members: IntArray, kind: IntArray, left: IntArray) -> bool:
    """Whether there are enough requests of each kind for a set."""
    for c in range(len(members)):
        if members[c] >= 0:
            left[kind[members[c]]] -= 1
    fits = True
    for c in range(len(members)):
        if members[c] >= 0:
            fits = fits and left[kind[members[c]]] >= 0
    for c in range(len(members)):
        if members[c] >= 0:
            left[kind[members[c]]] += 1
    return fits


@in_place
def _objective(goal: Goal, peaks: IntArray, worth: int) -> int:
    value = -goal.fixed - worth
    for s in range(len(peaks)):
        value += goal.pays[s] * peaks[s]
    return value


@entry_point
def choose_disjoint(
    columns: NearBest,
    requests: Requests,
    goal: Goal,
    floors: IntArray,
    num_workers: int,
    prices: IntArray,
    admitted: int,
    budget: int,
    scale: int,
    value: int,
    most: int,
    chosen: IntArray,
    spent: IntArray,
) -> tuple[int, bool]:
    """Search for one set per worker, all disjoint, of an objective below ``value``.

    The worker with the fewest sets left is served first.

    Parameters
    ----------
    columns : NearBest
        All sets within the budget.
    requests, goal
        The problem.
    floors : IntArray
        Shape (S,): levels that no peak is below.
    num_workers : int
        K.
    prices : IntArray
        Shape (N,): price of each position: what it costs to leave it.
    admitted : int
        Number of requests to admit.
    budget : int
        What ``value - 1`` leaves above the bound.
    scale : int
        Units of costs to one of the objective.
    value : int
        Objective to beat.
    most : int
        Most sets to look at.
    chosen : IntArray
        Shape (K,): filled with the sets of the best choice found.
    spent : IntArray
        Shape (1,).

    Returns
    -------
    tuple of (int, bool)
        Least objective found, ``value`` if none is below, and whether the search came to its end.
    """
    K = num_workers
    J = len(columns.worker)
    S = len(floors)
    kinds = requests.kind.max() + 1
    left = np.zeros(kinds, np.int64)
    price_of = np.zeros(kinds, np.int64)
    must = np.zeros(kinds, np.bool_)
    for i in range(len(requests.kind)):
        left[requests.kind[i]] += 1
        price_of[requests.kind[i]] = prices[i]
        must[requests.kind[i]] = requests.required[i]
    alive = np.empty((K + 1, J), np.int64)
    number = np.zeros(K + 1, np.int64)
    number[0] = J
    for j in range(J):
        alive[0, j] = j
    peaks = np.empty((K + 1, S), np.int64)
    copy_to(peaks[0], floors)
    cost = np.zeros(K + 1, np.int64)
    worth = np.zeros(K + 1, np.int64)
    size = np.zeros(K + 1, np.int64)
    pick = np.full(K + 1, -1, np.int64)
    at = np.zeros(K + 1, np.int64)
    done = np.zeros(K, np.bool_)
    fewest = np.empty(K, np.int64)
    cheapest = np.empty(K, np.int64)
    dearest = np.empty(K, np.int64)
    current = np.full(K + 1, -1, np.int64)
    depth = 0
    enter = True
    while depth >= 0:
        if enter:
            enter = False
            pick[depth] = -1
            most -= number[depth]
            if most < 0:
                return value, False
            spent[0] += 4 * _LOOK * number[depth] + 4 * S + K
            if depth == K:
                missing = False
                for c in range(kinds):
                    missing = missing or (must[c] and left[c] > 0)
                found = _objective(goal, peaks[depth], worth[depth])
                if not missing and size[depth] == admitted and found < value:
                    budget -= scale * (value - found)
                    value = found
                    copy_to(chosen, current[:K])
            else:
                fewest[:] = 0
                cheapest[:] = NEVER
                dearest[:] = -NEVER
                for a in range(number[depth]):
                    j = alive[depth, a]
                    k = columns.worker[j]
                    fewest[k] += 1
                    cheapest[k] = min(cheapest[k], columns.cost[j])
                    dearest[k] = max(dearest[k], columns.worth[j])
                rest = cost[depth]
                gain = worth[depth]
                chosen_worker = -1
                for k in range(K):
                    if not done[k]:
                        if fewest[k] == 0:
                            rest = NEVER
                            break
                        rest += cheapest[k]
                        gain += dearest[k]
                        if chosen_worker < 0 or fewest[k] < fewest[chosen_worker]:
                            chosen_worker = k
                if rest <= budget and _objective(goal, peaks[depth], gain) < value:
                    pick[depth] = chosen_worker
                    at[depth] = 0
        # Undo the set chosen at this depth, and go to its worker's next one.
        k = pick[depth]
        if k >= 0 and current[k] >= 0:
            for c in range(columns.members.shape[1]):
                if columns.members[current[k], c] >= 0:
                    left[requests.kind[columns.members[current[k], c]]] += 1
            current[k] = -1
            done[k] = False
        if k < 0:
            depth -= 1
            continue
        while at[depth] < number[depth] and (
            columns.worker[alive[depth, at[depth]]] != k
            or cost[depth] + columns.cost[alive[depth, at[depth]]] > budget
        ):
            at[depth] += 1
        if at[depth] == number[depth]:
            depth -= 1
            continue
        j = alive[depth, at[depth]]
        at[depth] += 1
        current[k] = j
        done[k] = True
        taken = 0
        for c in range(columns.members.shape[1]):
            if columns.members[j, c] >= 0:
                left[requests.kind[columns.members[j, c]]] -= 1
                taken += 1
        cost[depth + 1] = cost[depth] + columns.cost[j]
        worth[depth + 1] = worth[depth] + columns.worth[j]
        size[depth + 1] = size[depth] + taken
        for s in range(S):
            peaks[depth + 1, s] = max(peaks[depth, s], columns.times[j, s])
        count = 0
        for a in range(number[depth]):
            other = alive[depth, a]
            if (
                not done[columns.worker[other]]
                and cost[depth + 1] + columns.cost[other] <= budget
                and _fits(columns.members[other], requests.kind, left)
            ):
                alive[depth + 1, count] = other
                count += 1
        number[depth + 1] = count
        depth += 1
        enter = True
    return value, True
