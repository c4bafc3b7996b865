"""The tables of a compiled run before its first slot."""

import numpy as np

from bfio.batching import machine as s
from bfio.batching.policy import Mixing, Order, TokenBudgetPolicy
from bfio.batching.scenario import Balancer, Scenario
from bfio.batching.streams import Streams
from bfio.batching.tallies import (
    NUM_BINS,
    NUM_DRAWN,
    NUM_ENGINE,
    NUM_LOG,
    NUM_MEASURE,
    NUM_RUN,
    NUM_STAGE,
    NUM_TIMES,
)
from bfio.batching.time_terms import TimeTerms, whole_coefficients
from formulations.arrays import IntArray

#: Rows of tables at first; each is doubled when it is full.
_FIRST_ROWS = 256


def new_machine(scenario: Scenario, streams: Streams, *, keeps_log: bool) -> s.Machine:
    """Return the tables of a run in which nothing has happened yet.

    Parameters
    ----------
    scenario : Scenario
        What is simulated; all its policies are `TokenBudgetPolicy`.
    streams : Streams
        Its draws.
    keeps_log : bool
        Whether all that happens is written down.
    """
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
