"""An independent check of a run: replay the record of each request and compare.

The check does not use the engine. It recomputes loads, counts and durations from the times and
workers of each request, and tests each rule of the model separately. This module has the rules of
the basic machine; the rules of a feature are in its folder.
"""

import numpy as np

from bfio.common.metrics import exact_sum
from bfio.decode.cluster import Cluster
from bfio.decode.features.feature import ROUNDING, RuleTable, count, number, running_total
from bfio.decode.features.registry import FEATURES
from bfio.decode.features.stragglers import stragglers_of
from bfio.decode.options import NO_EVENTS, ArrivalMode, Dispatch
from bfio.decode.replay_record import Replay, total_work
from bfio.decode.run import Run
from bfio.decode.stints import Cause
from bfio.workloads.workload import Workload

#: Rules on arrival, start and end of requests, and on loads, counts and times of steps.
RULES = RuleTable()


@RULES.rule("output-length")
def _output_length(replay: Replay) -> int:
    """Check that a completed request ran exactly o_i steps, and one cut off fewer."""
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
    """Check that no request starts before it is revealed."""
    reveal = replay.run.reveal_step[replay.started]
    return number((reveal < 0) | (replay.run.start_step[replay.started] < reveal))


@RULES.rule("reveal-order")
def _reveal_order(replay: Replay) -> int:
    """Check that requests are revealed in trace order, unless prefill changes it."""
    step = replay.run.reveal_step
    if replay.run.options.prefill is not None:
        return 0
    order = np.where(step < 0, replay.run.steps, step)
    return number(np.diff(order) < 0)


@RULES.rule("reveal-target")
def _reveal_target(replay: Replay) -> int:
    """Check that a pool is filled to exactly R, and less only when the trace has ended."""
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
    """Check that requests are revealed at their step; timed, at the first after arrival."""
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
    """Check that no worker has more requests, running or at rest, than slots."""
    return number(replay.held[1] > replay.cluster.worker_slots())


@RULES.rule("stints")
def _stints(replay: Replay) -> int:
    """Check that stints of a request follow each other, from its first start to its last."""
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
    """Check that with immediate dispatch each worker serves its queue in order."""
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
    return number(change.cumsum(axis=0)[: run.steps] > most)


@RULES.rule("loads")
def _loads(replay: Replay) -> int:
    """Check loads against the profiles: a request that moved between workers shows here."""
    run, (loads, _) = replay.run, replay.trajectory
    wrong = 0 if run.loads is None else number(run.loads != loads)
    for found, expected in (
        (run.max_load, loads.max(axis=1)),
        (run.min_load, loads.min(axis=1)),
        (run.total_load, loads.sum(axis=1)),
    ):
        wrong += number(found != expected)
    return wrong


@RULES.rule("active")
def _active(replay: Replay) -> int:
    """Check active requests against the records, and that no step computes nothing."""
    run, (_, running) = replay.run, replay.trajectory
    wrong = 0 if run.running is None else number(run.running != running)
    wrong += number(run.active != running.sum(axis=1))
    return wrong + number(replay.tokens.sum(axis=1) == 0)


@RULES.rule("waiting")
def _waiting(replay: Replay) -> int:
    """Check waiting and admitted counts against reveals and starts."""
    run = replay.run
    admitted = count(replay.admissions, run.steps)
    waiting = replay.waiting_before - admitted
    return number(run.admitted != admitted) + number(run.waiting != waiting)


@RULES.rule("tokens")
def _tokens(replay: Replay) -> int:
    """Check that tokens emitted are the completed outputs and the parts of the others."""
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


@RULES.rule("duration")
def _duration(replay: Replay) -> int:
    """Check that steps last as their loads say and follow each other without a hole."""
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
    """Count arrays of wrong shape and indices out of range, with which no replay is possible."""
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
    if wrong:
        return wrong
    wrong += sum(feature.malformed(run, cluster) for feature in FEATURES)
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
        Empty if the run is valid. Keys are rule names (see ``docs/engine.md``). Values count the
        requests, steps or cells in violation; for sums they are the difference in tokens.
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
