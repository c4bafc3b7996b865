"""The state of a compiled run: tables of integers, and what their columns mean."""

from typing import NamedTuple

from bfio.batching.tallies import DECODING
from formulations.arrays import IntArray

# Entries of `Machine.counters`: the slot; next row of the arrivals; first free record and first
# free request; next task, request back from a delay, and row of the log; entries of the calendar;
# whether a log is kept; slot before which all arrivals are known.
(NOW, ARRIVAL, FREE_TASK, FREE_REQUEST, NUM_TASKS, NUM_RETURNS, LOG_ROWS, RETURNING, KEEPS_LOG,
 NUM_RANKS, MISSING, NUM_COUNTERS) = range(12)  # fmt: skip

# Why a loop returns: the slot is reached, or a table needs rows: draws of a stage (`MISSING`),
# records of tasks or of requests, entries of the calendar, rows of the log.
REACHED, NEEDS_DRAWS, NEEDS_TASKS, NEEDS_REQUESTS, NEEDS_RETURNS, NEEDS_LOG = range(6)

# Columns of `Machine.engines` that say how it serves, and those that change.
(S_BUDGET, S_MIXING, S_DECODE_FIRST, S_KP, S_KD, S_LIMIT, S_GROUP, S_PREFILL_ORDER,
 S_DECODE_ORDER, S_CHUNKED, S_UNIT, S_OVERHEAD, S_PER_TOKEN, S_FREE, S_SQUARE, S_CACHED, S_CHUNK,
 S_MEMORY, S_OVER, S_OVER_SQUARE, S_OVER_FIXED, S_HAS_TERMS,
 FREE_AT, TO_PREFILL, NUM_PREFILLING, PREFILL_TOKENS, NUM_DECODING,
 NUM_SERVING) = range(28)  # fmt: skip

# Numbers of `bfio.batching.token_budget.Mixing` and `Order`.
MIXED, DECODE_FIRST, PREFILL_FIRST, GROUPS = range(4)
BY_ARRIVAL, BY_ENTRY, SHORTEST, LONGEST = range(4)
# Numbers of `bfio.batching.scenario.Balancer`.
RANDOM, LEAST_REQUESTS, LEAST_TOKENS, FIRST = range(4)

# Columns of `Machine.nodes`, one row per stage: priority; its agent's engines and balancer;
# next row of its draws; whether it forks; its type; predecessors.
(N_RANK, N_FIRST_ENGINE, N_ENGINES, N_BALANCER, N_DRAWN, N_FORKS, N_TYPE, N_WAITS,
 NUM_NODE) = range(9)  # fmt: skip

# Columns of `Machine.tasks`: neighbours in its list; tokens left; end of the last batch with it;
# stage; its number, which orders tasks by age; list of its class in the prefill phase; slot of
# entry into the decode phase; slot from which on it may be loaded; all tokens; its
# request, or when that arrived; what follows. Columns that every batch needs come first.
(NEXT, BEFORE, P_LEFT, D_LEFT, LAST, STAGE, NUMBER, LINE, ENTERED, READY, TOTAL, REQUEST,
 T_SUCCESSOR, T_PREFILL, T_REQUEST_NUMBER, T_ENGINE_DRAWN, NUM_TASK) = range(17)  # fmt: skip
# Of the end of a list of decodes, in their place: its tasks, and how many of them the batch takes.
LENGTH, CHOSEN = LAST, STAGE

# Columns of `Machine.requests`, of fork–join types: when it arrived, tasks that are not done, then
# the predecessors for which each stage waits. A free one has the next free one first.
R_ARRIVED, R_LEFT, R_WAITS = range(3)

# Columns of `Machine.returning`, a heap: slot, number, task.
NUM_RETURNING = 3

#: Column of `Machine.of_stages` in the place of the tasks that are in the decode phase: all that
#: have entered it. Tasks in either phase follow from it and from those that joined and are done.
BEGUN = DECODING

#: No record, no engine.
NONE = -1


class Machine(NamedTuple):
    """A compiled run.

    Parameters
    ----------
    counters : IntArray
        Shape (11,).
    engines : IntArray
        Shape (E, 27): how each serves, and what it does.
    nodes : IntArray
        Shape (n, 8): the stages.
    children : IntArray
        Shape (n, n): 1 where a stage of a fork–join type is followed by another.
    tasks : IntArray
        Shape (T, 16): first the ends of the lists, see `bfio.batching.machine.queues`, then
        records, free ones linked.
    requests : IntArray
        Shape (R, 2 + n): requests of fork–join types, free ones linked.
    returning : IntArray
        Shape (C, 3): tasks in delays.
    draws : IntArray
        Shape (n, rows, 5), see `bfio.batching.draws`.
    arrivals : IntArray
        Shape (m, 2): the present window.
    prefills : IntArray
        Shape (b, 2): prompts of the batch that is formed: task, tokens. Its decode tokens are
        those of the first tasks of their lists.
    parts : IntArray
        Shape (b, 2): all of that batch in order of age, where its time or the log needs it: task,
        tokens; 0 for a decode token.
    log : IntArray
        Shape (L, 8), see `bfio.batching.log`.
    run, of_engines, of_stages, times, histograms : IntArray
        See `bfio.batching.tallies`; of stages, see `BEGUN`.
    """

    counters: IntArray
    engines: IntArray
    nodes: IntArray
    children: IntArray
    tasks: IntArray
    requests: IntArray
    returning: IntArray
    draws: IntArray
    arrivals: IntArray
    prefills: IntArray
    parts: IntArray
    log: IntArray
    run: IntArray
    of_engines: IntArray
    of_stages: IntArray
    times: IntArray
    histograms: IntArray
