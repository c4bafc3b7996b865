"""The barrier-synchronised decode engine (BF-IO, section 6.2), as a loop of named phases.

`bfio.decode.machine.kernel.run_chunk` defines the order of the phases in a step, for compiled and
for interpreted runs.

A policy is called only if a request waits and a slot is free, because otherwise there is nothing
to decide. A policy that may pause active requests is called more often
(`bfio.decode.features.pausing`). If workers have token budgets, the batches determine which
requests run (`bfio.decode.features.batching`).
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from bfio.common.kernel_groups import Engine
from bfio.common.kernels import rewired
from bfio.common.plugins import policy_statistics
from bfio.decode.features.batching import Batching
from bfio.decode.features.pausing import (
    Rests,
    active_requests,
    check_at_least_one_runs,
    check_nobody_rests,
    checked_rests,
)
from bfio.decode.features.prefixes import Prefixes
from bfio.decode.features.registry import FEATURES
from bfio.decode.features.telemetry import receive, show_projection
from bfio.decode.features.ties import in_places, orders
from bfio.decode.machine.counters import ACTIVE, FINISHED, RESERVE, REVEALED, STEP, TAKEN, WAITING
from bfio.decode.machine.kernel import STALLED, run_chunk
from bfio.decode.machine.moves import first_waiting, start_queued
from bfio.decode.machine.outcome import finished_run, stalled, step_view
from bfio.decode.machine.phases import (
    admit,
    bind,
    close_gaps,
    free_slots,
    is_over,
    may_be_bound,
    open_in_flight,
    run_step,
)
from bfio.decode.machine.state import Chunks, Record, State, new_state
from bfio.decode.machine.window import (
    Window,
    bound_loads,
    new_window,
    note_predicted,
    project_contributions,
    project_loads,
    remaining_running,
    remaining_waiting,
)
from bfio.decode.options import Dispatch
from bfio.decode.policy import binds_together, checked_decision, margin_of, max_pauses_of
from bfio.decode.refresh import Refresh
from bfio.decode.state import ActiveRequests, DecodeState
from bfio.decode.tally import free_memory
from bfio.prediction import registry as predictors
from bfio.prediction.predictor import LengthSource
from formulations.arrays import IntArray, frozen
from formulations.errors import InputError
from formulations.named_objects import users_code

if TYPE_CHECKING:
    from bfio.decode.cluster import Cluster
    from bfio.decode.observers import Watching
    from bfio.decode.options import RunOptions
    from bfio.decode.policy import Policy
    from bfio.decode.run import Run
    from bfio.prediction.predictor import CheckedPredictor
    from bfio.workloads.workload import Workload

#: Largest G·B·(load of one request): every 64-bit sum within a step stays exact.
MAX_STEP_TOKENS = 2**62
#: Longest request [steps] that is accepted in a run without a limit of steps.
MAX_DRAIN_STEPS = 10**8


def with_margin(policy: Policy, options: RunOptions) -> RunOptions:
    """Return the options of a run, with the in-flight margin of ``policy`` if none is given."""
    if options.dispatch is Dispatch.IMMEDIATE and options.margin is None:
        return replace(options, margin=margin_of(policy))
    return options


class Interpreted:
    """An interpreted run of any policy, one step at a time; `simulate` documents the errors.

    The policy object is used for this run only, and sees ``look_ahead`` steps. The options must
    come from `with_margin`.
    """

    def __init__(
        self,
        workload: Workload,
        policy: Policy,
        name: str,
        look_ahead: int,
        cluster: Cluster,
        options: RunOptions,
        watching: Watching,
        history: Workload | None,
    ) -> None:
        self.began = perf_counter()
        lengths = predictors.lengths_of(options.predictor)
        predictor = predictors.made(options.predictor, workload, options.seed, history)
        self.options = replace(options, predictor=predictor.name)
        max_pauses, batches = max_pauses_of(policy), cluster.token_budget is not None
        rests = bool(max_pauses) or batches
        check_run(workload, cluster, self.options, look_ahead, pauses=rests)
        self.state = new_state(
            workload,
            cluster,
            self.options,
            look_ahead=look_ahead,
            known=lengths is LengthSource.KNOWN,
            pauses=rests,
        )
        self.policy, self.name, self.look_ahead = policy, name, look_ahead
        self.cluster = cluster
        self.rng = options.generator()
        self.predictor: CheckedPredictor | None = None
        self.refresh: Refresh | None = None
        self.predicted = np.zeros(0, dtype=np.int64)
        if lengths not in (LengthSource.UNKNOWN, LengthSource.KNOWN):
            self.predictor = predictor
            self.refresh = Refresh(predictor, len(workload), look_ahead) if look_ahead else None
        learners: tuple[Any, ...] = (self.predictor, policy)
        self.told = [each.finished for each in learners if hasattr(each, "finished")]
        self.window = new_window(cluster.workers, look_ahead, 0)
        self.prefixes = Prefixes(self.state, workload)
        self.token_time, self.overhead_tokens = cluster.paces()
        self.chunks = Chunks(self.state, watching.keep_trajectory)
        self.rests = None if max_pauses is None else Rests(len(workload), max_pauses)
        self.step_units = None if max_pauses is None else cluster.step_units()
        self.batching = Batching(self.state, cluster, self.options) if batches else None
        self.resting = np.zeros(0, dtype=np.int64)
        self.watching, self.is_stopped = watching, False
        observers = watching.observers
        self.askers = [each.on_ask for each in observers if hasattr(each, "on_ask")]
        self.decide_s = 0.0
        self.orders = orders(options.ties, cluster.workers, options.seed)
        self.seen: DecodeState | None = None
        self.decision: tuple[int | None, ...] | None = None

    @property
    def step(self) -> int:
        """The current step."""
        return int(self.state.counters[STEP])

    def run(self) -> Run:
        """Run in chunks of steps until the run ends or is stopped, and return its record."""
        run_on = rewired(
            run_chunk,
            is_over=self.is_over,
            report=self.report,
            decide=self.decide,
            run_step=self.run_step,
        )
        num_steps = min(256, self.chunks.most_steps)
        while not (is_over(self.state) or self.is_stopped):
            record = self.chunks.new(num_steps)
            rows = run_on(self.state, self.window, None, record)
            if rows == STALLED:
                raise stalled(self.name, self.state)
            self.chunks.keep(record, rows, self.state)
            num_steps = min(2 * num_steps, self.chunks.most_steps)
        return finished_run(
            policy=self.name,
            engine=Engine.REFERENCE,
            cluster=self.cluster,
            options=self.options,
            state=self.state,
            chunks=self.chunks,
            statistics=policy_statistics(self.policy, self.name),
            wall_s=perf_counter() - self.began,
            decide_s=self.decide_s,
            rests=self.rests,
            batching=self.batching,
        )

    def is_over(self, state: State) -> bool:
        """Return whether all requests are done or an observer has stopped the run."""
        if is_over(state):
            return True
        self.is_stopped = self.watching.is_stopped()
        return self.is_stopped

    def report(self, state: State, window: Window) -> None:
        """Update the predictions of requests that are due, and let workers report their loads."""
        if self.refresh is not None:
            self.refresh.begin_step(state)
        if state.reports.is_on:
            self.project_loads()
            receive(state, window)

    def decide(self, state: State, window: Window, memory: None) -> bool:
        """Call the policy, if there is anything to decide."""
        self.seen = self.decision = None
        if state.settings.immediate:
            if state.counters[WAITING] > 0:
                self.bind()
            start_queued(state)
        elif state.counters[WAITING] > 0 or self.rests is not None:
            self.choose()
        return True

    def run_step(self, state: State, record: Record, row: int) -> None:
        """Run a step, then notify learning predictors and observers."""
        if self.refresh is not None:
            self.refresh.admitted(state)
        if self.batching is not None:
            self.batching.run_step(state, record, row)
        elif self.rests is None or len(self.resting) == 0:
            run_step(state, record, row)
        else:
            check_at_least_one_runs(state, self.resting, self.name)
            self.rests.run_step(state, record, row, self.resting)
        if self.told and state.counters[FINISHED] > 0:
            finished = np.sort(state.lists.ended[: state.counters[FINISHED]])
            with users_code(f"policy {self.name}: finished", remedy="correct the policy"):
                for finish in self.told:
                    finish(finished, state.requests.output[finished])
        if self.watching.observers:
            view = step_view(state, record, row, self.seen, self.decision)
            for observer in self.watching.observers:
                observer.on_step(view)

    def bind(self) -> None:
        """Ask the policy to bind unbound requests to workers, while a worker accepts requests.

        Requests are presented one by one in order of arrival, or all together if the policy binds
        together.
        """
        state = self.state
        self.look()
        free, first = open_in_flight(state), first_waiting(state)
        if not free.any():
            return
        if binds_together(self.policy):
            waiting = state.pool[first : state.counters[REVEALED]]
            for i, worker in enumerate(self.ask(waiting, free)):
                if worker is not None:
                    bind(state, first + i, worker)
        else:
            for position in range(first, int(state.counters[REVEALED])):
                if not free.any():
                    break
                if may_be_bound(state, state.pool[position]):
                    (worker,) = self.ask(state.pool[position : position + 1], free)
                    if worker is None:
                        raise InputError(
                            f"policy {self.name}, step {self.step}, request 0",
                            "returned None in immediate dispatch",
                            "return a worker, or use pooled dispatch",
                        )
                    bind(state, position, worker)
                    free = open_in_flight(state) if state.settings.margin >= 0 else free
        close_gaps(state)
        self.seen = self.decision = None

    def choose(self) -> None:
        """Call the policy, start the chosen requests, and record which requests rest."""
        state = self.state
        self.resting = self.resting[:0]
        free = free_slots(state)
        may_start = state.counters[WAITING] > 0 and free.any()
        if not may_start and (self.rests is None or state.counters[ACTIVE] == 0):
            return
        first = first_waiting(state)
        waiting = state.pool[first : state.counters[REVEALED]]
        self.look()
        decision = list(self.ask(waiting, free))
        for i, worker in enumerate(decision):
            if worker is None or admit(state, first + i, worker):
                continue
            state.reports.refused[0] += 1
            decision[i] = None
            # A request that finds no memory keeps waiting. One sent to a full worker is an error.
            taken = state.workers.running[worker] + state.workers.queued[worker]
            if state.machine.slots[worker] <= taken:
                raise InputError(
                    f"policy {self.name}, step {self.step}, request {i}",
                    f"worker {worker} has no free slot left",
                    "respect state.free_slots",
                )
        self.decision = tuple(decision)
        if state.counters[TAKEN] > 0:
            close_gaps(state)

    def ask(self, requests: IntArray, free: IntArray) -> tuple[int | None, ...]:
        """Return the policy's answer about requests; the policy gets read-only copies of state."""
        state, told, step = self.state, self.state.reports, self.step
        sizes = state.requests.size[requests]
        contributions = self.contributions(requests, sizes)
        batching, pending = self.batching, np.zeros_like(free)
        if batching is not None:
            pending = batching.pending_prefill(state)
        self.seen = DecodeState(
            step=step,
            slots=int(state.machine.slots.max()),
            loads=frozen(told.load.copy()),
            projected_loads=frozen(self.window.base.copy()),
            free_slots=frozen(free.copy()),
            running=frozen(told.running.copy()),
            projected_running=frozen(self.window.running.copy()),
            queued=frozen(told.queued.copy()),
            queued_tokens=frozen(told.queued_tokens.copy()),
            sizes=frozen(sizes),
            ages=frozen(step - state.marks.reveal[requests]),
            contributions=frozen(contributions),
            rng=self.rng,
            room=frozen(free_memory(self.state)),
            needs=frozen(state.requests.need[requests]),
            reserves=state.settings.overflow == RESERVE,
            token_time=self.token_time,
            overhead_tokens=self.overhead_tokens,
            prefixes=self.prefixes.of(requests.copy()),
            binds=bool(state.settings.immediate),
            bound_loads=frozen(bound_loads(state, self.window)) if told.queued.any() else None,
            # Delayed or lost reports describe workers, not single requests.
            endings=None if told.is_on else self.remaining,
            holdings=None if told.is_on else self.active,
            step_units=self.step_units,
            pending_prefill=frozen(pending),
        )
        order = None if self.orders is None else next(self.orders)
        shown = self.seen if order is None else in_places(self.seen, order)
        began = perf_counter()
        with users_code(f"policy {self.name}, step {step}", remedy="correct the policy"):
            answer = self.policy(shown)
        self.decide_s += perf_counter() - began
        self.decision = checked_decision(answer, len(requests), len(free), self.name, step)
        if order is not None:
            self.decision = tuple(None if g is None else int(order[g]) for g in self.decision)
        for tell in self.askers:
            tell(self.decision)
        if self.rests is None:
            check_nobody_rests(answer, self.name, step)
        else:
            most = self.rests.max_pauses or 0
            self.resting = checked_rests(answer, self.active(), most, self.name, step)
        return self.decision

    def active(self) -> ActiveRequests:
        """Return the requests that have a slot, see `DecodeState.active`."""
        rests = self.rests if self.batching is None else self.batching.rests
        return active_requests(self.state, rests)

    def remaining(self) -> IntArray:
        """Return the remaining steps of the running requests, see `DecodeState.remaining`."""
        active = self.state.lists.running[: self.state.counters[ACTIVE]]
        left = remaining_running(self.state, active) if self.refresh is None else self.predicted
        return frozen(np.minimum(left, self.look_ahead + 1)[np.argsort(active)])

    def look(self) -> None:
        """Write the projected loads that the policy may see into the look-ahead window."""
        if self.state.reports.is_on:
            show_projection(self.state, self.window)
        else:
            self.project_loads()

    def project_loads(self) -> None:
        """Write the true projected loads from this step on into the look-ahead window."""
        state = self.state
        active = state.lists.running[: state.counters[ACTIVE]]
        remaining = active
        if self.refresh is not None:
            remaining = self.predicted = self.refresh.remaining(state)
            note_predicted(state, remaining)
        elif self.look_ahead > 0 and state.settings.by_age:
            remaining = remaining_running(state, active)
        project_loads(state, self.window, remaining)

    def contributions(self, requests: IntArray, sizes: IntArray) -> IntArray:
        """Return the projected loads of waiting requests, shape (N, H+1) [tokens]."""
        if self.look_ahead == 0:
            return sizes[:, None].copy()
        loads = np.empty((len(requests), self.look_ahead + 1), dtype=np.int64)
        remaining = remaining_waiting(self.state, requests)
        if self.predictor is not None and self.state.settings.waiting_ends:
            ages = self.state.requests.emitted[requests]
            remaining = self.predictor.remaining(requests, ages, self.look_ahead)
        project_contributions(
            self.state, self.window._replace(contribution=loads), requests, remaining
        )
        return loads


def check_run(
    workload: Workload,
    cluster: Cluster,
    options: RunOptions,
    look_ahead: int,
    pauses: bool = False,
) -> int:
    """Check the sizes of a run; return the largest possible sum of the loads of a step [tokens].

    Raises InputError if this sum exceeds `MAX_STEP_TOKENS`, if a run without a limit of steps has
    a request of more than `MAX_DRAIN_STEPS` tokens, or if a feature rejects the run. ``pauses`` is
    true if requests may rest, so that they grow at other steps.
    """
    longest = int(workload.output_tokens.max(initial=0))
    if options.steps is None and longest > MAX_DRAIN_STEPS:
        raise InputError(
            "workload", f"one request takes {longest} steps to drain", "limit the run by steps=N"
        )
    heaviest = int(workload.prompt_tokens.max(initial=0)) + options.drift.largest_gain(longest)
    together = min(cluster.total_slots, cluster.workers * len(workload)) * heaviest
    if together > MAX_STEP_TOKENS:
        what = f"{cluster.total_slots} slots of up to {heaviest} tokens overflow 64-bit sums"
        raise InputError("workload", what, "use shorter requests or fewer slots")
    for feature in FEATURES:
        feature.check(workload, cluster, options, look_ahead, pauses)
    return together
