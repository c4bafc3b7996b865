"""The prefill tier outside the steps of a run: settings, metrics, and the rules of the replay.

The rules are written independently, event by event; they do not use the engine.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from bfio.common.metrics import NOTHING, Average, Column, MetricTable, Value, exact_sum
from bfio.decode.features.feature import ROUNDING, Feature, RuleTable, grouped, number
from bfio.decode.options import NO_EVENTS, Dispatch
from formulations.arrays import IntArray, frozen

if TYPE_CHECKING:
    from bfio.decode.machine.state import State
    from bfio.decode.option_kinds import PrefillTier
    from bfio.decode.replay import Replay
    from bfio.decode.run_part import RunPart

#: Rules on when requests become ready and lose their cache.
RULES = RuleTable()


@dataclass
class PrefillReplay:
    """The state of the tier at some time."""

    tier: PrefillTier  #: The tier.
    prompts: list[int]  #: Prompt of each request [tokens].
    arrivals: deque[tuple[float, int]]  #: Arrival time [s] and request, in order of time.
    now_s: float = 0.0
    queue: list[int] = field(default_factory=list)
    #: End of prefill, end of transfer, and expiry of the cache of each request [s].
    prefill_ends: dict[int, float] = field(default_factory=dict)
    transfer_ends: dict[int, float] = field(default_factory=dict)
    cache_ends: dict[int, float] = field(default_factory=dict)
    #: Requests held by prefill workers, in order, and since when [s].
    blocked: dict[int, float] = field(default_factory=dict)
    pool: set[int] = field(default_factory=set)
    ready: dict[int, tuple[float, int]] = field(default_factory=dict)
    held_s: dict[int, float] = field(default_factory=dict)
    expiries: list[tuple[int, int, int]] = field(default_factory=list)

    def go_on(self, until_s: float, step: int) -> None:
        """Process all events up to a time; requests that become ready are revealed at ``step``."""
        while self.next_s() <= until_s:
            ends = (self.prefill_ends, self.transfer_ends, self.cache_ends)
            coming = [(time, who, k) for k, of in enumerate(ends) for who, time in of.items()]
            soonest = min(coming, default=(math.inf, 0, 0))
            self.now_s, who, kind = soonest
            if self.arrivals and self.arrivals[0][0] < soonest[0]:
                self.now_s, who = self.arrivals.popleft()
                self.queue.append(who)
            else:
                self._end(who, kind, step)
        self.now_s = until_s

    def next_s(self) -> float:
        """Advance requests where possible; return the time of the next event [s], or `inf`."""
        self._hand_over()
        ends = (self.prefill_ends, self.transfer_ends, self.cache_ends)
        times = [time for of in ends for time in of.values()]
        return min(times + [time for time, _ in list(self.arrivals)[:1]], default=math.inf)

    def _end(self, who: int, kind: int, step: int) -> None:
        del (self.prefill_ends, self.transfer_ends, self.cache_ends)[kind][who]
        if kind == 0:
            self.blocked[who] = self.now_s
        elif kind == 1:
            self.pool.add(who)
            self.ready[who] = (self.now_s, step)
            self.cache_ends[who] = self.now_s + self.tier.ttl_s
        elif who in self.pool:
            self.pool.remove(who)
            self.expiries.append((who, self.ready.pop(who)[1], step))
            self.queue.append(who)

    def _hand_over(self) -> None:
        places = self.tier.places
        while self.blocked and (
            places is None or len(self.pool) + len(self.transfer_ends) < places
        ):
            who = next(iter(self.blocked))
            self._count_held(who)
            self.transfer_ends[who] = self.now_s + self.tier.transfer_time_s * self.prompts[who]
        while self.queue and len(self.prefill_ends) + len(self.blocked) < self.tier.workers:
            who = self.queue.pop(0)
            lasts = self.tier.overhead_s + self.tier.token_time_s * self.prompts[who]
            self.prefill_ends[who] = self.now_s + lasts

    def _count_held(self, who: int) -> None:
        held = self.now_s - self.blocked.pop(who)
        self.held_s[who] = self.held_s.get(who, 0.0) + held

    def leave(self, who: int) -> None:
        """Remove a request from the pool when it goes to a worker."""
        self.pool.discard(who)
        self.cache_ends.pop(who, None)

    def come_back(self, who: int) -> None:
        """Return a request to the pool after it ran on a worker."""
        self.pool.add(who)

    def cancel(self, who: int) -> None:
        """Remove a cancelled request, wherever it is."""
        self.leave(who)
        self.prefill_ends.pop(who, None)
        self.transfer_ends.pop(who, None)
        if who in self.blocked:
            self._count_held(who)
        if who in self.queue:
            self.queue.remove(who)


@RULES.rule("prefill")
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
    if not tells_who_left(replay):
        return number(early)
    expected = tier_alone(replay)
    steps, times, held = (np.full(run.num_requests, -1.0) for _ in range(3))
    for who, (time, step) in expected.ready.items():
        if step < run.steps:
            steps[who], times[who] = step, time
            held[who] = expected.held_s.get(who, 0.0)
    wrong = number(early) + number(run.reveal_step != steps)
    scale = 1e3 * ROUNDING * run.start_s.max(initial=1.0)
    for of, at in ((ready_s, times), (held_s, held)):
        wrong += number(np.abs(of - at)[ids] > scale)
    rows = [tuple(row) for row in expiries.tolist() if row[2] < len(times_of_tier(replay))]
    return wrong + int(rows != expected.expiries)


def tells_who_left(replay: Replay) -> bool:
    """Whether the record has every time at which a request left the pool for a worker."""
    run = replay.run
    stays = len(run.interruptions) == 0 and run.options.failures == NO_EVENTS
    if run.options.dispatch is Dispatch.POOLED:
        return run.options.delay == 0 or (stays and replay.cluster.memory is None)
    return stays


def tier_alone(replay: Replay) -> PrefillReplay:
    """Replay the prefill tier from the times at which requests left the pool."""
    run, arrival_s = replay.run, replay.run.arrival_s
    assert run.options.prefill is not None
    assert arrival_s is not None
    arrivals = deque(zip(arrival_s.tolist(), range(run.num_requests), strict=True))
    tier = PrefillReplay(run.options.prefill, replay.workload.prompt_tokens.tolist(), arrivals)
    times = times_of_tier(replay)
    leaves = grouped(run.bound_step, np.arange(run.num_requests), len(times))
    if run.options.dispatch is Dispatch.POOLED and run.options.delay == 0:
        waited = replay.stints.was_waiting
        leaves = grouped(replay.admissions, replay.stints.request[waited], len(times))
    again = replay.stints.waits_again
    returns = grouped(replay.returns, replay.stints.request[again], len(times))
    schedule = replay.cancellations
    when = dict(zip(schedule.request.tolist(), schedule.time_s.tolist(), strict=True))
    gone = grouped(run.cancel_step[schedule.request], schedule.request, len(times))
    for step, (end, start) in enumerate(times):
        # A request leaves its worker at the end of the last step, before any idle time.
        tier.go_on(end, step)
        for who in returns[step]:
            tier.come_back(who)
        # Requests cancelled at the same time leave together, before others advance.
        leaving = [(max(when[who], end), who) for who in gone[step]]
        for time, together in groupby(leaving, itemgetter(0)):
            tier.go_on(time, step)
            for _, who in together:
                tier.cancel(who)
        tier.go_on(start, step)
        for who in leaves[step]:
            tier.leave(who)
    return tier


def times_of_tier(replay: Replay) -> list[tuple[float, float]]:
    """Return the end of the previous step and the start of each step [s].

    If the remaining requests were all cancelled after the last step, an entry up to the last of
    these cancellations follows.
    """
    run, schedule = replay.run, replay.cancellations
    ends = [0.0, *run.end_s().tolist()]
    times = list(zip(ends, run.start_s.tolist(), strict=False))
    late = schedule.time_s[run.cancel_step[schedule.request] == run.steps]
    return [*times, (ends[-1], max(ends[-1], late.max()))] if len(late) else times


METRICS: MetricTable[RunPart] = MetricTable()


def _dropped(part: RunPart) -> IntArray | None:
    """Return the requests whose cache the pool dropped before these steps, with repetitions."""
    expiries = part.run.expiries
    return None if expiries is None else expiries[np.isin(expiries[:, 2], part.steps), 0]


@METRICS.metric(
    "expired",
    "requests",
    "times that the pool dropped the cache of a request that waited, which then went through "
    "prefill again",
)
def _expired(part: RunPart) -> Value:
    dropped = _dropped(part)
    return None if dropped is None else len(dropped)


@METRICS.metric("expired_tokens", "tokens", "prompt tokens of expired requests")
def _expired_tokens(part: RunPart) -> Value:
    dropped = _dropped(part)
    return None if dropped is None else exact_sum(part.run.prompt_tokens[dropped])


@METRICS.metric(
    "prefill_held_s",
    "s",
    "time that prefill workers held requests which started because the pool was full",
)
def _prefill_held(part: RunPart) -> Value:
    held_s = part.run.held_s
    return None if held_s is None else float(held_s[part.started].sum())


@METRICS.average(
    "ready_delay_mean_s",
    "s",
    "mean time from arrival until ready to be decoded: waiting for prefill, prefill, transfer",
    Column("ready\nmean [s]", by_default=False),
)
def _ready_delay_mean(part: RunPart) -> Average:
    ready_s, arrival_s = part.run.ready_s, part.run.arrival_s
    if ready_s is None or arrival_s is None:
        return NOTHING
    return Average((ready_s - arrival_s)[part.completed])


def _record(state: State) -> dict[str, object]:
    if not state.tier.is_on:
        return {"expiries": None}
    return {"ready_s": frozen(state.tier.ready_s), "held_s": frozen(state.tier.held_s)}


FEATURE = Feature(
    "prefill",
    {"prefill": lambda _, options: options.prefill is not None},
    setting=lambda _, options: f"prefill tier {options.prefill.text}" if options.prefill else "",
    after="arrivals",
    record=_record,
    rules=RULES,
    metrics=METRICS,
    rank=3,
)
