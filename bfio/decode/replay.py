"""An independent check of a run: replay the record of each request and compare.

Nothing here uses the engine. From when and where each request ran, loads, counts and durations
are computed anew, and every rule of the model is tested on its own.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter

import numpy as np

from bfio.common.metrics import exact_sum
from bfio.decode.batch_replay import batch_faults, chunks_of, malformed_chunks, on_workers
from bfio.decode.cancellations import Cancellations, cancellations_of
from bfio.decode.cluster import Cluster
from bfio.decode.drift import Drift, DriftReading
from bfio.decode.failures import failures_of
from bfio.decode.options import ArrivalMode, Dispatch, Overflow
from bfio.decode.prefill_replay import PrefillReplay
from bfio.decode.run import Run
from bfio.decode.schedules import NO_EVENTS
from bfio.decode.stints import Cause, Stints, cancelled_while_waiting, stints, stints_of
from bfio.decode.stragglers import stragglers_of
from bfio.workloads.block_hashes import BLOCK_TOKENS
from bfio.workloads.workload import Workload
from formulations.arrays import BoolArray, IntArray

#: Relative error allowed in a duration or a sum of two times.
_ROUNDING = 1e-12


def run_violations(run: Run, workload: Workload, cluster: Cluster) -> dict[str, int]:
    """Return the rules that a run breaks, with how often each.

    Parameters
    ----------
    run : Run
        The record to check.
    workload : Workload
        The requests it claims to have served.
    cluster : Cluster
        The machine it claims to have run on.

    Returns
    -------
    dict
        Empty if the run is right. Keys are rule names (see ``docs/engine.md``); values count the
        requests, steps or cells at fault, or give the tokens missing for sums.
    """
    malformed = _malformed(run, workload, cluster)
    if malformed:
        return {"shape": malformed}
    replay = _Replay(run, workload, cluster)
    found = {name: rule(replay) for name, rule in _RULES.items()}
    return {name: amount for name, amount in found.items() if amount}


def rules() -> dict[str, str]:
    """Return what each rule checks, by name."""
    return {name: (rule.__doc__ or "").splitlines()[0] for name, rule in _RULES.items()}


def profile(drift: Drift, prompt: int, start: int, steps: int, emitted: int = 0) -> IntArray:
    """Return the loads of ``steps`` steps of a request that starts at step ``start`` [tokens].

    Parameters
    ----------
    drift : Drift
        How it grows.
    prompt, start, steps : int
        Its load at the first of these steps [tokens], that step, and how many they are.
    emitted : int
        Tokens that it has emitted before.
    """
    first = start if drift.reading is DriftReading.GLOBAL_STEP else emitted
    period = np.array(drift.increments, dtype=np.int64)
    increments = period[(first + np.arange(steps - 1)) % len(period)]
    loads: IntArray = prompt + np.concatenate(([0], np.cumsum(increments, dtype=np.int64)))
    return loads


def profile_with_rests(
    drift: Drift, prompt: int, start: int, steps: int, emitted: int, rests: list[tuple[int, int]]
) -> IntArray:
    """Return the same of a request that does not grow at some of these steps [tokens].

    Parameters
    ----------
    drift, prompt, start, steps, emitted
        As `profile` takes them.
    rests : list of (int, int)
        First step and end of each time that it rests.
    """
    runs = np.ones(steps - 1, dtype=np.int64)
    for first, end in rests:
        runs[first - start : end - start] = 0
    at = start + np.arange(steps - 1)
    if drift.reading is not DriftReading.GLOBAL_STEP:
        at = emitted + np.cumsum(runs) - runs
    period = np.array(drift.increments, dtype=np.int64)
    gains = runs * period[at % len(period)]
    loads: IntArray = prompt + np.concatenate(([0], np.cumsum(gains, dtype=np.int64)))
    return loads


@dataclass(frozen=True)
class _Replay:
    """A run beside what it should have been."""

    run: Run
    workload: Workload
    cluster: Cluster

    @cached_property
    def started(self) -> IntArray:
        return np.flatnonzero(self.run.start_step >= 0)

    @cached_property
    def steps_run(self) -> IntArray:
        """Steps each started request has run, whether or not it finished."""
        steps = np.zeros(self.run.num_requests, dtype=np.int64)
        stints = self.stints
        np.add.at(steps, stints.request, stints.end - stints.start - stints.rested)
        return steps[self.started]

    @cached_property
    def stints(self) -> Stints:
        """When and where each request ran."""
        return stints(self.run)

    @cached_property
    def trajectory(self) -> tuple[IntArray, IntArray]:
        """Loads and requests that run, each of shape (K, G), from the request records alone."""
        return self._trajectories[0]

    @cached_property
    def held(self) -> tuple[IntArray, IntArray]:
        """Loads and requests that workers hold, at rest or running, each of shape (K, G)."""
        return self._trajectories[1]

    @cached_property
    def _trajectories(self) -> tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray]]:
        shape = (self.cluster.workers, self.run.steps)
        loads, count = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for _, worker, start, end, profile_ in self.walk():
            loads[worker, start:end] += profile_
            count[worker, start:end] += 1
        if self.run.rests is None:
            return (loads.T, count.T), (loads.T, count.T)
        running, runs = loads.copy(), count.copy()
        for (_, worker, start, _, profile_), rests in zip(
            self.walk(), self.rests_of_stints, strict=True
        ):
            for first, end in rests:
                running[worker, first:end] -= profile_[first - start : end - start]
                runs[worker, first:end] -= 1
        if self.batches:
            chunks = chunks_of(self.run)
            # A chunk reads what was computed of its prompt before.
            running += on_workers(self.run, self.cluster, chunks, chunks.before).T
        return (running.T, runs.T), (loads.T, count.T)

    @property
    def batches(self) -> bool:
        """Whether workers have token budgets."""
        return self.cluster.token_budget is not None

    @cached_property
    def tokens(self) -> IntArray:
        """Tokens that workers compute, emitted or of prompts, shape (K, G)."""
        running = self.trajectory[1]
        if not self.batches:
            return running
        chunks = chunks_of(self.run)
        return running + on_workers(self.run, self.cluster, chunks, chunks.tokens)

    @cached_property
    def rests_of_stints(self) -> list[list[tuple[int, int]]]:
        """First step and end of each rest of each stint, in order of time."""
        stints, rests = self.stints, self.run.rests
        found: list[list[tuple[int, int]]] = [[] for _ in stints.request]
        if rests is not None and found:
            which = stints_of(rests, stints.request, stints.start, self.run.steps)
            for stint, first, end in zip(which.tolist(), *rests.T[1:].tolist(), strict=True):
                found[stint].append((first, end))
        return found

    def walk(self) -> Iterator[tuple[int, int, int, int, IntArray]]:
        """Yield request, worker, first step, end and loads of each stint, as they are noted."""
        drift, before = self.run.options.drift, -1
        load = emitted = 0
        for (request, worker, start, end, _, rested), rests in zip(
            zip(*map(np.ndarray.tolist, self.stints), strict=True),
            self.rests_of_stints,
            strict=True,
        ):
            if request != before:
                before, load, emitted = request, int(self.workload.prompt_tokens[request]), 0
            steps = end - start
            # One more than it runs: what it would weigh at the next step it brings along.
            loads = profile(drift, load, start, steps + 1, emitted)
            if rested:
                loads = profile_with_rests(drift, load, start, steps + 1, emitted, rests)
            yield request, worker, start, end, loads[:steps]
            load, emitted = int(loads[-1]), emitted + steps - rested

    @cached_property
    def revealed(self) -> IntArray:
        return np.flatnonzero(self.run.reveal_step >= 0)

    @cached_property
    def waiting_before(self) -> IntArray:
        """Requests waiting at each step after the reveal and before admission, shape (K,)."""
        starts, steps = self.admissions, self.run.steps
        waits = _running_total(self.run.reveal_step, steps) + _running_total(self.returns, steps)
        gone = self.run.cancel_step[cancelled_while_waiting(self.run, self.stints)]
        waits -= _running_total(gone, steps)
        if self.run.expiries is not None:
            _, ready, lost = self.run.expiries.T
            waits += _running_total(ready, steps) - _running_total(lost, steps)
        return waits - (_running_total(starts, steps) - _count(starts, steps))

    @cached_property
    def outages(self) -> list[tuple[int, int, bool]]:
        """First step that sees each failure or recovery, its worker, whether it recovers."""
        run = self.run
        schedule = failures_of(run.options.failures, self.cluster.workers, run.options.seed)
        # What has happened by the end of a run that waits shows in no step.
        first = np.searchsorted(run.start_s, schedule.time_s)
        columns = (first, schedule.worker, schedule.is_up.astype(np.bool_))
        return list(zip(*(column.tolist() for column in columns), strict=True))

    @cached_property
    def cancellations(self) -> Cancellations:
        """When clients give up."""
        run = self.run
        arrival_s = np.zeros(run.num_requests) if run.arrival_s is None else run.arrival_s
        return cancellations_of(run.options.cancellations, arrival_s, run.options.seed)

    @property
    def tells_who_left(self) -> bool:
        """Whether the record says of each time that a request left the pool for a worker."""
        run = self.run
        stays = len(run.interruptions) == 0 and run.options.failures == NO_EVENTS
        if run.options.dispatch is Dispatch.POOLED:
            return run.options.delay == 0 or (stays and self.cluster.memory is None)
        return stays

    @cached_property
    def tier_alone(self) -> PrefillReplay:
        """The prefill tier, played through beside what left the pool at each step."""
        run, arrival_s = self.run, self.run.arrival_s
        assert run.options.prefill is not None
        assert arrival_s is not None
        arrivals = deque(zip(arrival_s.tolist(), range(run.num_requests), strict=True))
        tier = PrefillReplay(run.options.prefill, self.workload.prompt_tokens.tolist(), arrivals)
        times = self.times_of_tier
        leaves = _grouped(run.bound_step, np.arange(run.num_requests), len(times))
        if run.options.dispatch is Dispatch.POOLED and run.options.delay == 0:
            waited = self.stints.was_waiting
            leaves = _grouped(self.admissions, self.stints.request[waited], len(times))
        again = self.stints.waits_again
        returns = _grouped(self.returns, self.stints.request[again], len(times))
        schedule = self.cancellations
        when = dict(zip(schedule.request.tolist(), schedule.time_s.tolist(), strict=True))
        gone = _grouped(run.cancel_step[schedule.request], schedule.request, len(times))
        for step, (end, start) in enumerate(times):
            # Whoever leaves its worker does so when the last step ends, before any idle time.
            tier.go_on(end, step)
            for who in returns[step]:
                tier.come_back(who)
            # All who have given up by the same time leave together, and then others follow.
            leaving = [(max(when[who], end), who) for who in gone[step]]
            for time, together in groupby(leaving, itemgetter(0)):
                tier.go_on(time, step)
                for _, who in together:
                    tier.cancel(who)
            tier.go_on(start, step)
            for who in leaves[step]:
                tier.leave(who)
        return tier

    @cached_property
    def times_of_tier(self) -> list[tuple[float, float]]:
        """When the step before ended and when each starts [s].

        After the last step the tier goes on until the last client has given up, if all that were
        left did so then.
        """
        run, schedule = self.run, self.cancellations
        ends = [0.0, *run.end_s().tolist()]
        times = list(zip(ends, run.start_s.tolist(), strict=False))
        late = schedule.time_s[run.cancel_step[schedule.request] == run.steps]
        return [*times, (ends[-1], max(ends[-1], late.max()))] if len(late) else times

    @cached_property
    def returns(self) -> IntArray:
        """Steps at which a request that was interrupted waits again, one entry for each."""
        return self.stints.end[self.stints.waits_again]

    @cached_property
    def admissions(self) -> IntArray:
        """Steps at which a request starts that waited, one entry for each."""
        return self.stints.start[self.stints.was_waiting]


def _count(at_step: IntArray, steps: int) -> IntArray:
    """Return how many requests have each step; -1 and steps beyond the end count nowhere."""
    inside = at_step[(at_step >= 0) & (at_step < steps)]
    counts: IntArray = np.bincount(inside, minlength=steps).astype(np.int64)
    return counts


def _grouped(at_step: IntArray, who: IntArray, steps: int) -> list[list[int]]:
    """Return who has each step."""
    groups: list[list[int]] = [[] for _ in range(steps)]
    for step, request in zip(at_step.tolist(), who.tolist(), strict=True):
        if 0 <= step < steps:
            groups[step].append(request)
    return groups


def _running_total(at_step: IntArray, steps: int) -> IntArray:
    totals: IntArray = np.cumsum(_count(at_step, steps))
    return totals


def _number(flags: BoolArray) -> int:
    return int(np.count_nonzero(flags))


def _malformed(run: Run, workload: Workload, cluster: Cluster) -> int:
    """Count arrays of the wrong shape and indices that no replay could follow."""
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
    hits = run.prefix_hit_tokens
    wrong += hits is not None and hits.shape != (K,)
    wrong += run.interruptions.ndim != 2 or run.interruptions.shape[1:] != (5,)
    if wrong:
        return wrong
    wrong += _malformed_rests(run) + malformed_chunks(run, cluster)
    if wrong:
        return wrong
    who, where, start, end, cause = run.interruptions.T
    wrong += _number((who < 0) | (who >= n)) + _number((where < 0) | (where >= G))
    wrong += _number((start < 0) | (start >= end) | (end > K))
    wrong += _number(~np.isin(cause, list(Cause)))
    wrong += _number((run.last_start_step < run.start_step) | (run.last_start_step >= K))
    wrong += _number((run.worker < -1) | (run.worker >= G))
    # Who was interrupted and waits again may be bound to none.
    nowhere = (run.start_step >= 0) & (run.worker < 0)
    wrong += _number(~np.isin(np.flatnonzero(nowhere), who))
    wrong += _number((run.cancel_step < -1) | (run.cancel_step > K))
    wrong += _number((run.bound_step < -1) | (run.bound_step > K))
    for steps in (run.reveal_step, run.start_step, run.finish_step):
        wrong += _number((steps < -1) | (steps >= K))
    return wrong


def _malformed_rests(run: Run) -> int:
    """Count rests that no replay could follow."""
    if run.rests is None:
        return 0
    if run.rests.ndim != 2 or run.rests.shape[1:] != (3,):
        return 1
    who, first, end = run.rests.T
    wrong = _number((who < 0) | (who >= run.num_requests))
    return wrong + _number((first < 0) | (first >= end) | (end > run.steps))


_RULES: dict[str, Callable[[_Replay], int]] = {}


def _rule(name: str) -> Callable[[Callable[[_Replay], int]], Callable[[_Replay], int]]:
    def register(rule: Callable[[_Replay], int]) -> Callable[[_Replay], int]:
        _RULES[name] = rule
        return rule

    return register


@_rule("output-length")
def _output_length(replay: _Replay) -> int:
    """Check that a completed request ran exactly o_i steps, and one cut off fewer."""
    outputs = replay.workload.output_tokens[replay.started]
    done = replay.run.finish_step[replay.started] >= 0
    wrong = np.where(done, replay.steps_run != outputs, replay.steps_run >= outputs)
    unstarted = (replay.run.start_step < 0) & (replay.run.finish_step >= 0)
    emitted = np.zeros(len(replay.workload), dtype=np.int64)
    emitted[replay.started] = replay.steps_run
    miscounted = emitted != replay.run.emitted_tokens
    return _number(wrong) + _number(unstarted) + _number(miscounted)


@_rule("start-before-reveal")
def _start_before_reveal(replay: _Replay) -> int:
    """Check that no request starts before it is revealed."""
    reveal = replay.run.reveal_step[replay.started]
    return _number((reveal < 0) | (replay.run.start_step[replay.started] < reveal))


@_rule("reveal-order")
def _reveal_order(replay: _Replay) -> int:
    """Check that requests are revealed in trace order, unless prefill changes it."""
    step = replay.run.reveal_step
    if replay.run.options.prefill is not None:
        return 0
    order = np.where(step < 0, replay.run.steps, step)
    return _number(np.diff(order) < 0)


@_rule("reveal-target")
def _reveal_target(replay: _Replay) -> int:
    """Check that a pool is filled to exactly R, and less only when the trace has ended."""
    run = replay.run
    if run.options.arrivals is not ArrivalMode.POOL:
        return 0
    undiscovered = len(replay.workload) - _running_total(run.reveal_step, run.steps)
    waiting, target = replay.waiting_before, run.options.pool
    revealed = _count(run.reveal_step, run.steps) > 0
    # Those that were interrupted may wait beside a pool that is full; it reveals nobody then.
    overfull = (waiting > target) & (revealed | (len(replay.returns) == 0))
    return _number(overfull | ((waiting < target) & (undiscovered > 0)))


@_rule("reveal-time")
def _reveal_time(replay: _Replay) -> int:
    """Check that requests are revealed at their step; timed, at the first after arrival."""
    run, ids = replay.run, replay.revealed
    begin = run.start_s[run.reveal_step[ids]]
    if run.arrival_s is None:
        # Requests may be revealed and then wait for a worker that is down.
        idle = run.idle_before_s[run.reveal_step[ids]]
        early = run.reveal_s[ids] < begin - idle * (1 + _ROUNDING) - (idle > 0) * begin * _ROUNDING
        return _number((run.reveal_s[ids] > begin) | early)
    has_come = run.arrival_s if run.ready_s is None else run.ready_s
    arrival, reveal = has_come[ids], run.reveal_s[ids]
    idle_from = begin - run.idle_before_s[run.reveal_step[ids]] * (1 + _ROUNDING)
    wrong = (reveal < arrival) | (reveal > begin) | (reveal < idle_from - begin * _ROUNDING)
    # Whoever is revealed at step k > 0 had not arrived when step k-1 started.
    late = np.flatnonzero(run.reveal_step[ids] > 0)
    before = run.start_s[run.reveal_step[ids][late] - 1]
    # A place in the pool that is free since that step let it be ready just after its reveal.
    wrong[late] |= (arrival[late] < before) | ((arrival[late] == before) & (run.ready_s is None))
    # Who is still being prefilled is another rule's matter.
    hidden = run.arrival_s[run.reveal_step < 0] if run.ready_s is None else np.zeros(0)
    overdue = hidden <= run.start_s[-1] if run.steps else np.zeros(len(hidden), dtype=np.bool_)
    return _number(wrong) + _number(overdue)


@_rule("prefill")
def _prefill(replay: _Replay) -> int:
    """Check when requests became ready and expired, from when they left the pool alone."""
    run, tier = replay.run, replay.run.options.prefill
    found = (run.ready_s, run.held_s, run.expiries)
    if tier is None or run.arrival_s is None or any(entry is None for entry in found):
        return int(any(entry is not None for entry in found) or tier is not None)
    ready_s, held_s, expiries = run.ready_s, run.held_s, run.expiries
    assert ready_s is not None
    assert held_s is not None
    assert expiries is not None
    ids = replay.revealed
    shortest = tier.overhead_s + (tier.token_time_s + tier.transfer_time_s) * run.prompt_tokens
    early = ready_s[ids] < (run.arrival_s + shortest)[ids] * (1 - _ROUNDING)
    if not replay.tells_who_left:
        return _number(early)
    expected = replay.tier_alone
    steps, times, held = (np.full(run.num_requests, -1.0) for _ in range(3))
    for who, (time, step) in expected.ready.items():
        if step < run.steps:
            steps[who], times[who] = step, time
            held[who] = expected.held_s.get(who, 0.0)
    wrong = _number(early) + _number(run.reveal_step != steps)
    scale = 1e3 * _ROUNDING * run.start_s.max(initial=1.0)
    for of, at in ((ready_s, times), (held_s, held)):
        wrong += _number(np.abs(of - at)[ids] > scale)
    rows = [tuple(row) for row in expiries.tolist() if row[2] < len(replay.times_of_tier)]
    return wrong + int(rows != expected.expiries)


@_rule("capacity")
def _capacity(replay: _Replay) -> int:
    """Check that no worker has more requests, running or at rest, than slots."""
    return _number(replay.held[1] > replay.cluster.worker_slots())


@_rule("memory")
def _memory(replay: _Replay) -> int:
    """Check that no worker ever holds more than its memory, reserved peaks included."""
    memory = replay.cluster.worker_memory()
    if replay.cluster.memory is None:
        return 0
    wrong = _number(replay.held[0] > memory)
    if replay.run.options.overflow is not Overflow.RESERVE:
        return wrong
    held = np.zeros((replay.cluster.workers, replay.run.steps), dtype=np.int64)
    for request, worker, start, end, _ in replay.walk():
        output = int(replay.workload.output_tokens[request])
        peak = replay.run.options.drift.largest_gain(output - 1)
        held[worker, start:end] += int(replay.workload.prompt_tokens[request]) + peak
    return wrong + _number(memory < held.T)


@_rule("failures")
def _failures(replay: _Replay) -> int:
    """Check that nothing runs on a worker that is down, and that only this takes its requests."""
    K = replay.run.steps
    down = np.zeros((K + 1, replay.cluster.workers), dtype=np.bool_)
    failed = np.zeros((K + 1, replay.cluster.workers), dtype=np.bool_)
    for step, worker, is_up in replay.outages:
        down[step:, worker] = not is_up
        failed[step, worker] |= not is_up
    wrong = _number(down[:K] & (replay.held[1] > 0))
    left = replay.stints.cause == Cause.FAILURE
    wrong += _number(~failed[replay.stints.end[left], replay.stints.worker[left]])
    return wrong


@_rule("cancellations")
def _cancellations(replay: _Replay) -> int:
    """Check that a request ends exactly once: done, or cancelled at the first step it can be."""
    run, K, schedule = replay.run, replay.run.steps, replay.cancellations
    due = np.full(run.num_requests, K + 1)
    due[schedule.request] = np.searchsorted(run.start_s, schedule.time_s)
    done = run.finish_step >= 0
    is_due = (due < K) & ~(done & (run.finish_step < due))
    # Whether the clock went on after the last step no step can tell.
    after = (due == K) & (run.cancel_step == K)
    wrong = _number(np.where(is_due | after, due, -1) != run.cancel_step)
    wrong += _number(done & (run.cancel_step >= 0))
    gone = run.cancel_step[replay.stints.request]
    wrong += _number((gone >= 0) & (replay.stints.end > gone))
    left = replay.stints.cause == Cause.CANCELLATION
    return wrong + _number(left & (replay.stints.end != gone))


@_rule("prefixes")
def _prefixes(replay: _Replay) -> int:
    """Check what was found in prefix caches, from when and where requests started alone."""
    hits = replay.run.prefix_hit_tokens
    if hits is None:
        return int(replay.cluster.prefix_cache is not None)
    expected = np.zeros(replay.run.steps, dtype=np.int64)
    kept = replay.cluster.worker_prefix_blocks().tolist()
    caches: list[OrderedDict[int, None]] = [OrderedDict() for _ in kept]
    losses = deque((step, worker) for step, worker, is_up in replay.outages if not is_up)
    stints = replay.stints
    waited = np.flatnonzero(stints.was_waiting)
    order = waited[np.lexsort((stints.request[waited], stints.start[waited]))]
    for request, worker, step in zip(
        *(column[order].tolist() for column in stints[:3]), strict=True
    ):
        while losses and losses[0][0] <= step:
            caches[losses.popleft()[1]].clear()
        expected[step] += _found_and_kept(replay.workload, request, caches[worker], kept[worker])
    return _number(hits != expected)


def _found_and_kept(
    workload: Workload, request: int, cache: "OrderedDict[int, None]", most: int
) -> int:
    """Return the tokens of a prompt that a cache has, and let it keep the prompt."""
    blocks = workload.prompt_blocks
    own = [] if blocks is None else blocks[request].tolist()
    found = next((k for k, block in enumerate(own) if block not in cache), len(own))
    for block in reversed(own[:most]):
        cache[block] = None
        cache.move_to_end(block)
        if len(cache) > most:
            cache.popitem(last=False)
    return min(found * BLOCK_TOKENS, int(workload.prompt_tokens[request]))


@_rule("stints")
def _stints(replay: _Replay) -> int:
    """Check that stints of a request follow each other, from its first start to its last."""
    run, (request, worker, start, end, cause, _) = replay.run, replay.stints
    same = request[1:] == request[:-1]
    wrong = _number(same & (start[1:] < end[:-1]))
    wrong += _number(same & np.isin(cause[:-1], (-1, Cause.CANCELLATION)))
    # Who comes back from the host comes back to where it was.
    wrong += _number(same & (cause[:-1] == Cause.SWAP) & (worker[1:] != worker[:-1]))
    firsts = np.flatnonzero(np.concatenate(([True], ~same))[: len(request)])
    wrong += _number(run.start_step[request[firsts]] != start[firsts])
    never = np.ones(run.num_requests, dtype=np.bool_)
    never[request] = False
    return wrong + _number(never & (run.start_step >= 0))


@_rule("overflow")
def _overflow(replay: _Replay) -> int:
    """Check that memory interrupts only what would not have fitted, the youngest first."""
    memory, all_loads = replay.cluster.worker_memory(), replay.held[0]
    oldest_gone: dict[tuple[int, int], tuple[int, int, int]] = {}
    begun: dict[tuple[int, int], int] = {}
    drift = replay.run.options.drift
    ends = zip(replay.stints.cause.tolist(), replay.stints.emitted.tolist(), strict=True)
    for (request, worker, start, end, loads), (cause, emitted) in zip(
        replay.walk(), ends, strict=True
    ):
        begun[start, worker] = begun.get((start, worker), 0) + int(loads[0])
        if cause in (Cause.RECOMPUTATION, Cause.SWAP):
            grown = profile(drift, int(loads[-1]), end - 1, 2, emitted - 1)[1]
            gone = (start, request, int(grown))
            oldest_gone[end, worker] = min(gone, oldest_gone.get((end, worker), gone))
    wrong = 0
    for (step, worker), (start, request, load) in oldest_gone.items():
        if step == replay.run.steps:
            continue
        kept = all_loads[step, worker] - begun.get((step, worker), 0)
        wrong += int(kept + load <= memory[worker])
        on_it = (replay.stints.worker == worker) & (replay.stints.end > step)
        stays = on_it & (replay.stints.start < step)
        younger = replay.stints.start > start
        younger |= (replay.stints.start == start) & (replay.stints.request > request)
        wrong += _number(stays & younger)
    return wrong


@_rule("rests")
def _rests(replay: _Replay) -> int:
    """Check that requests rest while they have a slot, for no longer at a time than they may."""
    run, stints, batches = replay.run, replay.stints, replay.batches
    if run.rests is None or (run.max_pauses is None) != batches:
        return int(run.rests is not None or run.max_pauses is not None)
    if len(run.rests) == 0:
        return 0
    if len(stints.request) == 0:
        return len(run.rests)
    order = np.lexsort((run.rests[:, 1], run.rests[:, 0]))
    who, first, end = run.rests[order].T
    which = stints_of(run.rests[order], stints.request, stints.start, run.steps)
    wrong = 0 if run.max_pauses is None else _number(end - first > run.max_pauses)
    # Who starts runs, unless its prompt is to be computed; who is back from the host may rest at
    # once.
    begin = stints.start[which] + (stints.was_waiting[which] & (not batches))
    wrong += _number((stints.request[which] != who) | (first < begin) | (end > stints.end[which]))
    # Two without a step in between are one rest, unless it was away.
    same = which[1:] == which[:-1]
    wrong += _number(same & (first[1:] <= end[:-1]))
    # The last step of one that is done emits its last token.
    return wrong + _number(end == run.finish_step[who] + 1)


@_rule("batches")
def _batches(replay: _Replay) -> int:
    """Check that batches keep (2.5a) to (2.5d), and that prompts are computed once and before."""
    if not replay.batches:
        return 0
    rests, running = replay.rests_of_stints, replay.trajectory[1]
    return batch_faults(replay.run, replay.cluster, replay.stints, rests, running)


@_rule("queue-order")
def _queue_order(replay: _Replay) -> int:
    """Check that with immediate dispatch each worker serves its queue in order."""
    run = replay.run
    if run.options.dispatch is not Dispatch.IMMEDIATE:
        return 0
    # Who gave up before it started left the queue.
    bound = np.flatnonzero((run.worker >= 0) & ((run.start_step >= 0) | (run.cancel_step < 0)))
    if len(run.interruptions):
        # Who was interrupted stands before all others; that it does is the rule "stints".
        bound = np.setdiff1d(bound, run.interruptions[:, 0])
    order = bound[np.lexsort((bound, run.bound_step[bound], run.worker[bound]))]
    start = np.where(run.start_step[order] < 0, run.steps, run.start_step[order])
    same = run.worker[order][1:] == run.worker[order][:-1]
    return _number(same & (np.diff(start) < 0))


@_rule("bound")
def _bound(replay: _Replay) -> int:
    """Check that requests are bound after their reveal, and start when decisions take effect."""
    run = replay.run
    is_sent = run.worker >= 0
    wrong = _number(is_sent & (run.bound_step < run.reveal_step))
    wrong += _number(~is_sent & (run.bound_step >= 0))
    wrong += _number((run.finish_step >= 0) & (run.last_start_step < run.bound_step))
    if run.options.dispatch is Dispatch.POOLED:
        never = np.setdiff1d(np.flatnonzero(is_sent), run.interruptions[:, 0])
        started = never[run.start_step[never] >= 0]
        wrong += _number(run.start_step[started] - run.bound_step[started] > run.options.delay)
    # Where nothing ran before, the decisions that were next to take effect did so at once.
    starts = np.flatnonzero((run.start_step >= 0) & (run.start_step == run.last_start_step))
    starts = np.setdiff1d(starts, run.interruptions[:, 0])
    soon = starts[run.start_step[starts] - run.bound_step[starts] < run.options.delay]
    held = replay.held[1].sum(axis=1)[run.start_step[soon]]
    return wrong + _number(held != run.admitted[run.start_step[soon]])


@_rule("in-flight")
def _in_flight(replay: _Replay) -> int:
    """Check that no worker is sent more requests than its slots and the in-flight margin."""
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
    return _number(change.cumsum(axis=0)[: run.steps] > most)


@_rule("loads")
def _loads(replay: _Replay) -> int:
    """Check loads against the profiles: a request that moved between workers shows here."""
    run, (loads, _) = replay.run, replay.trajectory
    wrong = 0 if run.loads is None else _number(run.loads != loads)
    for found, expected in (
        (run.max_load, loads.max(axis=1)),
        (run.min_load, loads.min(axis=1)),
        (run.total_load, loads.sum(axis=1)),
    ):
        wrong += _number(found != expected)
    return wrong


@_rule("active")
def _active(replay: _Replay) -> int:
    """Check active requests against the records, and that no step computes nothing."""
    run, (_, running) = replay.run, replay.trajectory
    wrong = 0 if run.running is None else _number(run.running != running)
    wrong += _number(run.active != running.sum(axis=1))
    return wrong + _number(replay.tokens.sum(axis=1) == 0)


@_rule("waiting")
def _waiting(replay: _Replay) -> int:
    """Check waiting and admitted counts against reveals and starts."""
    run = replay.run
    admitted = _count(replay.admissions, run.steps)
    waiting = replay.waiting_before - admitted
    return _number(run.admitted != admitted) + _number(run.waiting != waiting)


@_rule("tokens")
def _tokens(replay: _Replay) -> int:
    """Check that tokens emitted are the completed outputs and the parts of the others."""
    finish = replay.run.finish_step[replay.started]
    outputs = replay.workload.output_tokens[replay.started]
    expected = exact_sum(np.where(finish >= 0, outputs, replay.steps_run))
    return abs(exact_sum(replay.run.active) - expected)


@_rule("work")
def _work(replay: _Replay) -> int:
    """Check that the loads of a drained run add up to the work of its requests."""
    run, load = replay.run, replay.workload
    if not run.is_drained:
        return 0
    if len(run.interruptions) or (run.rests is not None and len(run.rests)):
        # What a stint weighs depends on where it began, and on when it grew; the rule "loads" has
        # each of them.
        return 0
    expected = sum(
        total_work(run.options.drift, prompt, start, output)
        for prompt, start, output in zip(
            load.prompt_tokens.tolist(),
            run.start_step.tolist(),
            load.output_tokens.tolist(),
            strict=True,
        )
    )
    return abs(exact_sum(run.total_load) - expected)


def total_work(drift: Drift, prompt: int, start: int, output: int) -> int:
    """Return ``Σ_j w(j)`` of one request, exact [tokens]."""
    if drift.increments == (1,):
        return output * prompt + output * (output - 1) // 2
    return exact_sum(profile(drift, prompt, start, output))


@_rule("duration")
def _duration(replay: _Replay) -> int:
    """Check that steps last as their loads say and follow each other without a hole."""
    run, (loads, _) = replay.run, replay.trajectory
    schedule = stragglers_of(run.options.stragglers, replay.cluster.workers, run.options.seed)
    factors = schedule.factors(run.start_s, replay.cluster.workers)
    batches = replay.tokens if replay.batches else [None] * run.steps
    rows = zip(loads, factors, batches, strict=True)
    expected = np.array([replay.cluster.step_time(*row) for row in rows])
    wrong = _number(np.abs(run.duration_s - expected) > _ROUNDING * expected)
    if run.steps == 0:
        return wrong
    previous_end = np.concatenate(([0.0], run.end_s()[:-1]))
    hole = np.abs(run.start_s - run.idle_before_s - previous_end)
    tolerance = _ROUNDING * np.maximum(run.start_s, 1e-300)
    wrong += _number((hole > tolerance) | (run.idle_before_s < 0))
    # Without arrivals there is nothing to wait for but requests on the host, and recoveries.
    waits = Cause.SWAP in replay.stints.cause or run.options.failures != NO_EVENTS
    if run.options.arrivals is ArrivalMode.POOL and not waits:
        wrong += _number(run.idle_before_s != 0)
    return wrong
