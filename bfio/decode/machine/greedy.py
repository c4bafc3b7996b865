"""Kernels of policies that assign requests one by one: a serving order, and a choice of worker.

The known load of the chosen worker is updated before the next request is assigned, as in
`bfio.decode.tally`.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from bfio.common.array_kernels import pop_least, sink, sum_of
from bfio.common.compilable import compilable
from bfio.decode.cluster import Cluster
from bfio.decode.machine.counters import ACTIVE, QUEUED, REVEALED, SLOTS, SWAPPED, TAKEN, WAITING
from bfio.decode.machine.kernel import Kernel, KernelTask
from bfio.decode.machine.moves import first_waiting, start_queued
from bfio.decode.machine.phases import (
    admit,
    bind,
    close_gaps,
    free_slots,
    may_be_bound,
    most_bound,
)
from bfio.decode.machine.state import State
from bfio.decode.machine.window import Window
from bfio.decode.options import Dispatch
from bfio.decode.policy import binds_together
from bfio.decode.tally import Key, ServingOrder, takes, worker_tally
from formulations.arrays import IntArray


class Greedy(NamedTuple):
    """The memory of the kernel of a greedy policy."""

    rule: int  #: Index of its choice among the choices compiled together.
    order: int  #: A `ServingOrder`.
    #: Its parameters and its state; the module of the policy names the entries.
    numbers: IntArray
    #: Shape (n,) or (0,): heap of the waiting requests, for policies that order them by size.
    keys: IntArray
    places: IntArray
    #: Shape (2, G): workers open to a random choice, and whether each is in the sample.
    sampled: IntArray
    table: IntArray  #: Lookup table prepared before the run.
    rng: np.random.Generator  #: Random generator of the run.


#: ``choose(state, greedy, request)``: worker of the next request, or -1 to stop.
Choose = Callable[[State, Greedy, int], int]


@cache
def least_by(key: Key) -> Choose:
    """Return a function that chooses the accepting worker of least key for a request.

    Policies with the same key share it, so that it is compiled once.
    """

    @compilable
    def choose(state: State, greedy: Greedy, request: int) -> int:
        best, least = -1, 0
        for g in range(len(state.workers.load)):
            worker = worker_tally(state, g)
            if takes(worker, state.requests.need[request]):
                found = key(worker)
                if best < 0 or found < least:
                    best, least = g, found
        return best

    choose.__module__ = key.__module__
    return choose


def greedy_kernel(
    choose: Choose,
    order: ServingOrder = ServingOrder.OLDEST,
    numbers: Callable[[Any], Sequence[int]] = lambda options: (),
    supports: Callable[[Cluster], bool] = lambda cluster: True,
    table: Callable[[KernelTask], IntArray] = lambda task: np.zeros(0, dtype=np.int64),
) -> Kernel:
    """Return the kernel of a policy that assigns requests one by one.

    ``numbers`` computes `Greedy.numbers` from the policy's options, and ``table`` computes
    `Greedy.table` from the task. ``supports`` returns whether the choice is exact on a machine.
    """

    def memory(task: KernelTask) -> Greedy | None:
        if not supports(task.cluster) or (
            task.options.dispatch is Dispatch.IMMEDIATE and binds_together(task.policy)
        ):
            return None
        sorted_requests = 0 if order is ServingOrder.OLDEST else len(task.workload)
        keys, places = np.empty((2, sorted_requests), dtype=np.int64)
        return Greedy(
            rule=task.rule,
            order=int(order),
            numbers=np.array(numbers(task.policy_options), dtype=np.int64),
            keys=keys,
            places=places,
            sampled=np.zeros((2, task.cluster.workers), dtype=np.int64),
            table=table(task),
            rng=task.options.generator(),
        )

    return Kernel(memory, choose)


@compilable
def list_open(state: State, greedy: Greedy, request: int) -> int:
    """Write the workers that accept a request to ``greedy.sampled[0]``; return their number."""
    num_open = 0
    for g in range(len(state.workers.load)):
        if takes(worker_tally(state, g), state.requests.need[request]):
            greedy.sampled[0, num_open] = g
            num_open += 1
    return num_open


def one_of(chooses: Sequence[Choose]) -> Choose:
    """Return a choice function that calls the one of ``chooses`` selected by ``greedy.rule``.

    Its source is generated as a flat list of calls, because nested functions take long to compile.
    """
    if len(chooses) == 1:
        return chooses[0]
    lines = [
        f"    if greedy.rule == {rule}: return choose_{rule}(state, greedy, request)"
        for rule in range(len(chooses))
    ]
    text = "\n".join(["def choose(state, greedy, request):", *lines, "    return -1"])
    names: dict[str, Any] = {f"choose_{rule}": choose for rule, choose in enumerate(chooses)}
    exec(text, names)
    choose: Choose = compilable(names["choose"])
    return choose


def serving(choose: Choose) -> Callable[[State, Window, Greedy], bool]:
    """Return the decision function of a greedy policy: it admits or binds waiting requests."""

    @compilable(allocates=True)
    def serve(state: State, window: Window, greedy: Greedy) -> bool:
        counters = state.counters
        if state.settings.immediate:
            most = most_bound(state)
            for position in range(first_waiting(state), counters[REVEALED]):
                if counters[TAKEN] == most:
                    break
                request = state.pool[position]
                if may_be_bound(state, request):
                    bind(state, position, choose(state, greedy, request))
            close_gaps(state)
            start_queued(state)
            return True
        num_free = counters[SLOTS] - counters[ACTIVE]
        if counters[SWAPPED] > 0 or counters[QUEUED] > 0:
            num_free = sum_of(free_slots(state))
        num_admissible = min(counters[WAITING], num_free)
        num_keys = order_by_size(state, greedy, num_admissible)
        first = first_waiting(state)
        for served in range(num_admissible):
            position = first + served
            if greedy.order != ServingOrder.OLDEST:
                position = pop_least(greedy.keys, greedy.places, num_keys)
                num_keys -= 1
            worker = choose(state, greedy, state.pool[position])
            if worker < 0:
                break
            admit(state, position, worker)
        if counters[TAKEN] > 0:
            close_gaps(state)
        return True

    return serve


@compilable
def order_by_size(state: State, greedy: Greedy, num_admissible: int) -> int:
    """Build a heap of the waiting requests, by size, then age; return their number."""
    if greedy.order == ServingOrder.OLDEST or num_admissible == 0:
        return 0
    num_keys = int(state.counters[WAITING])
    if greedy.order == ServingOrder.LARGEST_OF_OLDEST:
        num_keys = num_admissible
    first = first_waiting(state)
    sign = 1 if greedy.order == ServingOrder.SMALLEST else -1
    for k in range(num_keys):
        greedy.keys[k] = sign * state.requests.size[state.pool[first + k]]
        greedy.places[k] = first + k
    for k in range(num_keys // 2 - 1, -1, -1):
        sink(greedy.keys, greedy.places, k, num_keys)
    return num_keys
