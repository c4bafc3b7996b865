"""Simulate an algorithm on an instance; `serve` is the public entry point.

The reference engine calls any policy between the phases of the machine. Built-in policies also run
in machine code. There the running requests are sorted by their ends, so the tokens left in the
cache at each completion are a running sum from the right. Testing a candidate takes one pass,
O(M), and a round with O(M) candidates O(M²), as the paper claims.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.common.kernel_groups import Engine, ensure_compiled, takes_compiled
from bfio.common.kernels import entry_point, rewired
from bfio.common.plugins import call_check, checked_choice, policy_statistics
from bfio.kvcache.instance import CacheInstance
from bfio.kvcache.machine import (
    BATCH,
    CHANGES,
    CLOCK,
    LEAST_NEED,
    RUNNING,
    USED,
    WAITING,
    MachineState,
    RunningRows,
    admit,
    close_gaps,
    finished_run,
    new_record,
    new_state,
    order_of,
    run_batches,
    settings_of,
    waiting_at,
)
from bfio.kvcache.policy import (
    Admission,
    BetaClearing,
    CachePolicy,
    CacheState,
    LookAhead,
    Order,
    Protection,
    Scan,
    Waiting,
    build,
    delta_of,
)
from bfio.kvcache.run import CacheLimits, CacheRun
from formulations.arrays import IntArray, frozen, integer, integer_vector
from formulations.errors import InputError, check_kind
from formulations.hindsight_latency import LatencyProblem
from formulations.named_objects import users_code


class _Decisions:
    """Calls a policy with the states it may read, and starts its requests."""

    def __init__(
        self, order: IntArray, policy: CachePolicy, name: str, rng: np.random.Generator
    ) -> None:
        self.order, self.policy, self.name, self.rng = order, policy, name, rng
        self.seen: tuple[int, Waiting] | None = None

    def start_requests(self, state: MachineState) -> None:
        """Start the requests that the policy chooses.

        Raises
        ------
        InputError
            If the policy raises, or its answer is not valid positions or exceeds the memory.
        """
        counters = state.counters
        num_waiting = int(counters[WAITING])
        if num_waiting == 0:
            return
        where = f"policy {self.name}, clock {int(counters[CLOCK])}"
        with users_code(where, remedy="correct the policy"):
            answer = self.policy(self.shown(state))
        positions = checked_choice(answer, range(num_waiting), where, "position")
        if not positions:
            return
        needed = counters[USED] + state.requests.need[state.queue[positions]].sum()
        if needed > state.settings.memory:
            excess = needed - state.settings.memory
            what = f"the batch would exceed the memory by {excess} tokens"
            raise InputError(where, what, "start fewer requests")
        for position in positions:
            admit(state, position)
        close_gaps(state)

    def shown(self, state: MachineState) -> CacheState:
        """Return the state with read-only copies, so that a policy cannot modify the run."""
        counters = state.counters
        numbers = state.running.request[: counters[RUNNING]]
        by_arrival = np.argsort(numbers)
        return CacheState(
            clock=int(counters[CLOCK]),
            memory=state.settings.memory,
            waiting=self.waiting(state),
            running=frozen(self.order[numbers[by_arrival]]),
            need=frozen(state.running.level[by_arrival] + counters[BATCH]),
            batches_left=frozen(state.running.end[by_arrival] - counters[BATCH]),
            rng=self.rng,
        )

    def waiting(self, state: MachineState) -> Waiting:
        """Return the waiting requests in order of arrival; the same object until they change."""
        changes = int(state.counters[CHANGES])
        if self.seen is None or self.seen[0] != changes:
            numbers, requests = state.queue[: state.counters[WAITING]], state.requests
            rows = (self.order, requests.arrival, requests.need, requests.believed)
            self.seen = changes, Waiting(*(frozen(row[numbers]) for row in rows))
        return self.seen[1]


#: Time that the compiled engine saves per batch of a request [s].
_SAVED_S = 1.5e-5
#: Policies that the kernel supports.
_COMPILED = (LookAhead, Protection, BetaClearing)
#: The kernel's sort keys are length · n + number and must fit into 64 bits.
_MAX_KEY = 2**62


def serve(
    instance: CacheInstance | LatencyProblem,
    algorithm: str | CachePolicy,
    *,
    predicted: IntArray | None = None,
    seed: int = 0,
    engine: Engine | str = Engine.AUTO,
    limits: CacheLimits | None = None,
) -> CacheRun:
    """Serve all requests on one worker and return the run.

    Parameters
    ----------
    instance : CacheInstance or LatencyProblem
        Instance to serve; a problem runs in unit rounds.
    algorithm : str or CachePolicy
        A name such as ``"mc-sf"``, ``"beta-clearing:alpha=0.2:beta=0.1"`` or ``module:function``,
        or a policy made for this run.
    predicted : IntArray, optional
        Shape (n,), predicted outputs [tokens], >= 1; exact lengths by default. A prediction that a
        request exceeds is extended, also for later starts of it.
    seed : int
        Seed of all random draws.
    engine : Engine
        Engine to use.
    limits : CacheLimits, optional
        Limits of the run.

    Raises
    ------
    InputError
        If a value is invalid, the policy returns an invalid answer, or it cannot be compiled as
        requested.
    """
    if isinstance(instance, LatencyProblem):
        instance = CacheInstance.in_rounds(instance)
    check_kind(instance, CacheInstance, "instance", "CacheInstance(...)")
    if limits is not None:
        check_kind(limits, CacheLimits, "limits", "CacheLimits(...)")
    policy = build(algorithm) if isinstance(algorithm, str) else algorithm
    own_name = str(getattr(policy, "__name__", type(policy).__name__))
    name = algorithm if isinstance(algorithm, str) else own_name
    call_check(policy, name, instance)
    believed = believed_batches(instance, predicted, delta_of(policy))
    rng = np.random.default_rng(integer(seed, "seed"))
    able, saved_s = _is_compiled(policy, instance), int(instance.num_batches.sum()) * _SAVED_S
    compiled = takes_compiled(engine, able=able, kernels="kv-cache", saved_s=saved_s)
    limits = limits or CacheLimits()
    shortest_first = compiled and getattr(policy, "order", None) is Order.SHORTEST
    settings = settings_of(instance, policy, limits, shortest_first=shortest_first)
    state = new_state(instance, believed, settings, interpreted=not compiled)
    if compiled:
        ensure_compiled("kv-cache")
        assert isinstance(policy, LookAhead | Protection)
        rule = start_rule(policy, instance.memory)
        ended, record = compiled_batches(state, new_record(), rule, rng)
    else:
        decisions = _Decisions(order_of(instance), policy, name, rng)
        ended, record = run_batches(state, new_record(), decisions.start_requests, rng)
    return finished_run(
        instance,
        name,
        state,
        record,
        ended,
        engine=Engine.COMPILED if compiled else Engine.REFERENCE,
        statistics=policy_statistics(policy, name),
    )


def believed_batches(instance: CacheInstance, predicted: IntArray | None, delta: int) -> IntArray:
    """Return the number of batches that the policy assumes for each request.

    ``ô + δ``, limited by the memory, since every request fits alone. Exact lengths need no margin.
    """
    if predicted is None:
        return instance.num_batches
    hoped = integer_vector(predicted, "predicted", minimum=1, maximum=10**9)
    if len(hoped) != len(instance):
        what = f"{len(hoped)} predictions for {len(instance)} requests"
        raise InputError("predicted", what, "give one per request")
    fitting = instance.memory + 1 - instance.first_need
    return frozen(np.minimum(instance.batches(hoped + delta), fitting))


def _is_compiled(policy: CachePolicy, instance: CacheInstance) -> bool:
    """Return whether the kernel supports this policy (no subclasses) and its sort keys."""
    longest = int(instance.num_batches.max(initial=1)) + instance.memory
    return type(policy) in _COMPILED and longest * len(instance) < _MAX_KEY


class StartRule(NamedTuple):
    """Parameters of `LookAhead` (``limit`` < 0) or `Protection` (``limit`` in tokens).

    `Protection` tests the limit for each request, or once per batch if ``once_per_batch``.
    ``cap`` is its maximum number of requests in a batch, 0 for no limit. With
    ``keeps_scanning``, `LookAhead` also tries the requests after one that does not fit.
    """

    limit: int
    once_per_batch: bool
    cap: int
    keeps_scanning: bool


def start_rule(policy: LookAhead | Protection, memory: int) -> StartRule:
    """Return the parameters of a built-in policy."""
    if isinstance(policy, LookAhead):
        return StartRule(-1, False, 0, policy.scan is Scan.CONTINUE)
    once = policy.admission is Admission.BATCH
    return StartRule(policy.limit(memory), once, policy.cap, False)


@compilable
def start_requests(state: MachineState, rule: StartRule) -> None:
    """Start waiting requests in the order of the queue, by the rule."""
    counters, memory = state.counters, state.settings.memory
    looks_ahead = rule.limit < 0
    if looks_ahead and counters[USED] + counters[LEAST_NEED] > memory:
        return
    limit = rule.limit
    if not looks_ahead and rule.once_per_batch:
        limit = memory if counters[USED] <= limit else 0
    running, least = counters[RUNNING], memory
    for position in range(counters[WAITING]):
        request = waiting_at(state, position)
        if looks_ahead:
            starts = stays_within(state, request)
        else:
            starts = is_let_in(state, request, limit, rule.cap)
        if starts:
            admit(state, position)
            continue
        least = min(least, state.requests.need[request])
        if not rule.keeps_scanning:
            least = 0
            break
    if counters[RUNNING] > running:
        close_gaps(state)
    counters[LEAST_NEED] = least


@compilable
def is_let_in(state: MachineState, request: int, limit: int, cap: int) -> bool:
    """Return whether protection allows a request to start."""
    used, running = state.counters[USED], state.counters[RUNNING]
    has_room = used == 0 or used + state.requests.need[request] <= limit
    return bool(has_room and (cap == 0 or running < cap))


@compilable
def stays_within(state: MachineState, request: int) -> bool:
    """Return whether Equation (1) stays true at all future times if a request starts."""
    counters, memory = state.counters, state.settings.memory
    need, length = state.requests.need[request], state.requests.believed[request]
    if counters[USED] + need > memory:
        return False
    return fits(state.running, counters[RUNNING], counters[BATCH], need, length, memory)


@compilable
def fits(running: RunningRows, num: int, batch: int, need: int, length: int, memory: int) -> bool:
    """Return whether Equation (1) holds with one more request; the last completion first."""
    own_last = batch + length - 1
    level, count, own_open = 0, 0, True
    for j in range(num - 1, -1, -1):
        last = running.end[j] - 1
        if own_open and last < own_last:
            own_open = False
            if level + count * own_last + need + length - 1 > memory:
                return False
        level += running.level[j]
        count += 1
        if last <= own_last and level + count * last + need + last - batch > memory:
            return False
    return not own_open or bool(level + count * own_last + need + length - 1 <= memory)


#: `run_batches` with the built-in policies, as machine code.
compiled_batches = entry_point(rewired(run_batches, decide=start_requests))


def compile_kernel() -> None:
    """Compile the kernel, or load it from the cache on disk, so that runs can be timed."""
    one = np.ones(1, dtype=np.int64)
    serve(CacheInstance(2, one, one, one), LookAhead(), engine=Engine.COMPILED)
