"""Run the compiled and the interpreted engine on the tables of `bfio.batching.machine`.

Both engines use the phases of `bfio.batching.phases`. Compiled runs contain the built-in policies
as machine code. Interpreted runs call any policy batch by batch, through `Asking`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from bfio.batching import machine as s
from bfio.batching.machine import Machine
from bfio.batching.phases import (
    count_batch,
    count_decodes,
    load,
    load_decode,
    load_prefill,
    log_batch,
    run_slots,
    run_until,
)
from bfio.batching.policy import (
    BatchState,
    Mixing,
    Order,
    TokenBudgetPolicy,
    ask,
    policy_of_engine,
)
from bfio.batching.scenario import Balancer, Scenario
from bfio.batching.streams import Streams
from bfio.batching.tallies import (
    AREA_REQUESTS,
    AREA_TOKENS,
    BUSY,
    DEADLINE,
    DECODE,
    DECODING,
    DONE,
    JOINED,
    LONGEST,
    NUM_BINS,
    NUM_DRAWN,
    NUM_ENGINE,
    NUM_LOG,
    NUM_MEASURE,
    NUM_RUN,
    NUM_STAGE,
    NUM_TIMES,
    PREFILL,
    PREFILLING,
    REQUESTS,
    TOKENS,
    Moment,
    Tallies,
)
from bfio.batching.time_terms import Part, batch_slots, whole_coefficients
from bfio.common.kernel_groups import ensure_compiled
from bfio.common.kernels import entry_point, rewired
from formulations.arrays import IntArray
from formulations.batching import single_engine

#: Initial rows of a table; a full table is doubled.
_FIRST_ROWS = 256


class RunInProgress:
    """A run in progress: the state tables and the compiled or interpreted loop that advances them.

    Parameters
    ----------
    streams : Streams
        Random draws of the run.
    state : Machine
        State tables of the run.
    loop : callable
        Runs the slots before a given slot, see `bfio.batching.phases.run_slots`.
    rule : callable
        Its rule by which batches are formed; not read by machine code, which contains its own.
    deadlines : tuple of int
        Deadlines of `TTFT`, `TBT` and `E2E` [slots].
    """

    def __init__(
        self,
        streams: Streams,
        state: s.Machine,
        loop: Callable[[s.Machine, int, Any], int],
        rule: Callable[[s.Machine, int], None] | int,
        deadlines: tuple[int, int, int],
    ) -> None:
        self.streams, self.state, self._loop, self._rule = streams, state, loop, rule
        for row, deadline in zip(state.times, deadlines, strict=True):
            row[DEADLINE] = deadline
        self.known = 0

    def advance(self, until: int) -> None:
        """Run all slots before ``until``, and deliver the tasks due in ``until``."""
        counters = self.state.counters
        while not self.is_empty():
            self._load_window()
            # Arrivals are known up to the end of the window, so the loop must not pass it.
            goal = until if self.streams.is_over() else min(until, self.known)
            need = self._loop(self.state, goal, self._rule)
            if need != s.REACHED:
                self._give(need)
            elif counters[s.NOW] < goal and not self.is_empty():
                # No requests are present and none arrive before the next window.
                self.idle_until(goal)
            if need == s.REACHED and counters[s.NOW] >= until:
                return

    def is_empty(self) -> bool:
        """Return whether no requests are present and none will arrive."""
        state = self.state
        if state.counters[s.ARRIVAL] < len(state.arrivals) or state.counters[s.RETURNING]:
            return False
        # A request counts until it has departed from its engine.
        return self.streams.is_over() and not any(row[REQUESTS] for row in state.of_engines)

    def idle_until(self, slot: int) -> None:
        """Advance the clock to a slot, if no event occurs before it."""
        self.state.counters[s.NOW] = max(int(self.state.counters[s.NOW]), slot)

    def tallies(self) -> Tallies:
        """Return the counters of the run so far."""
        state, now = self.state, int(self.state.counters[s.NOW])
        engines, served = np.array(state.of_engines), np.array(state.engines)
        engines[:, BUSY] -= np.maximum(served[:, s.FREE_AT] - now, 0)
        engines[:, AREA_REQUESTS] += engines[:, REQUESTS] * now
        engines[:, AREA_TOKENS] += engines[:, TOKENS] * now
        histograms = state.histograms.copy()
        times = np.array(state.times)
        return Tallies(now, state.run.copy(), engines, self._stages(), times, histograms)

    def moment(self) -> Moment:
        """Return the current state, for the time series of the run."""
        state, engines = self.state, np.array(self.state.of_engines)
        loaded = engines[:, PREFILL] + engines[:, DECODE]
        return Moment(int(state.counters[s.NOW]), state.run.copy(), self._stages(), loaded)

    def _stages(self) -> IntArray:
        """Return the counters per stage, derived from those of the loop; see `machine.BEGUN`."""
        stages = np.array(self.state.of_stages)
        begun = stages[:, s.BEGUN].copy()
        stages[:, PREFILLING] = stages[:, JOINED] - begun
        stages[:, DECODING] = begun - stages[:, DONE]
        return stages

    def forget_longest(self) -> None:
        """Reset the longest measured times, at the end of the warm-up."""
        for row in self.state.times:
            row[LONGEST] = 0

    def log_rows(self) -> IntArray:
        """Return the log as raw rows, shape (L, 8)."""
        return self.state.log[: self.state.counters[s.LOG_ROWS]].copy()

    def _load_window(self) -> None:
        """Load the next window of arrivals, once all arrivals of the current one are delivered."""
        counters = self.state.counters
        while (
            counters[s.ARRIVAL] >= len(self.state.arrivals)
            and counters[s.NOW] >= self.known
            and not self.streams.is_over()
        ):
            window = self.streams.window()
            self.known = window.end
            self.state = self.state._replace(arrivals=window.arrivals)
            counters[s.ARRIVAL] = 0

    def _give(self, need: int) -> None:
        """Add rows to the state table that is full."""
        state = self.state
        if need == s.NEEDS_DRAWS:
            stage = int(state.counters[s.MISSING])
            block = self.streams.block(stage)
            # Write to the end of the table, so that the loop asks for draws only when all rows are
            # used.
            first = state.draws.shape[1] - len(block)
            state.draws[stage, first:] = block
            state.nodes[stage, s.N_DRAWN] = first
        elif need == s.NEEDS_TASKS:
            tasks = _linked(state.tasks, int(state.counters[s.FREE_TASK]), s.NEXT)
            state.counters[s.FREE_TASK] = len(state.tasks)
            self.state = state._replace(tasks=tasks)
        elif need == s.NEEDS_REQUESTS:
            requests = _linked(state.requests, int(state.counters[s.FREE_REQUEST]), 0)
            state.counters[s.FREE_REQUEST] = len(state.requests)
            self.state = state._replace(requests=requests)
        elif need == s.NEEDS_RETURNS:
            self.state = state._replace(returning=_doubled(state.returning))
        else:
            assert need == s.NEEDS_LOG
            self.state = state._replace(log=_doubled(state.log))


def _doubled(table: IntArray) -> IntArray:
    larger = np.zeros((2 * len(table), table.shape[1]), dtype=np.int64)
    larger[: len(table)] = table
    return larger


def _linked(table: IntArray, free: int, column: int) -> IntArray:
    """Return a table with twice the rows; new rows are linked before the free ones."""
    larger = _doubled(table)
    larger[len(table) :, column] = np.arange(len(table) + 1, len(larger) + 1)
    larger[-1, column] = free
    return larger


def interpreted(
    scenario: Scenario,
    streams: Streams,
    deadlines: tuple[int, int, int],
    *,
    keeps_log: bool = False,
) -> RunInProgress:
    """Return a run that calls the policies batch by batch; it supports every policy.

    Parameters
    ----------
    scenario : Scenario
        Scenario to simulate.
    streams : Streams
        Its random draws.
    deadlines : tuple of int
        Of `TTFT`, `TBT` and `E2E` [slots].
    keeps_log : bool
        Whether all tasks and batches are logged.
    """
    state = new_machine(scenario, streams, served_by_asking(scenario), keeps_log=keeps_log)
    small = ("counters", "engines", "of_engines", "of_stages", "times")
    state = state._replace(**{name: np.asarray(getattr(state, name)).tolist() for name in small})
    return RunInProgress(streams, state, run_slots, Asking(scenario), deadlines)


class Asking:
    """Rule of interpreted runs: ask the engine's policy, check its answer, load the batch.

    Parameters
    ----------
    scenario : Scenario
        Scenario to simulate.
    """

    def __init__(self, scenario: Scenario) -> None:
        network = scenario.network
        self._names, self._ranks = [stage.name for stage in network.stages], scenario.ranks
        self._engines = [
            (agent, serving, policy_of_engine(serving.policy))
            for agent in network.agents
            for serving in [scenario.serving_of(agent.name)] * agent.engines
        ]
        self._num_entered = 0

    def __call__(self, machine: s.Machine, engine: int) -> None:
        """Load the batch chosen by the engine's policy, unless it is empty."""
        agent, serving, policy = self._engines[engine]
        queue = _queue(machine, engine)
        tasks = machine.tasks[queue]
        prefill, stages = tasks[:, s.P_LEFT].tolist(), tasks[:, s.STAGE].tolist()
        knows = getattr(policy, "knows_lengths", False) is True
        state = BatchState(
            slot=int(machine.counters[s.NOW]),
            budget=agent.budget,
            chunked=agent.chunked,
            prefill=prefill,
            stage=[self._names[k] for k in stages],
            rank=[self._ranks[k] for k in stages],
            entered=tasks[:, s.ENTERED].tolist(),
            lengths=tasks[:, s.D_LEFT].tolist() if knows else None,
        )
        tokens = ask(policy, state, serving.name)
        cached = (tasks[:, s.TOTAL] - tasks[:, s.P_LEFT] - tasks[:, s.D_LEFT]).tolist()
        chosen = [
            (task, Part(loaded, left == 0, before))
            for task, loaded, left, before in zip(queue, tokens, prefill, cached, strict=True)
            if loaded
        ]
        if chosen:
            parts = [part for _, part in chosen]
            self._load(
                machine, engine, chosen, batch_slots(agent.batch_time, serving.terms, parts)
            )

    def _load(
        self, machine: s.Machine, engine: int, chosen: list[tuple[int, Part]], slots: int
    ) -> None:
        tokens = sum(part.tokens for _, part in chosen)
        end = int(machine.counters[s.NOW]) + slots
        for k, (task, part) in enumerate(chosen):
            machine.parts[k] = task, 0 if part.is_decode else part.tokens
        count_batch(machine, engine, tokens, slots)
        log_batch(machine, engine, len(chosen), tokens, slots)
        for task, part in chosen:
            record = machine.tasks[task]
            if part.is_decode:
                count_decodes(machine, record[s.STAGE], end - record[s.LAST], 1)
                load_decode(machine, engine, task, end)
                continue
            load_prefill(machine, engine, task, part.tokens, end)
            if record[s.P_LEFT] == 0:
                # A counter instead of the slot, so that entries of one batch are ordered too.
                record[s.ENTERED] = self._num_entered
                self._num_entered += 1
        run_until(machine, engine, tokens, sum(part.is_decode for _, part in chosen), end)


def _queue(machine: s.Machine, engine: int) -> list[int]:
    """Return the tasks of an engine in order of arrival at the engine."""
    found, following = [], machine.tasks[:, s.NEXT]
    first = s.prefill_list(machine, engine, 0)
    for line in range(first, s.leaving_list(machine, engine)):
        task = int(following[line])
        while task != line:
            found.append(task)
            task = int(following[task])
    numbers = machine.tasks[found, s.NUMBER].tolist()
    return [task for _, task in sorted(zip(numbers, found, strict=True))]


def new_machine(
    scenario: Scenario, streams: Streams, engines: IntArray, *, keeps_log: bool
) -> s.Machine:
    """Return the tables of a run before its first slot.

    Parameters
    ----------
    scenario : Scenario
        Scenario to simulate.
    streams : Streams
        Its random draws.
    engines : IntArray
        Shape (E, 27): parameters of each engine, see `served_by_policies` and `served_by_asking`.
    keeps_log : bool
        Whether all tasks and batches are logged.
    """
    network, num = scenario.network, len(scenario.network.stages)
    counters = np.zeros(s.NUM_COUNTERS, dtype=np.int64)
    ranks = max(scenario.ranks) + 1
    counters[s.NUM_RANKS], counters[s.KEEPS_LOG] = ranks, keeps_log
    largest = int(engines[:, s.S_BUDGET].max())
    log_rows = 2 * (largest + num + 1) if keeps_log else 1
    ends = len(engines) * (2 * ranks + 1)
    state = s.Machine(
        counters=counters,
        engines=engines,
        nodes=_node_table(scenario),
        children=_children(scenario),
        tasks=_free_rows(ends + max(_FIRST_ROWS, 2 * num), s.NUM_TASK, s.NEXT),
        requests=_free_rows(_FIRST_ROWS if network.fork_join else 1, 2 + num, 0),
        returning=np.zeros((max(_FIRST_ROWS, 2 * num), s.NUM_RETURNING), dtype=np.int64),
        draws=np.zeros((num, streams.block_rows, NUM_DRAWN), dtype=np.int64),
        arrivals=streams.initial().arrivals,
        prefills=np.zeros((largest, 2), dtype=np.int64),
        parts=np.zeros((largest, 2), dtype=np.int64),
        log=np.zeros((log_rows, NUM_LOG), dtype=np.int64),
        run=np.zeros(NUM_RUN, dtype=np.int64),
        of_engines=np.zeros((len(engines), NUM_ENGINE), dtype=np.int64),
        of_stages=np.zeros((num, NUM_STAGE), dtype=np.int64),
        times=np.zeros((NUM_TIMES, NUM_MEASURE), dtype=np.int64),
        histograms=np.zeros((NUM_TIMES, NUM_BINS), dtype=np.int64),
    )
    state.nodes[:, s.N_DRAWN] = streams.block_rows
    _make_lists(state, ranks)
    return state


def _make_lists(state: s.Machine, ranks: int) -> None:
    """Initialise the task lists as empty, and link the free task records."""
    per_engine = 2 * ranks + 1
    num = len(state.engines) * per_engine
    ends = state.tasks[:num]
    ends[:, s.NEXT] = ends[:, s.BEFORE] = np.arange(num)
    # An end precedes every task in each order, so that a search from the end stops there.
    ends[:, [s.NUMBER, s.ENTERED, s.P_LEFT, s.D_LEFT]] = -1
    by_size = np.repeat(np.array(state.engines)[:, s.S_PREFILL_ORDER] == s.LONGEST, per_engine)
    ends[by_size, s.P_LEFT] = np.iinfo(np.int64).max
    state.counters[s.FREE_TASK] = num


def _free_rows(rows: int, columns: int, column: int) -> IntArray:
    """Return a table of free rows, each linked to the next one."""
    table = np.zeros((rows, columns), dtype=np.int64)
    table[:, column] = np.arange(1, rows + 1)
    table[-1, column] = s.NONE
    return table


def served_by_asking(scenario: Scenario) -> IntArray:
    """Return the engine parameters for interpreted runs: budgets only."""
    budgets = [agent.budget for agent in scenario.network.agents for _ in range(agent.engines)]
    engines = np.zeros((len(budgets), s.NUM_SERVING), dtype=np.int64)
    engines[:, s.S_BUDGET] = budgets
    return engines


def served_by_policies(scenario: Scenario) -> IntArray:
    """Return the engine parameters for built-in policies."""
    rows = []
    for agent in scenario.network.agents:
        serving = scenario.serving_of(agent.name)
        policy, terms = serving.policy, serving.terms
        assert isinstance(policy, TokenBudgetPolicy)
        unit, overhead, *others = whole_coefficients(agent.batch_time, terms, agent.budget)
        per_token, square, cached, chunk, over, over_square, over_fixed = others
        row = np.zeros(s.NUM_SERVING, dtype=np.int64)
        row[: s.FREE_AT] = (
            agent.budget,
            list(Mixing).index(policy.mixing),
            policy.decode_first,
            policy.kp,
            policy.kd,
            policy.limit,
            policy.group,
            list(Order).index(policy.prefill_order),
            list(Order).index(policy.decode_order),
            agent.chunked,
            unit,
            overhead,
            per_token,
            agent.batch_time.free_tokens,
            square,
            cached,
            chunk,
            terms.memory,
            over,
            over_square,
            over_fixed,
            not terms.are_zero,
        )
        rows += [row] * agent.engines
    return np.array(rows, dtype=np.int64)


def _node_table(scenario: Scenario) -> IntArray:
    network = scenario.network
    first = np.concatenate(([0], np.cumsum([agent.engines for agent in network.agents])))
    nodes = np.zeros((len(network.stages), s.NUM_NODE), dtype=np.int64)
    for k, stage in enumerate(network.stages):
        j = network.agent_of[k]
        agent = network.agents[j]
        row = nodes[k]
        row[s.N_RANK] = scenario.ranks[k]
        row[s.N_FIRST_ENGINE], row[s.N_ENGINES] = first[j], agent.engines
        row[s.N_BALANCER] = list(Balancer).index(scenario.serving_of(agent.name).balancer)
        row[s.N_FORKS] = network.forks(k)
        row[s.N_TYPE] = network.types.index(stage.request_type)
        row[s.N_WAITS] = len(network.predecessors[k])
    return nodes


def _children(scenario: Scenario) -> IntArray:
    num = len(scenario.network.stages)
    children = np.zeros((num, num), dtype=np.int64)
    for k, followers in enumerate(scenario.network.successors):
        children[k, [target for target, _ in followers]] = 1
    return children


#: `run_slots` with the built-in rule, as machine code.
run_slots_compiled: Callable[[Machine, int, int], int] = entry_point(
    rewired(run_slots, form_batch=load)
)


def compile_kernels() -> None:
    """Compile the kernels, or load them from the cache on disk, so that runs can be timed."""
    # The rate is positive: a scenario without arrivals would not call the kernel.
    scenario = Scenario(single_engine(1, 1, 1, budget=1))
    compiled(scenario, Streams(scenario, 0), (0, 0, 0)).advance(1)


def compiled(
    scenario: Scenario,
    streams: Streams,
    deadlines: tuple[int, int, int],
    *,
    keeps_log: bool = False,
) -> RunInProgress:
    """Return a run with built-in policies in machine code; arguments as in `interpreted`."""
    ensure_compiled("batching")
    state = new_machine(scenario, streams, served_by_policies(scenario), keeps_log=keeps_log)
    return RunInProgress(streams, state, run_slots_compiled, 0, deadlines)
