"""The prefill tier: the stage between the arrival of a request and the pool for decoding.

A request that arrives waits for one of ``workers`` prefill workers, oldest first. Its prefill
takes ``overhead_s + token_time_s·prompt``. The transfer of its KV cache starts if fewer than
``places`` requests wait in the pool or are in transfer. Otherwise the request blocks its prefill
worker until a place is free (back-pressure). After ``transfer_time_s·prompt`` the request is ready
and enters the pool, where the policy sees it. If a ready request is not sent to a decode worker
within ``ttl_s``, it loses its cache and joins the end of the prefill queue again.

In a run, all events are in one heap, by time, ties by request: ends of prefills, ends of
transfers, and expiries of ready requests. The meaning of an event follows from the place of its
request at that time, so that no event is ever removed from the middle of the heap. The replay
rules that check a run are written independently, event by event, and do not use the engine.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import asdict, dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.common.array_kernels import comes_first, pop_least
from bfio.common.checking import number
from bfio.common.compilable import compilable
from bfio.common.metrics import NOTHING, Average, Column, MetricTable, Value, exact_sum
from bfio.decode.features.feature import ROUNDING, Feature, RuleTable, grouped
from bfio.decode.machine.counters import EXPIRED, NOW, STEP, WAITING
from bfio.decode.machine.moves import join_pool, leave_pool
from bfio.decode.option_kinds import PrefillTier
from bfio.decode.options import NO_EVENTS, Dispatch
from bfio.decode.tally import worker_tally
from formulations.arrays import FloatArray, IntArray, frozen

if TYPE_CHECKING:
    from bfio.decode.machine.state import Record, State
    from bfio.decode.replay import Replay
    from bfio.decode.run import RunPart

# Entries of `Tier.counts`: requests that have arrived; prefill workers that compute or hold a
# request; requests in transfer to the pool; entries of the heap; number of requests that have
# joined and left the prefill queue, and the same for the queue of held requests; jumps of the
# clock since the last step, and the number of that step.
(ARRIVED, BUSY, COMING, DUE, JOINED, LEFT, STOPPED, HANDED_ON, JUMPS, JUMPED_AT) = range(10)

# Values of `Tier.where`: outside the tier, waiting for prefill, in prefill, held by its prefill
# worker because the pool is full, in transfer, and in the pool with its cache.
(OUTSIDE, QUEUED_UP, COMPUTED, HELD, MOVING, READY) = range(6)


class Tier(NamedTuple):
    """The state of the prefill tier; without a tier, arrays over requests are empty."""

    is_on: bool  #: Whether there is a tier.
    #: See `bfio.decode.option_kinds.PrefillTier`.
    workers: int
    places: int
    overhead_s: float
    token_time_s: float
    transfer_time_s: float
    ttl_s: float
    counts: IntArray  #: See the names of its entries above.
    now_s: FloatArray  #: Shape (1,): time up to which events have been processed [s].
    where: IntArray  #: Shape (n,): see the names of its values above.
    #: Shape (n,): ring buffers of requests that wait for prefill, and of those held. Entries of
    #: requests that have left otherwise are skipped.
    queue: IntArray
    held: IntArray
    #: Shape (n,): heap of events: time [s], and request.
    due_s: FloatArray
    due: IntArray
    #: Shape (n,): end of the last prefill, and last time at which each became ready [s].
    done_s: FloatArray
    ready_s: FloatArray
    held_s: FloatArray  #: Shape (n,): time for which prefill workers held each [s].


def new_tier(given: PrefillTier | None, num_requests: int) -> Tier:
    """Return the empty prefill tier of a run."""
    n = num_requests if given is not None else 0
    times = asdict(given or PrefillTier(1, 0.0))
    if times["places"] is None:
        times["places"] = np.iinfo(np.int64).max
    where, queue, held, due = np.zeros((4, n), dtype=np.int64)
    return Tier(
        is_on=given is not None,
        **times,
        counts=np.zeros(JUMPED_AT + 1, dtype=np.int64),
        now_s=np.zeros(1),
        where=where,
        queue=queue,
        held=held,
        due_s=np.zeros(n),
        due=due,
        done_s=np.zeros(n),
        ready_s=np.full(n, math.nan),
        held_s=np.zeros(n),
    )


@compilable
def note_due(tier: Tier, request: int, time_s: float) -> None:
    """Add an event of a request to the heap."""
    place = int(tier.counts[DUE])
    tier.counts[DUE] += 1
    while place > 0:
        above = (place - 1) // 2
        if not comes_first(time_s, request, tier.due_s[above], tier.due[above]):
            break
        tier.due_s[place] = tier.due_s[above]
        tier.due[place] = tier.due[above]
        place = above
    tier.due_s[place] = time_s
    tier.due[place] = request


@compilable
def join_prefill(tier: Tier, request: int) -> None:
    """Append a request to the prefill queue."""
    tier.queue[tier.counts[JOINED] % len(tier.queue)] = request
    tier.counts[JOINED] += 1
    tier.where[request] = QUEUED_UP


@compilable
def leave_tier(tier: Tier, request: int) -> None:
    """Remove a cancelled request from the prefill tier, wherever it is before the pool."""
    where = tier.where[request]
    tier.where[request] = OUTSIDE
    if where in (COMPUTED, HELD):
        tier.counts[BUSY] -= 1
    if where == HELD:
        tier.held_s[request] += tier.now_s[0] - tier.done_s[request]
    if where == MOVING:
        tier.counts[COMING] -= 1


#: Largest number of clock jumps per request and event without a start of a request; with more, the
#: run has stalled. A request may become ready, expire and become ready again.
_MOST_JUMPS = 4


@compilable(apart=True)
def catch_up(state: State, record: Record) -> bool:
    """Process tier events up to the current time; return False if the record is full."""
    return bool(go_on(state, record, state.clock[NOW], False) >= 0)


@compilable
def close_up(state: State, record: Record) -> None:
    """After cancellations, move the requests to the pool that can enter it at the current time."""
    while go_on(state, record, state.clock[NOW], True) < np.inf:
        # Each turn makes one request ready; no request that has just become ready expires.
        pass


@compilable
def go_on(state: State, record: Record, until_s: float, to_ready: bool) -> float:
    """Process tier events up to a time, or until a request is ready; return the time reached [s].

    Returns `inf` if no request becomes ready or ``to_ready`` is false, and -1 if the record is
    full.
    """
    while True:
        # All requests in the pool may expire while the clock jumps to the next ready one.
        if not to_ready and len(record.expiries) - state.counters[EXPIRED] <= len(state.pool):
            return -1.0
        soonest = next_s(state)
        if soonest == np.inf or soonest > until_s:
            break
        if happen(state, record) and to_ready:
            return soonest
    if not to_ready:
        state.tier.now_s[0] = until_s
    return np.inf


@compilable
def may_jump(state: State, comes: bool) -> bool:
    """Return whether the clock may jump again although no request has started.

    If some workers are down or wait for the host, requests may start later. The clock may then
    jump as long as other events are pending (``comes``). If all workers are down for good, no jump
    helps.
    """
    counts, step, num_open = state.tier.counts, state.counters[STEP], 0
    for g in range(len(state.workers.load)):
        num_open += worker_tally(state, g).free > 0
    if num_open == 0 or (comes and num_open < len(state.workers.load)):
        return comes
    if counts[JUMPED_AT] != step:
        counts[JUMPED_AT] = step
        counts[JUMPS] = 0
    counts[JUMPS] += 1
    events = len(state.outages.time_s) + len(state.cancellations.time_s)
    return bool(counts[JUMPS] <= _MOST_JUMPS * (len(state.pool) + events))


@compilable
def next_s(state: State) -> float:
    """Advance requests to transfer and prefill where possible; return the next event time [s]."""
    tier = state.tier
    counts, soonest = tier.counts, np.inf
    hand_on(state)
    take_up(state)
    if counts[DUE] > 0:
        soonest = tier.due_s[0]
    if counts[ARRIVED] < len(state.arrival_s):
        soonest = min(soonest, state.arrival_s[counts[ARRIVED]])
    return float(soonest)


@compilable
def hand_on(state: State) -> None:
    """Start the transfer of requests that block a prefill worker while the pool has places."""
    tier, counts = state.tier, state.tier.counts
    while (
        counts[HANDED_ON] < counts[STOPPED]
        and state.counters[WAITING] + counts[COMING] < tier.places
    ):
        request = tier.held[counts[HANDED_ON] % len(tier.held)]
        counts[HANDED_ON] += 1
        if tier.where[request] == HELD:
            now = tier.now_s[0]
            tier.held_s[request] += now - tier.done_s[request]
            tier.where[request] = MOVING
            counts[BUSY] -= 1
            counts[COMING] += 1
            note_due(tier, request, now + tier.transfer_time_s * state.requests.prompt[request])


@compilable
def take_up(state: State) -> None:
    """Start the prefill of queued requests on free prefill workers."""
    tier, counts = state.tier, state.tier.counts
    while counts[LEFT] < counts[JOINED] and counts[BUSY] < tier.workers:
        request = tier.queue[counts[LEFT] % len(tier.queue)]
        counts[LEFT] += 1
        if tier.where[request] == QUEUED_UP:
            tier.where[request] = COMPUTED
            counts[BUSY] += 1
            takes_s = tier.overhead_s + tier.token_time_s * state.requests.prompt[request]
            note_due(tier, request, tier.now_s[0] + takes_s)


@compilable
def happen(state: State, record: Record) -> bool:
    """Process the next event, arrivals last among ties; return whether a request became ready."""
    tier, counts = state.tier, state.tier.counts
    arrives = counts[ARRIVED] < len(state.arrival_s)
    if arrives and counts[DUE] > 0:
        arrives = state.arrival_s[counts[ARRIVED]] < tier.due_s[0]
    if arrives:
        request = int(counts[ARRIVED])
        tier.now_s[0] = state.arrival_s[request]
        counts[ARRIVED] += 1
        join_prefill(tier, request)
        return False
    tier.now_s[0] = tier.due_s[0]
    request = pop_least(tier.due_s, tier.due, counts[DUE])
    counts[DUE] -= 1
    where = tier.where[request]
    if where == COMPUTED:
        tier.where[request] = HELD
        tier.done_s[request] = tier.now_s[0]
        tier.held[counts[STOPPED] % len(tier.held)] = request
        counts[STOPPED] += 1
    elif where == MOVING:
        become_ready(state, request)
        return True
    elif where == READY:
        expire(state, record, request)
    return False


@compilable
def become_ready(state: State, request: int) -> None:
    """Put a request into the pool, and schedule the expiry of its cache."""
    tier, now = state.tier, state.tier.now_s[0]
    tier.counts[COMING] -= 1
    tier.where[request] = READY
    tier.ready_s[request] = now
    join_pool(state, request)
    state.marks.reveal[request] = state.counters[STEP]
    state.reveal_s[request] = max(now, state.clock[NOW])
    # A time to live below the resolution of the clock, or infinite, never expires.
    if now < now + tier.ttl_s < np.inf:
        note_due(tier, request, now + tier.ttl_s)


@compilable
def expire(state: State, record: Record, request: int) -> None:
    """Drop the cache of a request that still waits in the pool, and return it to prefill."""
    tier, marks = state.tier, state.marks
    is_cancelled = len(marks.cancel) > 0 and marks.cancel[request] >= 0
    if marks.worker[request] >= 0 or marks.first[request] >= 0 or is_cancelled:
        tier.where[request] = OUTSIDE
        return
    entry = record.expiries[state.counters[EXPIRED]]
    entry[0], entry[1], entry[2] = request, marks.reveal[request], state.counters[STEP]
    state.counters[EXPIRED] += 1
    leave_pool(state, request)
    marks.reveal[request] = -1
    state.reveal_s[request] = np.nan
    tier.ready_s[request] = np.nan
    join_prefill(tier, request)


RULES = RuleTable()


@dataclass
class PrefillReplay:
    """The state of the prefill tier at some time, for the replay."""

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
        """Remove a cancelled request, wherever it is in the tier."""
        self.leave(who)
        self.prefill_ends.pop(who, None)
        self.transfer_ends.pop(who, None)
        if who in self.blocked:
            self._count_held(who)
        if who in self.queue:
            self.queue.remove(who)


@RULES.rule("prefill")
def _prefill(replay: Replay) -> int:
    """Check that requests become ready and expire by the rules of the prefill tier."""
    run, tier = replay.run, replay.run.options.prefill
    ready_s, held_s, lost = run.ready_s, run.held_s, run.expiries
    if tier is None or run.arrival_s is None or ready_s is None or held_s is None or lost is None:
        return int(any(entry is not None for entry in (tier, ready_s, held_s, lost)))
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
    rows = [tuple(row) for row in lost.tolist() if row[2] < len(times_of_tier(replay))]
    return wrong + int(rows != expected.expiries)


def tells_who_left(replay: Replay) -> bool:
    """Return whether the record has the time of every move of a request from pool to worker."""
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
    """Return the requests whose cache expired in the pool before these steps, with repetitions."""
    expiries = part.run.expiries
    return None if expiries is None else expiries[np.isin(expiries[:, 2], part.moments), 0]


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
    setting=lambda _, options: f"prefill tier {options.prefill.text}" if options.prefill else "",
    after="arrivals",
    record=_record,
    rules=RULES,
    metrics=METRICS,
    rank=3,
)
