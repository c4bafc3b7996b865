"""Search over steps: choose the starting requests and their workers, best states first.

`search_form` converts a hindsight makespan problem to kinds of requests, small integer costs and
arrivals from 0.

Identical states are merged (`states`), because all later costs depend only on the loads and
remaining steps of the running requests, and on the waiting requests. Every successor has emitted
more tokens, so states are processed in layers of emitted tokens, and the cheapest path to each
state is known when its layer is processed. For latency, layers are steps. A state is discarded if
its cost so far plus a bound on the rest is at least the incumbent's cost. If a layer has more
states than the width, those with the least bounds are kept; the least bound of the others still
bounds their completions. A narrow search finds schedules, a wide search proves optimality.
"""

import math
from dataclasses import dataclass
from itertools import accumulate
from math import gcd
from operator import mul

import numpy as np

from bfio.hindsight.in_hand import is_over
from bfio.hindsight.makespan.states import (
    BEST,
    BEST_STATE,
    DROPPED,
    FREE,
    GENERATED,
    GONE,
    HASHED,
    HEAD,
    LEFT_BITS,
    OPEN,
    USED,
    Data,
    Store,
    collect,
    expand,
    first_reach,
    rehash,
    remember,
)
from formulations.arrays import IntArray
from formulations.hindsight_makespan import MakespanObjective, MakespanProblem
from formulations.hindsight_makespan.bound import lower_bound
from formulations.hindsight_makespan.solver import spread_over_workers

#: Maximum cost, over all lanes, that the search adds in 64-bit integers.
MAX_COST = 2**61


@dataclass(frozen=True)
class SearchForm:
    """Data of the search, with reduced integer costs.

    Parameters
    ----------
    problem : MakespanProblem
        The original problem; at least one request.
    data : Data
        Kinds, rules and costs.
    slots : int
        Slots of a lane.
    unit, offset : int
        The objective is ``unit`` times the cost of the search plus ``offset``.
    members : tuple of tuple of int
        Requests of each kind.
    origin : int
        Step of the problem that corresponds to step 0 of the search.
    """

    problem: MakespanProblem
    data: Data
    slots: int
    unit: int
    offset: int
    members: tuple[tuple[int, ...], ...]
    origin: int

    @property
    def is_latency(self) -> bool:
        """Whether the objective is latency."""
        return self.data.per_present > 0

    def cost(self, objective: int) -> int:
        """Return the search cost that corresponds to an objective."""
        return (objective - self.offset) // self.unit

    def objective(self, cost: int) -> int:
        """Return the objective that corresponds to a search cost."""
        return cost * self.unit + self.offset

    def bound(self) -> int:
        """Return the combinatorial bound as a search cost, rounded up."""
        return -((self.offset - lower_bound(self.problem)) // self.unit)

    def schedule(
        self, starts: list[list[int]], lanes: list[list[int]]
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return starts and workers of the requests, given those of the members of each kind."""
        num = self.problem.num_requests
        of_request, worker = [0] * num, [0] * num
        for members, times, places in zip(self.members, starts, lanes, strict=True):
            for i, time, place in zip(members, times, places, strict=True):
                of_request[i], worker[i] = time + self.origin, place
        if self.is_latency and self.problem.memory is None:
            worker = spread_over_workers(self.problem, of_request)
        return tuple(of_request), tuple(worker)


def search_form(problem: MakespanProblem) -> SearchForm:
    """Convert a problem; wall-clock schedules with free idling start at the last arrival."""
    latency = problem.objective is MakespanObjective.LATENCY
    pooled = latency and problem.memory is None
    deferred = not latency and not problem.work_conserving
    arrivals = problem.arrival.tolist()
    origin = max(arrivals) if deferred else min(arrivals)
    groups: dict[tuple[int, int, int], list[int]] = {}
    rows = zip(arrivals, problem.prompt.tolist(), problem.output.tolist(), strict=True)
    for i, (arrival, prompt, output) in enumerate(rows):
        key = (output, 0 if pooled else prompt, 0 if deferred else arrival - origin)
        groups.setdefault(key, []).append(i)
    # Long requests first, so that the search finds schedules with a short drain early. Latency
    # requires the shortest first, see `states`.
    keys = sorted(groups, reverse=not latency)
    table = np.array(keys, dtype=np.int64)
    per_step, per_token = problem.rates
    unit = gcd(per_step, per_token) or 1
    num = problem.num_requests
    output, load, arrival = (column.copy() for column in table.T)
    data = Data(
        arrival,
        load,
        output,
        radix=np.zeros(len(keys), dtype=np.int64),
        counts=np.array([len(groups[key]) for key in keys], dtype=np.int64),
        lanes=1 if pooled else min(problem.workers, num),
        memory=0 if problem.memory is None else int(problem.memory.min()),
        growth=0 if pooled else 1,
        per_step=per_step // unit,
        per_token=per_token // unit,
        per_present=int(latency),
        conserving=bool(problem.work_conserving),
        last_arrival=int(arrival.max()),
        most_successors=0,
    )
    return SearchForm(
        problem,
        data,
        slots=min(problem.total_slots if pooled else problem.slots, num),
        unit=unit,
        offset=0 if latency else problem.offset,
        members=tuple(tuple(groups[key]) for key in keys),
        origin=origin,
    )


#: Maximum slots and kinds of a search.
MAX_SLOTS, MAX_KINDS = 256, 256
#: Memory for states [bytes].
_BYTES = 600_000_000
_MAX_SCRATCH = 4096


@dataclass(frozen=True)
class StepSearchResult:
    """Result of a search, in search costs.

    Parameters
    ----------
    cost : int, optional
        Cost of a schedule better than the known one, if found.
    starts, lanes : list of list of int
        Start and lane of the members of each kind, if a schedule was found.
    bound : int
        Lower bound on every schedule.
    states : int
        Number of successors generated.
    """

    cost: int | None
    starts: list[list[int]]
    lanes: list[list[int]]
    bound: int
    states: int


def is_searchable(form: SearchForm, known: int) -> bool:
    """Whether states and costs fit 64-bit integers, and the layers fit the memory."""
    data = form.data
    ways = math.prod(count + 1 for count in data.counts.tolist())
    return (
        # A state does not distinguish lanes, so the workers must be equal.
        form.problem.is_symmetric
        and ways < 2**60
        # A step costs at most ``lanes · known``, because its peak load is at most the total work.
        and known * (data.lanes + 1) < MAX_COST
        and data.lanes * form.slots <= MAX_SLOTS
        and len(data.counts) <= MAX_KINDS
        and int((data.load + data.output).max()) < 2**40
        and _num_layers(form) < 2**LEFT_BITS
    )


class StepSearch:
    """Searches of a form.

    Parameters
    ----------
    form : SearchForm
        A form for which `is_searchable` holds.
    """

    def __init__(self, form: SearchForm) -> None:
        self._form = form
        self._layers = _num_layers(form)
        row, data = form.data.lanes * form.slots + HEAD, form.data
        size = min(_MAX_SCRATCH, max(row, int((data.load + data.output).max())) + 2)
        self._scratch = np.zeros((4, max(size, row)), dtype=np.int64)

    def run(
        self, known: int, width: int, most_successors: int, deadline: float = math.inf
    ) -> StepSearchResult:
        """Search for a cost below ``known``.

        Parameters
        ----------
        known : int
            Cost of a known schedule.
        width : int
            Maximum number of states expanded per layer, the states of one step.
        most_successors : int
            Maximum number of successors of a state. Further ones are not explored; the lower
            bound of the state counts for them.
        deadline : float
            Value of `time.perf_counter` at which to stop.
        """
        data, store = self.begin(known, width, most_successors)
        for layer in range(self._layers):
            chosen = collect(layer, store)
            if len(chosen) > width:
                chosen = self._narrow(chosen, width, store)
            # Best first, so that better schedules prune the rest of the layer.
            chosen = chosen[np.argsort(store.reach[chosen], kind="stable")]
            while len(chosen):
                if is_over(deadline):
                    return self._found(known, store)
                chosen = chosen[expand(chosen, layer, data, store, self._scratch) :]
                if store.counters[HASHED] > 6 * len(store.table) // 10:
                    rehash(store)
        return self._found(known, store)

    def begin(self, known: int, width: int, most_successors: int) -> tuple[Data, Store]:
        """Return the data and a store with the initial state; arguments as in `run`."""
        data = self._form.data
        *radix, _ = accumulate((n + 1 for n in data.counts.tolist()[::-1]), mul, initial=1)
        data = data._replace(
            radix=np.array(radix[::-1], dtype=np.int64), most_successors=most_successors
        )
        store = _store(self._form, width, self._layers)
        self._root(data, store, known)
        return data, store

    def _root(self, data: Data, store: Store, known: int) -> None:
        store.counters[:] = 0
        store.counters[[BEST, DROPPED]] = known
        store.counters[BEST_STATE] = -1
        store.counters[USED] = store.counters[HASHED] = 1
        row = np.zeros(store.rows.shape[1], dtype=np.int64)
        later = bool((data.arrival > 0).any())
        row[0] = 0 if later else data.last_arrival
        row[1] = int(data.counts @ data.radix)
        store.rows[0] = row
        store.cost[0] = store.when[0] = store.head[0] = 0
        store.parent[0] = store.after[0] = -1
        store.status[0] = OPEN
        store.reach[0] = first_reach(row[HEAD:], data, self._scratch)
        remember(0, store)

    def _narrow(self, chosen: IntArray, width: int, store: Store) -> IntArray:
        """Keep the states with the least bounds; release the rows of the others."""
        ranked = np.argsort(store.reach[chosen], kind="stable")
        left = chosen[ranked[width:]]
        counters = store.counters
        counters[DROPPED] = min(counters[DROPPED], int(store.reach[left].min()))
        store.status[left] = GONE
        store.spare[counters[FREE] : counters[FREE] + len(left)] = left
        counters[FREE] += len(left)
        return chosen[ranked[:width]]

    def _found(self, known: int, store: Store) -> StepSearchResult:
        counters = store.counters
        used = int(counters[USED])
        waits = store.reach[:used][store.status[:used] == OPEN]
        best = int(counters[BEST])
        bound = min(best, int(counters[DROPPED]), int(waits.min(initial=best)))
        # A complete schedule is also open; its reach is its cost, which is at least the best.
        state, states = int(counters[BEST_STATE]), int(counters[GENERATED])
        if state < 0:
            return StepSearchResult(None, [], [], bound, states)
        return StepSearchResult(best, *self._schedule(state, store), bound, states)

    def _schedule(self, state: int, store: Store) -> tuple[list[list[int]], list[list[int]]]:
        """Follow the parents back to the root, then identify the lanes on the way forward."""
        path = [state]
        while store.parent[path[-1]] >= 0:
            path.append(int(store.parent[path[-1]]))
        num_kinds = len(self._form.data.counts)
        starts: list[list[int]] = [[] for _ in range(num_kinds)]
        lanes: list[list[int]] = [[] for _ in range(num_kinds)]
        names = list(range(self._form.data.lanes))
        for parent, child in zip(path[::-1], path[-2::-1], strict=False):
            for code in store.action[child].tolist():
                if code >= 0:
                    lane, kind = divmod(code, num_kinds)
                    starts[kind].append(int(store.when[parent]))
                    lanes[kind].append(names[lane])
            names = [names[lane] for lane in store.order[child].tolist()]
        return starts, lanes


def _num_layers(form: SearchForm) -> int:
    total = int(form.data.counts @ form.data.output)
    return total + 1 + (form.data.last_arrival + 1 if form.is_latency else 0)


def _store(form: SearchForm, width: int, layers: int) -> Store:
    lanes = form.data.lanes
    slots = lanes * form.slots
    each = 8 * (HEAD + slots + 8 + 8) + 8 * (slots + lanes)
    room = int(min(_BYTES // each, 40 * width + 200_000, width * layers * 60 + 1000))
    table = 1 << (3 * room - 1).bit_length()

    def column(*shape: int) -> IntArray:
        return np.empty((room, *shape), dtype=np.int64)

    return Store(
        rows=column(HEAD + slots),
        cost=column(),
        reach=column(),
        when=column(),
        parent=column(),
        action=column(slots),
        order=column(lanes),
        after=column(),
        status=column(),
        head=np.full(layers + 1, -1, dtype=np.int64),
        table=np.full(table, -1, dtype=np.int64),
        spare=column(),
        counters=np.zeros(7, dtype=np.int64),
    )
