"""A naive engine for comparison, slot by slot as in section 2.2 of the paper.

Each slot has three phases. *Deliver*: requests of completed batches move on, by engine and in the
order in which they were loaded; then requests return from delays; then the arrivals of the
previous slot join. *Decide*: each engine with ``R = 0`` forms a batch of its queue. *Pass*: ``R``
decreases by one. A request leaves its queue when its last token is loaded, and departs when that
batch ends.
"""

from dataclasses import dataclass, field

import numpy as np

from bfio.batching.policy import BatchPolicy, BatchState, ask, policy_of_engine
from bfio.batching.scenario import Balancer, Scenario, Serving
from bfio.batching.streams import Streams, first_stages
from bfio.batching.tallies import (
    AREA_REQUESTS,
    AREA_TOKENS,
    ARRIVED,
    BATCHES,
    BUSY,
    COUNT,
    D_DECODE,
    D_DELAY,
    D_ENGINE,
    D_PREFILL,
    D_SUCCESSOR,
    DEADLINE,
    DECODE,
    DECODING,
    DEPARTED,
    DEPARTS,
    DONE,
    E2E,
    FULL,
    IN_TIME,
    JOINED,
    LOG_BATCH,
    LOG_PART,
    LOG_TASK,
    LONGEST,
    NUM_BINS,
    NUM_ENGINE,
    NUM_LOG,
    NUM_MEASURE,
    NUM_RUN,
    NUM_STAGE,
    NUM_TIMES,
    PREFILL,
    PREFILLING,
    REQUESTS,
    SHORT,
    SUM,
    TBT,
    TOKENS,
    TTFT,
    WORK,
    Moment,
    Tallies,
    bin_of,
)
from bfio.batching.time_terms import Part, batch_slots
from formulations.arrays import IntArray
from formulations.batching import Agent


@dataclass
class _Request:
    """A request on its way through the network."""

    number: int
    arrived: int
    #: For a fork–join type: unfinished tasks, and predecessors that each stage waits for.
    left: int = 1
    waits_for: dict[int, int] = field(default_factory=dict)


@dataclass
class _Task:
    """A request at one stage."""

    request: _Request
    stage: int
    prefill: int
    decode: int
    delay: int
    successor: int
    drawn_engine: int
    number: int = -1
    ready: int = 0
    prefill_left: int = 0
    decode_left: int = 0
    entered: int = -1
    last: int = 0

    @property
    def cached(self) -> int:
        """Tokens processed."""
        return self.prefill + self.decode - self.prefill_left - self.decode_left


@dataclass
class _Engine:
    """One engine of an agent."""

    number: int
    agent: Agent
    serving: Serving
    policy: BatchPolicy
    queue: list[_Task] = field(default_factory=list)
    leaving: list[_Task] = field(default_factory=list)
    remaining: int = 0


class NaiveMachine:
    """An interpreted run.

    Parameters
    ----------
    scenario : Scenario
        The scenario to simulate.
    streams : Streams
        Its random streams.
    deadlines : tuple of int
        Deadlines of `TTFT`, `TBT` and `E2E` [slots].
    keeps_log : bool
        Whether all events are logged.
    """

    def __init__(
        self,
        scenario: Scenario,
        streams: Streams,
        deadlines: tuple[int, int, int],
        *,
        keeps_log: bool = False,
    ) -> None:
        self.scenario, self.network, self.streams = scenario, scenario.network, streams
        self.now = 0
        self.engines = _engines(scenario)
        self.first_engine = _first_engines(scenario)
        self.returning: list[tuple[int, int, _Task]] = []
        self.blocks: dict[int, list[list[int]]] = {}
        self.arrivals: list[list[int]] = streams.initial().arrivals.tolist()[::-1]
        self.known = 0
        self.num_tasks = self.num_entered = self.num_returns = 0
        self.run = [0] * NUM_RUN
        self.of_engines = [[0] * NUM_ENGINE for _ in self.engines]
        self.of_stages = [[0] * NUM_STAGE for _ in self.network.stages]
        self.times = [[0] * NUM_MEASURE for _ in range(NUM_TIMES)]
        for row, deadline in zip(self.times, deadlines, strict=True):
            row[DEADLINE] = deadline
        self.histograms = np.zeros((NUM_TIMES, NUM_BINS), dtype=np.int64)
        self.rows: list[list[int]] | None = [] if keeps_log else None

    # -- what the driver asks ------------------------------------------------------------------

    def advance(self, until: int) -> None:
        """Run all slots before ``until``, and deliver the requests due then."""
        self._deliver()
        while self.now < until and not self.is_empty():
            for engine in self.engines:
                if engine.remaining == 0:
                    self._decide(engine)
            for engine in self.engines:
                engine.remaining = max(engine.remaining - 1, 0)
            self.now += 1
            self._deliver()

    def is_empty(self) -> bool:
        """Return whether no request is present and none will arrive."""
        there = any(engine.queue or engine.leaving for engine in self.engines)
        more = self.arrivals or self.returning or not self.streams.is_over()
        return not there and not more

    def tallies(self) -> Tallies:
        """Return the counts so far."""
        engines = [row.copy() for row in self.of_engines]
        for row, engine in zip(engines, self.engines, strict=True):
            row[BUSY] -= engine.remaining
            row[AREA_REQUESTS] += row[REQUESTS] * self.now
            row[AREA_TOKENS] += row[TOKENS] * self.now
        run, of_engines, of_stages, times = (
            np.array(table, dtype=np.int64)
            for table in (self.run, engines, self.of_stages, self.times)
        )
        return Tallies(self.now, run, of_engines, of_stages, times, self.histograms.copy())

    def moment(self) -> Moment:
        """Return the current state of the run."""
        run, stages = np.array(self.run), np.array(self.of_stages)
        loaded = [row[PREFILL] + row[DECODE] for row in self.of_engines]
        return Moment(self.now, run, stages, np.array(loaded))

    def idle_until(self, slot: int) -> None:
        """Skip slots without events."""
        self.now = max(self.now, slot)

    def forget_longest(self) -> None:
        """Reset the longest times."""
        for row in self.times:
            row[LONGEST] = 0

    def log_rows(self) -> IntArray:
        """Return the raw log."""
        return np.array(self.rows or [], dtype=np.int64).reshape(-1, NUM_LOG)

    # -- a slot begins -------------------------------------------------------------------------

    def _deliver(self) -> None:
        for engine in self.engines:
            if engine.remaining == 0:
                leaving, engine.leaving = engine.leaving, []
                for task in leaving:
                    self._finish(engine, task)
        self.returning.sort(key=lambda entry: entry[:2])
        while self.returning and self.returning[0][0] <= self.now:
            self._join(self.returning.pop(0)[2])
        while (stage := self._next_arrival()) is not None:
            self._arrive(stage)

    def _next_arrival(self) -> int | None:
        """Return the stage of the next request that arrived before this slot."""
        while not self.arrivals and self.known < self.now and not self.streams.is_over():
            window = self.streams.window()
            self.arrivals, self.known = window.arrivals.tolist()[::-1], window.end
        if self.arrivals and self.arrivals[-1][0] < self.now:
            return self.arrivals.pop()[1]
        return None

    def _arrive(self, stage: int) -> None:
        request = _Request(self.run[ARRIVED], self.now)
        self.run[ARRIVED] += 1
        begun = first_stages(self.scenario, stage)
        if self.network.forks(stage):
            kind = self.network.stages[stage].request_type
            own = [k for k, s in enumerate(self.network.stages) if s.request_type == kind]
            request.left = len(own)
            request.waits_for = {k: len(self.network.predecessors[k]) for k in own}
        for k in begun:
            self._join(self._drawn(request, k))

    def _drawn(self, request: _Request, stage: int) -> _Task:
        """Return a task with the next draws of its stage."""
        if not self.blocks.get(stage):
            self.blocks[stage] = self.streams.block(stage).tolist()[::-1]
        row = self.blocks[stage].pop()
        return _Task(
            request,
            stage,
            prefill=row[D_PREFILL],
            decode=row[D_DECODE],
            delay=row[D_DELAY],
            successor=row[D_SUCCESSOR],
            drawn_engine=row[D_ENGINE],
            prefill_left=row[D_PREFILL],
            decode_left=row[D_DECODE],
        )

    def _join(self, task: _Task) -> None:
        """Let a task join an engine of its agent."""
        number = self._chosen_engine(task)
        task.number, task.ready = self.num_tasks, self.now
        self.num_tasks += 1
        self.engines[number].queue.append(task)
        tokens = task.prefill + task.decode
        of_engine, of_stage = self.of_engines[number], self.of_stages[task.stage]
        of_engine[REQUESTS] += 1
        of_engine[TOKENS] += tokens
        of_engine[AREA_REQUESTS] -= self.now
        of_engine[AREA_TOKENS] -= tokens * self.now
        of_stage[JOINED] += 1
        of_stage[PREFILLING] += 1
        of_stage[WORK] += tokens
        entry = (LOG_TASK, task.number, task.request.number, task.stage, number)
        self._write(*entry, self.now, task.prefill, task.decode)

    def _chosen_engine(self, task: _Task) -> int:
        j = self.network.agent_of[task.stage]
        agent, first = self.network.agents[j], self.first_engine[j]
        engines = range(first, first + agent.engines)
        balancer = self.scenario.serving_of(agent.name).balancer
        if balancer is Balancer.RANDOM:
            return first + task.drawn_engine
        if balancer is Balancer.FIRST:
            return first
        column = REQUESTS if balancer is Balancer.REQUESTS else TOKENS
        return min(engines, key=lambda e: self.of_engines[e][column])

    # -- a task ends ---------------------------------------------------------------------------

    def _finish(self, engine: _Engine, task: _Task) -> None:
        row = self.of_engines[engine.number]
        row[REQUESTS] -= 1
        row[AREA_REQUESTS] += self.now
        self.of_stages[task.stage][DECODING] -= 1
        self.of_stages[task.stage][DONE] += 1
        request = task.request
        followers = [] if task.successor == DEPARTS else [task.successor]
        if self.network.forks(task.stage):
            followers = self._released(request, task.stage)
            request.left -= 1
        elif not followers:
            request.left = 0
        if request.left == 0:
            self.run[DEPARTED] += 1
            self._measure(E2E, self.now - request.arrived)
        for stage in followers:
            self._follow(self._drawn(request, stage))

    def _released(self, request: _Request, stage: int) -> list[int]:
        """Return the stages that only waited for this one."""
        released = []
        for target, _ in self.network.successors[stage]:
            request.waits_for[target] -= 1
            if request.waits_for[target] == 0:
                released.append(target)
        return released

    def _follow(self, task: _Task) -> None:
        if task.delay == 0:
            self._join(task)
        else:
            self.returning.append((self.now + task.delay, self.num_returns, task))
            self.num_returns += 1

    # -- an engine decides ---------------------------------------------------------------------

    def _decide(self, engine: _Engine) -> None:
        if not engine.queue:
            return
        state = self._state(engine)
        tokens = ask(engine.policy, state, engine.serving.name)
        if not sum(tokens):
            return
        loaded = [(task, x) for task, x in zip(engine.queue, tokens, strict=True) if x]
        parts = [Part(x, task.prefill_left == 0, task.cached) for task, x in loaded]
        slots = batch_slots(engine.agent.batch_time, engine.serving.terms, parts)
        self._count_batch(engine, state, sum(tokens), slots)
        self._write(LOG_BATCH, engine.number, self.now, slots, sum(tokens), len(parts))
        for (task, _), part in zip(loaded, parts, strict=True):
            self._write(LOG_PART, task.number, part.tokens, int(part.is_decode))
            self._load(engine, task, part, self.now + slots)
        engine.queue = [task for task in engine.queue if task.decode_left]
        engine.remaining = slots

    def _state(self, engine: _Engine) -> BatchState:
        knows = getattr(engine.policy, "knows_lengths", False) is True
        return BatchState(
            slot=self.now,
            budget=engine.agent.budget,
            chunked=engine.agent.chunked,
            prefill=[task.prefill_left for task in engine.queue],
            stage=[self.network.stages[task.stage].name for task in engine.queue],
            rank=[self.scenario.ranks[task.stage] for task in engine.queue],
            entered=[task.entered for task in engine.queue],
            lengths=[task.decode_left for task in engine.queue] if knows else None,
        )

    def _count_batch(self, engine: _Engine, state: BatchState, tokens: int, slots: int) -> None:
        row = self.of_engines[engine.number]
        row[BUSY] += slots
        row[BATCHES] += 1
        row[FULL] += tokens == state.budget
        row[SHORT] += tokens < min(state.budget, state.eligible)
        row[TOKENS] -= tokens
        row[AREA_TOKENS] += tokens * (self.now + 1)

    def _load(self, engine: _Engine, task: _Task, part: Part, end: int) -> None:
        row, of_stage = self.of_engines[engine.number], self.of_stages[task.stage]
        of_stage[WORK] -= part.tokens
        if part.is_decode:
            row[DECODE] += 1
            task.decode_left -= 1
            self._measure(TBT, end - task.last)
            if task.decode_left == 0:
                engine.leaving.append(task)
        else:
            row[PREFILL] += part.tokens
            task.prefill_left -= part.tokens
            if task.prefill_left == 0:
                of_stage[PREFILLING] -= 1
                of_stage[DECODING] += 1
                task.entered = self.num_entered
                self.num_entered += 1
                self._measure(TTFT, end - task.ready)
        task.last = end

    # -- what is written down ------------------------------------------------------------------

    def _measure(self, which: int, slots: int) -> None:
        row = self.times[which]
        row[COUNT] += 1
        row[SUM] += slots
        row[LONGEST] = max(row[LONGEST], slots)
        row[IN_TIME] += slots <= row[DEADLINE]
        self.histograms[which, bin_of(slots)] += 1

    def _write(self, *entry: int) -> None:
        if self.rows is not None:
            self.rows.append([*entry, *[0] * (NUM_LOG - len(entry))])


def _first_engines(scenario: Scenario) -> list[int]:
    counts = [agent.engines for agent in scenario.network.agents]
    return [sum(counts[:j]) for j in range(len(counts))]


def _engines(scenario: Scenario) -> list[_Engine]:
    found: list[_Engine] = []
    for agent in scenario.network.agents:
        serving = scenario.serving_of(agent.name)
        for _ in range(agent.engines):
            policy = policy_of_engine(serving.policy)
            found.append(_Engine(len(found), agent, serving, policy))
    return found
