"""Rules of loads, counts and times of steps."""

import numpy as np

from bfio.common.metrics import exact_sum
from bfio.decode.features.stragglers.schedule import stragglers_of
from bfio.decode.options import NO_EVENTS, ArrivalMode
from bfio.decode.replay.counting import count, number
from bfio.decode.replay.profiles import total_work
from bfio.decode.replay.record import Replay
from bfio.decode.replay.rule_table import ROUNDING, RuleTable
from bfio.decode.stints import Cause

#: Rules of loads, counts and times of steps.
TOTALS = RuleTable()


@TOTALS.rule("loads")
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


@TOTALS.rule("active")
def _active(replay: Replay) -> int:
    """Check active requests against the records, and that no step computes nothing."""
    run, (_, running) = replay.run, replay.trajectory
    wrong = 0 if run.running is None else number(run.running != running)
    wrong += number(run.active != running.sum(axis=1))
    return wrong + number(replay.tokens.sum(axis=1) == 0)


@TOTALS.rule("waiting")
def _waiting(replay: Replay) -> int:
    """Check waiting and admitted counts against reveals and starts."""
    run = replay.run
    admitted = count(replay.admissions, run.steps)
    waiting = replay.waiting_before - admitted
    return number(run.admitted != admitted) + number(run.waiting != waiting)


@TOTALS.rule("tokens")
def _tokens(replay: Replay) -> int:
    """Check that tokens emitted are the completed outputs and the parts of the others."""
    finish = replay.run.finish_step[replay.started]
    outputs = replay.workload.output_tokens[replay.started]
    expected = exact_sum(np.where(finish >= 0, outputs, replay.steps_run))
    return abs(exact_sum(replay.run.active) - expected)


@TOTALS.rule("work")
def _work(replay: Replay) -> int:
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


@TOTALS.rule("duration")
def _duration(replay: Replay) -> int:
    """Check that steps last as their loads say and follow each other without a hole."""
    run, (loads, _) = replay.run, replay.trajectory
    schedule = stragglers_of(run.options.stragglers, replay.cluster.workers, run.options.seed)
    factors = schedule.factors(run.start_s, replay.cluster.workers)
    batches = replay.tokens if replay.batches else [None] * run.steps
    rows = zip(loads, factors, batches, strict=True)
    expected = np.array([replay.cluster.step_time(*row) for row in rows])
    wrong = number(np.abs(run.duration_s - expected) > ROUNDING * expected)
    if run.steps == 0:
        return wrong
    previous_end = np.concatenate(([0.0], run.end_s()[:-1]))
    hole = np.abs(run.start_s - run.idle_before_s - previous_end)
    tolerance = ROUNDING * np.maximum(run.start_s, 1e-300)
    wrong += number((hole > tolerance) | (run.idle_before_s < 0))
    # Without arrivals there is nothing to wait for but requests on the host, and recoveries.
    waits = Cause.SWAP in replay.stints.cause or run.options.failures != NO_EVENTS
    if run.options.arrivals is ArrivalMode.POOL and not waits:
        wrong += number(run.idle_before_s != 0)
    return wrong
