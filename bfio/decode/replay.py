"""An independent check of a run: replay the record of each request and compare.

The check does not use the engine. It recomputes loads, counts and durations from the times and
workers of each request, and tests each rule of the model separately. This module defines the rules
of the basic machine; the rules of a feature are in the feature's module.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bfio.common.checking import number
from bfio.common.metrics import exact_sum
from bfio.decode.cluster import Cluster
from bfio.decode.drift import Drift
from bfio.decode.features.batching import chunks_of, on_workers
from bfio.decode.features.cancellations import Cancellations, cancellations_of
from bfio.decode.features.failures import failures_of
from bfio.decode.features.feature import ROUNDING, RuleTable, count, profile, running_total
from bfio.decode.features.registry import FEATURES
from bfio.decode.features.stragglers import stragglers_of
from bfio.decode.options import NO_EVENTS, ArrivalMode, Dispatch
from bfio.decode.run import Run
from bfio.decode.stints import Cause, Stints, cancelled_while_waiting, stints, stints_of
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray


def total_work(drift: Drift, prompt: int, start: int, output: int) -> int:
    """Return the exact work ``Σ_j w(j)`` of one request, the sum of its loads [tokens]."""
    if drift.increments == (1,):
        return output * prompt + output * (output - 1) // 2
    return exact_sum(profile(drift, prompt, start, output))


@dataclass(frozen=True)
class Replay:
    """The record of a run, with the quantities that a replay computes from it."""

    run: Run  #: The record to check.
    workload: Workload  #: The requests of the run.
    cluster: Cluster  #: The machine of the run.

    @cached_property
    def started(self) -> IntArray:
        """Indices of the requests that started."""
        return np.flatnonzero(self.run.start_step >= 0)

    @cached_property
    def steps_run(self) -> IntArray:
        """Number of steps that each started request has run, finished or not."""
        steps = np.zeros(self.run.num_requests, dtype=np.int64)
        stints = self.stints
        np.add.at(steps, stints.request, stints.end - stints.start - stints.rested)
        return steps[self.started]

    @cached_property
    def stints(self) -> Stints:
        """The stints of each request: the intervals in which it had a slot, with their workers."""
        return stints(self.run)

    @cached_property
    def trajectory(self) -> tuple[IntArray, IntArray]:
        """Loads and numbers of running requests, each (K, G), computed from request records."""
        return self._trajectories[0]

    @cached_property
    def held(self) -> tuple[IntArray, IntArray]:
        """Loads and numbers of requests on workers, running or resting, each of shape (K, G)."""
        return self._trajectories[1]

    @cached_property
    def _trajectories(self) -> tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray]]:
        if self.run.rests is None and len(self.run.options.drift.increments) == 1:
            held = self._equal_growth(self.run.options.drift.increments[0])
            return held, held
        shape = (self.cluster.workers, self.run.steps)
        loads, count = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for _, worker, start, end, profile_ in self.walk():
            loads[worker, start:end] += profile_
            count[worker, start:end] += 1
        if self.run.rests is None:
            return (loads.T, count.T), (loads.T, count.T)
        running, runs = loads.copy(), count.copy()
        of_rests = zip(self.walk(), self.rests_of_stints, strict=True)
        for (_, worker, start, _, profile_), rests in of_rests:
            for first, end in rests:
                running[worker, first:end] -= profile_[first - start : end - start]
                runs[worker, first:end] -= 1
        if self.batches:
            chunks = chunks_of(self.run)
            # A chunk reads the part of its prompt computed before it.
            running += on_workers(self.run, self.cluster, chunks, chunks.before).T
        return (running.T, runs.T), (loads.T, count.T)

    def _equal_growth(self, gain: int) -> tuple[IntArray, IntArray]:
        """Return loads and numbers of running requests if each gains ``gain`` tokens per step.

        A request with load p at step s has load p - gain·s + gain·k at step k. So the sum of ``p -
        gain·s`` over running requests, and the number of running requests, change only at starts
        and ends.
        """
        stints, shape = self.stints, (self.run.steps + 1, self.cluster.workers)
        emitted = stints.emitted - (stints.end - stints.start)
        base = self.workload.prompt_tokens[stints.request] + gain * (emitted - stints.start)
        fixed, count = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for step, sign in ((stints.start, 1), (stints.end, -1)):
            np.add.at(fixed, (step, stints.worker), sign * base)
            np.add.at(count, (step, stints.worker), sign)
        fixed, count = fixed.cumsum(axis=0)[:-1], count.cumsum(axis=0)[:-1]
        return fixed + gain * np.arange(self.run.steps)[:, None] * count, count

    @property
    def batches(self) -> bool:
        """Whether workers have token budgets."""
        return self.cluster.token_budget is not None

    @cached_property
    def tokens(self) -> IntArray:
        """Tokens that each worker computes in a step, output or prompt, shape (K, G)."""
        running = self.trajectory[1]
        if not self.batches:
            return running
        chunks = chunks_of(self.run)
        return running + on_workers(self.run, self.cluster, chunks, chunks.tokens)

    @cached_property
    def rests_of_stints(self) -> list[list[tuple[int, int]]]:
        """First step and end step of each rest, by stint, in order of time."""
        stints, rests = self.stints, self.run.rests
        found: list[list[tuple[int, int]]] = [[] for _ in stints.request]
        if rests is not None and found:
            which = stints_of(rests, stints.request, stints.start, self.run.steps)
            for stint, first, end in zip(which.tolist(), *rests.T[1:].tolist(), strict=True):
                found[stint].append((first, end))
        return found

    def walk(self) -> Iterator[tuple[int, int, int, int, IntArray]]:
        """Yield request, worker, first step, end step and loads of each stint, in order."""
        drift, before = self.run.options.drift, -1
        load = emitted = 0
        columns = (*(column.tolist() for column in self.stints), self.rests_of_stints)
        for request, worker, start, end, _, rested, rests in zip(*columns, strict=True):
            if request != before:
                before, load, emitted = request, int(self.workload.prompt_tokens[request]), 0
            steps = end - start
            # One step beyond the stint gives the load with which the next stint would begin.
            loads = profile(drift, load, start, steps + 1, emitted, rests)
            yield request, worker, start, end, loads[:steps]
            load, emitted = int(loads[-1]), emitted + steps - rested

    @cached_property
    def revealed(self) -> IntArray:
        """Indices of the requests that were revealed."""
        return np.flatnonzero(self.run.reveal_step >= 0)

    @cached_property
    def waiting_before(self) -> IntArray:
        """Number of requests waiting at each step before admission, shape (K,)."""
        starts, steps = self.admissions, self.run.steps
        waits = running_total(self.run.reveal_step, steps) + running_total(self.returns, steps)
        gone = self.run.cancel_step[cancelled_while_waiting(self.run, self.stints)]
        waits -= running_total(gone, steps)
        if self.run.expiries is not None:
            _, ready, lost = self.run.expiries.T
            waits += running_total(ready, steps) - running_total(lost, steps)
        return waits - (running_total(starts, steps) - count(starts, steps))

    @cached_property
    def outages(self) -> list[tuple[int, int, bool]]:
        """First step after each failure or recovery, the worker, and whether it is a recovery."""
        run = self.run
        schedule = failures_of(run.options.failures, self.cluster.workers, run.options.seed)
        first = np.searchsorted(run.start_s, schedule.time_s)
        # After its last step a run may still note that a worker has failed, once. A drawn
        # schedule goes on long after that.
        late = np.flatnonzero((first == run.steps) & (schedule.is_up == 0))
        late = late[np.unique(schedule.worker[late], return_index=True)[1]]
        seen = np.concatenate([np.flatnonzero(first < run.steps), np.sort(late)])
        columns = (first[seen], schedule.worker[seen], schedule.is_up[seen].astype(np.bool_))
        return list(zip(*(column.tolist() for column in columns), strict=True))

    @cached_property
    def cancellations(self) -> Cancellations:
        """The cancellations of the run."""
        run = self.run
        arrival_s = np.zeros(run.num_requests) if run.arrival_s is None else run.arrival_s
        return cancellations_of(run.options.cancellations, arrival_s, run.options.seed)

    @cached_property
    def returns(self) -> IntArray:
        """Steps at which an interrupted request waits again, one entry per event."""
        return self.stints.end[self.stints.waits_again]

    @cached_property
    def admissions(self) -> IntArray:
        """Steps at which waiting requests start, one per start; without returns from swap."""
        return self.stints.start[self.stints.was_waiting]


#: Rules on arrival, start and end of requests, and on loads, counts and times of steps.
RULES = RuleTable()


@RULES.rule("output-length")
def _output_length(replay: Replay) -> int:
    """Check that a completed request ran exactly o_i steps, and an unfinished request fewer."""
    outputs = replay.workload.output_tokens[replay.started]
    done = replay.run.finish_step[replay.started] >= 0
    wrong = np.where(done, replay.steps_run != outputs, replay.steps_run >= outputs)
    unstarted = (replay.run.start_step < 0) & (replay.run.finish_step >= 0)
    emitted = np.zeros(len(replay.workload), dtype=np.int64)
    emitted[replay.started] = replay.steps_run
    miscounted = emitted != replay.run.emitted_tokens
    return number(wrong) + number(unstarted) + number(miscounted)


@RULES.rule("start-before-reveal")
def _start_before_reveal(replay: Replay) -> int:
    """Check that no request starts before its release."""
    reveal = replay.run.reveal_step[replay.started]
    return number((reveal < 0) | (replay.run.start_step[replay.started] < reveal))


@RULES.rule("reveal-order")
def _reveal_order(replay: Replay) -> int:
    """Check that requests are released in trace order, unless prefill changes it."""
    step = replay.run.reveal_step
    if replay.run.options.prefill is not None:
        return 0
    order = np.where(step < 0, replay.run.steps, step)
    return number(np.diff(order) < 0)


@RULES.rule("reveal-target")
def _reveal_target(replay: Replay) -> int:
    """Check that a pool is filled to R requests; fewer only when the trace has ended."""
    run = replay.run
    if run.options.arrivals is not ArrivalMode.POOL:
        return 0
    undiscovered = len(replay.workload) - running_total(run.reveal_step, run.steps)
    waiting, target = replay.waiting_before, run.options.pool
    revealed = count(run.reveal_step, run.steps) > 0
    # Interrupted requests may wait in addition to a full pool; then it reveals no request.
    overfull = (waiting > target) & (revealed | (len(replay.returns) == 0))
    return number(overfull | ((waiting < target) & (undiscovered > 0)))


@RULES.rule("reveal-time")
def _reveal_time(replay: Replay) -> int:
    """Check that requests are released at their step; if timed, at the first after arrival."""
    run, ids = replay.run, replay.revealed
    begin = run.start_s[run.reveal_step[ids]]
    if run.arrival_s is None:
        # Requests may be revealed and then wait for a worker that is down.
        idle = run.idle_before_s[run.reveal_step[ids]]
        early = run.reveal_s[ids] < begin - idle * (1 + ROUNDING) - (idle > 0) * begin * ROUNDING
        return number((run.reveal_s[ids] > begin) | early)
    has_come = run.arrival_s if run.ready_s is None else run.ready_s
    arrival, reveal = has_come[ids], run.reveal_s[ids]
    idle_from = begin - run.idle_before_s[run.reveal_step[ids]] * (1 + ROUNDING)
    wrong = (reveal < arrival) | (reveal > begin) | (reveal < idle_from - begin * ROUNDING)
    # A request revealed at step k > 0 had not arrived when step k-1 started.
    late = np.flatnonzero(run.reveal_step[ids] > 0)
    before = run.start_s[run.reveal_step[ids][late] - 1]
    # With prefill, a pool place freed in that step may make it ready just after its reveal.
    wrong[late] |= (arrival[late] < before) | ((arrival[late] == before) & (run.ready_s is None))
    # Requests still in prefill are checked by another rule.
    hidden = run.arrival_s[run.reveal_step < 0] if run.ready_s is None else np.zeros(0)
    overdue = hidden <= run.start_s[-1] if run.steps else np.zeros(len(hidden), dtype=np.bool_)
    return number(wrong) + number(overdue)


@RULES.rule("capacity")
def _capacity(replay: Replay) -> int:
    """Check that no worker has more requests, running or paused, than slots."""
    return number(replay.held[1] > replay.cluster.worker_slots())


@RULES.rule("stints")
def _stints(replay: Replay) -> int:
    """Check that the stints of a request follow each other, from its first start to its last."""
    run, (request, worker, start, end, cause, _) = replay.run, replay.stints
    same = request[1:] == request[:-1]
    wrong = number(same & (start[1:] < end[:-1]))
    wrong += number(same & np.isin(cause[:-1], (-1, Cause.CANCELLATION)))
    # A request that was swapped out returns to the same worker.
    wrong += number(same & (cause[:-1] == Cause.SWAP) & (worker[1:] != worker[:-1]))
    firsts = np.flatnonzero(np.concatenate(([True], ~same))[: len(request)])
    wrong += number(run.start_step[request[firsts]] != start[firsts])
    never = np.ones(run.num_requests, dtype=np.bool_)
    never[request] = False
    return wrong + number(never & (run.start_step >= 0))


@RULES.rule("queue-order")
def _queue_order(replay: Replay) -> int:
    """Check that with immediate dispatch each worker starts its queued requests in order."""
    run = replay.run
    if run.options.dispatch is not Dispatch.IMMEDIATE:
        return 0
    # A request cancelled before its start has left the queue.
    bound = np.flatnonzero((run.worker >= 0) & ((run.start_step >= 0) | (run.cancel_step < 0)))
    if len(run.interruptions):
        # Interrupted requests go first; the rule "stints" checks them.
        bound = np.setdiff1d(bound, run.interruptions[:, 0])
    order = bound[np.lexsort((bound, run.bound_step[bound], run.worker[bound]))]
    start = np.where(run.start_step[order] < 0, run.steps, run.start_step[order])
    same = run.worker[order][1:] == run.worker[order][:-1]
    return number(same & (np.diff(start) < 0))


@RULES.rule("in-flight")
def _in_flight(replay: Replay) -> int:
    """Check that no worker is sent more requests than its slots plus the in-flight margin."""
    run = replay.run
    is_pooled = run.options.dispatch is Dispatch.POOLED
    margin = 0 if is_pooled else run.options.margin
    if margin is None:
        return 0
    sent = np.flatnonzero(run.worker >= 0)
    change = np.zeros((run.steps + 1, replay.cluster.workers), dtype=np.int64)
    ends = np.where(run.finish_step[sent] < 0, run.steps, run.finish_step[sent] + 1)
    gone = run.cancel_step[sent]
    ends = np.where(gone < 0, ends, gone)
    np.add.at(change, (run.bound_step[sent], run.worker[sent]), 1)
    np.add.at(change, (ends, run.worker[sent]), -1)
    most = replay.cluster.worker_slots() + margin
    return number(change.cumsum(axis=0)[: run.steps] > most)


@RULES.rule("loads")
def _loads(replay: Replay) -> int:
    """Check the recorded loads against the loads of the requests on each worker."""
    run, (loads, _) = replay.run, replay.trajectory
    wrong = 0 if run.loads is None else number(run.loads != loads)
    wrong += number(run.max_load != loads.max(axis=1))
    wrong += number(run.min_load != loads.min(axis=1))
    return wrong + number(run.total_load != loads.sum(axis=1))


@RULES.rule("active")
def _active(replay: Replay) -> int:
    """Check active requests against the request records, and that each step computes a token."""
    run, (_, running) = replay.run, replay.trajectory
    wrong = 0 if run.running is None else number(run.running != running)
    wrong += number(run.active != running.sum(axis=1))
    return wrong + number(replay.tokens.sum(axis=1) == 0)


@RULES.rule("waiting")
def _waiting(replay: Replay) -> int:
    """Check the numbers of waiting and admitted requests against releases and starts."""
    run = replay.run
    admitted = count(replay.admissions, run.steps)
    waiting = replay.waiting_before - admitted
    return number(run.admitted != admitted) + number(run.waiting != waiting)


@RULES.rule("tokens")
def _tokens(replay: Replay) -> int:
    """Check that emitted tokens are the completed outputs plus the parts of other requests."""
    finish = replay.run.finish_step[replay.started]
    outputs = replay.workload.output_tokens[replay.started]
    expected = exact_sum(np.where(finish >= 0, outputs, replay.steps_run))
    return abs(exact_sum(replay.run.active) - expected)


@RULES.rule("work")
def _work(replay: Replay) -> int:
    """Check that the loads of a drained run add up to the work of its requests."""
    run, load = replay.run, replay.workload
    if not run.is_drained:
        return 0
    if len(run.interruptions) or (run.rests is not None and len(run.rests)):
        # The work of a stint depends on when it began and when it grew; rule "loads" checks it.
        return 0
    columns = (load.prompt_tokens, run.start_step, load.output_tokens)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    expected = sum(total_work(run.options.drift, *row) for row in rows)
    return abs(exact_sum(run.total_load) - expected)


@RULES.rule("duration")
def _duration(replay: Replay) -> int:
    """Check that step durations follow from the loads, and that steps leave no gap."""
    run, (loads, _) = replay.run, replay.trajectory
    schedule = stragglers_of(run.options.stragglers, replay.cluster.workers, run.options.seed)
    factors = schedule.factors(run.start_s, replay.cluster.workers)
    more = np.zeros(loads.shape) + sum(feature.worker_s(replay) for feature in FEATURES)
    rows = zip(loads, factors, more, strict=True)
    expected = np.array([replay.cluster.step_time(*row) for row in rows])
    wrong = number(np.abs(run.duration_s - expected) > ROUNDING * expected)
    if run.steps == 0:
        return wrong
    previous_end = np.concatenate(([0.0], run.end_s()[:-1]))
    hole = np.abs(run.start_s - run.idle_before_s - previous_end)
    tolerance = ROUNDING * np.maximum(run.start_s, 1e-300)
    wrong += number((hole > tolerance) | (run.idle_before_s < 0))
    # With a pool, the machine idles only for requests on the host and for recoveries.
    waits = Cause.SWAP in replay.stints.cause or run.options.failures != NO_EVENTS
    if run.options.arrivals is ArrivalMode.POOL and not waits:
        wrong += number(run.idle_before_s != 0)
    return wrong


def malformed(run: Run, workload: Workload, cluster: Cluster) -> int:
    """Count arrays of wrong shape and indices out of range, which make a replay impossible."""
    n, K, G = len(workload), run.steps, cluster.workers
    requests = (
        run.reveal_step, run.start_step, run.finish_step, run.last_start_step, run.worker,
        run.bound_step, run.prompt_tokens, run.emitted_tokens, run.reveal_s, run.cancel_step,
    )  # fmt: skip
    per_step = (run.start_s, run.idle_before_s, run.max_load, run.min_load, run.total_load)
    counts = (run.active, run.waiting, run.admitted)
    wrong = sum(array.shape != (n,) for array in requests)
    wrong += sum(array.shape != (K,) for array in (*per_step, *counts))
    wrong += sum(array is not None and array.shape != (K, G) for array in (run.loads, run.running))
    wrong += run.interruptions.ndim != 2 or run.interruptions.shape[1:] != (5,)
    wrong = wrong or sum(feature.malformed(run, cluster) for feature in FEATURES)
    if wrong:
        return wrong
    who, where, start, end, cause = run.interruptions.T
    wrong += number((who < 0) | (who >= n)) + number((where < 0) | (where >= G))
    wrong += number((start < 0) | (start >= end) | (end > K))
    wrong += number(~np.isin(cause, list(Cause)))
    wrong += number((run.last_start_step < run.start_step) | (run.last_start_step >= K))
    wrong += number((run.worker < -1) | (run.worker >= G))
    # An interrupted request that waits again may be bound to no worker.
    nowhere = (run.start_step >= 0) & (run.worker < 0)
    wrong += number(~np.isin(np.flatnonzero(nowhere), who))
    wrong += number((run.cancel_step < -1) | (run.cancel_step > K))
    wrong += number((run.bound_step < -1) | (run.bound_step > K))
    for steps in (run.reveal_step, run.start_step, run.finish_step):
        wrong += number((steps < -1) | (steps >= K))
    return wrong


def run_violations(run: Run, workload: Workload, cluster: Cluster) -> dict[str, int]:
    """Return the rules that a run violates, with the number of violations of each.

    Parameters
    ----------
    run : Run
        The record to check.
    workload : Workload
        The requests of the run.
    cluster : Cluster
        The machine of the run.

    Returns
    -------
    dict
        Empty if the run is valid. Keys are rule names (see ``docs/engine.md``). Values are the
        number of requests, steps or cells in violation; for rules on sums, the difference in
        tokens.
    """
    if wrong := malformed(run, workload, cluster):
        return {"shape": wrong}
    replay = Replay(run, workload, cluster)
    found = {name: rule(replay) for name, rule in _every_rule().items()}
    return {name: amount for name, amount in found.items() if amount}


def rules() -> dict[str, str]:
    """Return a description of what each rule checks, by name."""
    return {name: (rule.__doc__ or "").splitlines()[0] for name, rule in _every_rule().items()}


def _every_rule() -> RuleTable:
    tables = (RULES, *(feature.rules for feature in FEATURES))
    return RuleTable({name: rule for table in tables for name, rule in table.items()})
