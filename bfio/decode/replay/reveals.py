"""Rules of when requests arrive, become ready, start and end."""

import numpy as np

from bfio.decode.options import ArrivalMode
from bfio.decode.replay.counting import count, number, running_total
from bfio.decode.replay.record import Replay
from bfio.decode.replay.rule_table import ROUNDING, RuleTable

#: Rules of when requests arrive, become ready, start and end.
REVEALS = RuleTable()


@REVEALS.rule("output-length")
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


@REVEALS.rule("start-before-reveal")
def _start_before_reveal(replay: Replay) -> int:
    """Check that no request starts before it is revealed."""
    reveal = replay.run.reveal_step[replay.started]
    return number((reveal < 0) | (replay.run.start_step[replay.started] < reveal))


@REVEALS.rule("reveal-order")
def _reveal_order(replay: Replay) -> int:
    """Check that requests are revealed in trace order, unless prefill changes it."""
    step = replay.run.reveal_step
    if replay.run.options.prefill is not None:
        return 0
    order = np.where(step < 0, replay.run.steps, step)
    return number(np.diff(order) < 0)


@REVEALS.rule("reveal-target")
def _reveal_target(replay: Replay) -> int:
    """Check that a pool is filled to exactly R, and less only when the trace has ended."""
    run = replay.run
    if run.options.arrivals is not ArrivalMode.POOL:
        return 0
    undiscovered = len(replay.workload) - running_total(run.reveal_step, run.steps)
    waiting, target = replay.waiting_before, run.options.pool
    revealed = count(run.reveal_step, run.steps) > 0
    # Those that were interrupted may wait beside a pool that is full; it reveals nobody then.
    overfull = (waiting > target) & (revealed | (len(replay.returns) == 0))
    return number(overfull | ((waiting < target) & (undiscovered > 0)))


@REVEALS.rule("reveal-time")
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
    # Whoever is revealed at step k > 0 had not arrived when step k-1 started.
    late = np.flatnonzero(run.reveal_step[ids] > 0)
    before = run.start_s[run.reveal_step[ids][late] - 1]
    # A place in the pool that is free since that step let it be ready just after its reveal.
    wrong[late] |= (arrival[late] < before) | ((arrival[late] == before) & (run.ready_s is None))
    # Who is still being prefilled is another rule's matter.
    hidden = run.arrival_s[run.reveal_step < 0] if run.ready_s is None else np.zeros(0)
    overdue = hidden <= run.start_s[-1] if run.steps else np.zeros(len(hidden), dtype=np.bool_)
    return number(wrong) + number(overdue)


@REVEALS.rule("prefill")
def _prefill(replay: Replay) -> int:
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
    early = ready_s[ids] < (run.arrival_s + shortest)[ids] * (1 - ROUNDING)
    if not replay.tells_who_left:
        return number(early)
    expected = replay.tier_alone
    steps, times, held = (np.full(run.num_requests, -1.0) for _ in range(3))
    for who, (time, step) in expected.ready.items():
        if step < run.steps:
            steps[who], times[who] = step, time
            held[who] = expected.held_s.get(who, 0.0)
    wrong = number(early) + number(run.reveal_step != steps)
    scale = 1e3 * ROUNDING * run.start_s.max(initial=1.0)
    for of, at in ((ready_s, times), (held_s, held)):
        wrong += number(np.abs(of - at)[ids] > scale)
    rows = [tuple(row) for row in expiries.tolist() if row[2] < len(replay.times_of_tier)]
    return wrong + int(rows != expected.expiries)
