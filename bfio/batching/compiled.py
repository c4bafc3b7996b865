"""Built-in policies on the compiled machine, behind the interface of the readable engine."""

from collections.abc import Callable
from functools import cache

import numpy as np

from bfio.batching.draws import NUM_DRAWN
from bfio.batching.log import NUM_LOG
from bfio.batching.machine import state as s
from bfio.batching.machine.loop import run_slots
from bfio.batching.scenario import Balancer, Scenario
from bfio.batching.streams import Streams
from bfio.batching.tallies import (
    AREA_REQUESTS,
    AREA_TOKENS,
    BUSY,
    DEADLINE,
    LONGEST,
    NUM_BINS,
    NUM_ENGINE,
    NUM_MEASURE,
    NUM_RUN,
    NUM_STAGE,
    NUM_TIMES,
    REQUESTS,
    TOKENS,
    Tallies,
)
from bfio.batching.time_terms import TimeTerms, whole_coefficients
from bfio.batching.token_budget import Mixing, Order, TokenBudgetPolicy
from bfio.common.compilable import linked
from bfio.common.kernel_groups import ensure_compiled
from bfio.common.kernels import entry_point
from formulations.arrays import IntArray
from formulations.batching import single_engine

#: Rows of tables at first; each is doubled when it is full.
_FIRST_ROWS = 256


def compile_kernels() -> None:
    """Compile the kernel, or load it from the cache on disk, before any clock runs."""
    # Somebody may come: the kernel is not called where nobody does.
    scenario = Scenario(single_engine(1, 1, 1, budget=1))
    CompiledMachine(scenario, Streams(scenario, 0), (0, 0, 0)).advance(1)


@cache
def _machine_code() -> Callable[[s.Machine, int], int]:
    compiled: Callable[[s.Machine, int], int] = entry_point(linked(run_slots))
    return compiled


class CompiledMachine:
    """A run in machine code; parameters and methods as of `ReferenceMachine`."""

    def __init__(
        self,
        scenario: Scenario,
        streams: Streams,
        deadlines: tuple[int, int, int],
        *,
        keeps_log: bool = False,
    ) -> None:
        ensure_compiled("batching")
        self.scenario, self.streams = scenario, streams
        self.state = _new_machine(scenario, streams, keeps_log=keeps_log)
        self.state.times[:, DEADLINE] = deadlines
        self.known = 0
        self._loop = _machine_code()

    def advance(self, until: int) -> None:
        """See `ReferenceMachine.advance`."""
        counters = self.state.counters
        while not self.is_empty():
            self._load_window()
            # All that arrives before the end of a window is known; not what comes after it.
            goal = until if self._is_complete() else min(until, self.known)
            need = self._loop(self.state, goal)
            if need != s.REACHED:
                self._give(need)
            elif counters[s.NOW] < goal and not self.is_empty():
                # Nobody is there, and nobody comes before the next window.
                self.idle_until(goal)
            if need == s.REACHED and counters[s.NOW] >= until:
                return

    def is_empty(self) -> bool:
        """See `ReferenceMachine.is_empty`."""
        state = self.state
        if state.counters[s.ARRIVAL] < len(state.arrivals) or state.counters[s.RETURNING]:
            return False
        # A request counts until it has departed from its engine.
        return self.streams.is_over() and not state.of_engines[:, REQUESTS].any()

    def idle_until(self, slot: int) -> None:
        """See `ReferenceMachine.idle_until`."""
        self.state.counters[s.NOW] = max(int(self.state.counters[s.NOW]), slot)

    def tallies(self) -> Tallies:
        """See `ReferenceMachine.tallies`."""
        state, now = self.state, int(self.state.counters[s.NOW])
        engines = state.of_engines.copy()
        engines[:, BUSY] -= np.maximum(state.engines[:, s.FREE_AT] - now, 0)
        engines[:, AREA_REQUESTS] += engines[:, REQUESTS] * now
        engines[:, AREA_TOKENS] += engines[:, TOKENS] * now
        tables = (state.run, engines, state.of_stages, state.times, state.histograms)
        return Tallies(now, *(table.copy() for table in tables))

    def forget_longest(self) -> None:
        """See `ReferenceMachine.forget_longest`."""
        self.state.times[:, LONGEST] = 0

    def log_rows(self) -> IntArray:
        """See `ReferenceMachine.log_rows`."""
        return self.state.log[: self.state.counters[s.LOG_ROWS]].copy()

    def _is_complete(self) -> bool:
        return self.streams.is_over()

    def _load_window(self) -> None:
        """Take the next arrivals, once all of the present window have come."""
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
        """Give a table the rows that it needs."""
        state = self.state
        if need == s.NEEDS_DRAWS:
            stage = int(state.counters[s.MISSING])
            block = self.streams.block(stage)
            # At the end of the table, so that all rows are used when its end is reached.
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
    """Return a table of twice the rows, the new ones linked, before those that are free."""
    larger = _doubled(table)
    larger[len(table) :, column] = np.arange(len(table) + 1, len(larger) + 1)
    larger[-1, column] = free
    return larger


def _new_machine(scenario: Scenario, streams: Streams, *, keeps_log: bool) -> s.Machine:
    network = scenario.network
    engines, num = _engine_table(scenario), len(network.stages)
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
    """Make the first records the ends of empty lists, and the first free task the next."""
    per_engine = 2 * ranks + 1
    num = len(state.engines) * per_engine
    ends = state.tasks[:num]
    ends[:, s.NEXT] = ends[:, s.BEFORE] = np.arange(num)
    # Before every task, in each order: a search from the end of a list stops at the latest here.
    ends[:, [s.NUMBER, s.ENTERED, s.P_LEFT, s.D_LEFT]] = -1
    by_size = np.repeat(state.engines[:, s.S_PREFILL_ORDER] == s.LONGEST, per_engine)
    ends[by_size, s.P_LEFT] = np.iinfo(np.int64).max
    state.counters[s.FREE_TASK] = num


def _free_rows(rows: int, columns: int, column: int) -> IntArray:
    """Return a table all of whose rows are free, each linked with the next."""
    table = np.zeros((rows, columns), dtype=np.int64)
    table[:, column] = np.arange(1, rows + 1)
    table[-1, column] = s.NONE
    return table


def _engine_table(scenario: Scenario) -> IntArray:
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
            terms != TimeTerms(),
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
        for target, _ in followers:
            children[k, target] = 1
    return children
