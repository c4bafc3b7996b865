"""The tables of the machine: its state, lists of tasks, and the heap of those in delays.

Lists of tasks: each engine has one per priority class and phase, and one of those that leave.

A list is a ring through a record that is no task: its end, whose row is the number of the list. So
neither an empty list nor the first or last task of one is a case of its own, and as the end comes
before every task, in whatever order, no search passes it.

Tasks in delays: a heap, the first to come back on top, of equal ones the first that went.
"""

from typing import NamedTuple, TypeAlias

from bfio.batching.tallies import DECODING
from bfio.common.compilable import compilable
from bfio.common.indices import at
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

# Numbers of `bfio.batching.policy.Mixing` and `Order`.
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


#: A small table: interpreted runs have lists, whose entries are read several times as fast.
Rows: TypeAlias = IntArray | list[list[int]]


class Machine(NamedTuple):
    """A run.

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
        Shape (T, 16): first the ends of the lists, see `bfio.batching.machine`, then
        records, free ones linked.
    requests : IntArray
        Shape (R, 2 + n): requests of fork–join types, free ones linked.
    returning : IntArray
        Shape (C, 3): tasks in delays.
    draws : IntArray
        Shape (n, rows, 5), see `bfio.batching.tallies`.
    arrivals : IntArray
        Shape (m, 2): the present window.
    prefills : IntArray
        Shape (b, 2): prompts of the batch that is formed: task, tokens. Its decode tokens are
        those of the first tasks of their lists.
    parts : IntArray
        Shape (b, 2): all of that batch in order of age, where its time or the log needs it: task,
        tokens; 0 for a decode token.
    log : IntArray
        Shape (L, 8), see `bfio.batching.tallies`.
    run, of_engines, of_stages, times, histograms : IntArray
        See `bfio.batching.tallies`; of stages, see `BEGUN`.
    """

    counters: IntArray | list[int]
    engines: Rows
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
    of_engines: Rows
    of_stages: Rows
    times: Rows
    histograms: IntArray


@compilable(into_caller=True)
def prefill_list(machine: Machine, engine: int, rank: int) -> int:
    """Return the list of an engine's class in the prefill phase; the next is of its decodes."""
    return int(engine * (2 * machine.counters[NUM_RANKS] + 1) + 2 * rank)


@compilable(into_caller=True)
def leaving_list(machine: Machine, engine: int) -> int:
    """Return the list of tasks that leave an engine when its batch ends."""
    return prefill_list(machine, engine, machine.counters[NUM_RANKS])


@compilable(into_caller=True)
def comes_before(machine: Machine, first: int, second: int, order: int, column: int) -> bool:
    """Return whether a task comes before another; of equal ones the oldest does."""
    one, other = machine.tasks[at(first)], machine.tasks[at(second)]
    a, b = 0, 0
    if order == SHORTEST:
        a, b = one[column], other[column]
    elif order == LONGEST:
        a, b = -one[column], -other[column]
    elif order == BY_ENTRY:
        a, b = one[ENTERED], other[ENTERED]
    return bool(a < b or (a == b and one[NUMBER] < other[NUMBER]))


@compilable(into_caller=True)
def insert(machine: Machine, line: int, task: int, order: int, phase: int) -> None:
    """Put a task at its place, which is looked for from the end: mostly it is the last."""
    tasks = machine.tasks
    column = D_LEFT if phase else P_LEFT
    after = tasks[at(line), BEFORE]
    while comes_before(machine, task, after, order, column):
        after = tasks[at(after), BEFORE]
    following = tasks[at(after), NEXT]
    tasks[at(task), BEFORE], tasks[at(task), NEXT] = after, following
    tasks[at(after), NEXT] = task
    tasks[at(following), BEFORE] = task


@compilable(into_caller=True)
def remove(machine: Machine, task: int) -> None:
    """Take a task out of its list."""
    tasks = machine.tasks
    before, following = tasks[at(task), BEFORE], tasks[at(task), NEXT]
    tasks[at(before), NEXT] = following
    tasks[at(following), BEFORE] = before


@compilable(into_caller=True)
def delay(machine: Machine, task: int) -> None:
    """Put a task into the heap of those in delays."""
    counters, heap = machine.counters, machine.returning
    place = counters[RETURNING]
    counters[RETURNING] += 1
    heap[place, 0], heap[place, 1] = machine.tasks[task, READY], counters[NUM_RETURNS]
    heap[place, 2] = task
    counters[NUM_RETURNS] += 1
    while place > 0 and is_earlier(machine, place, (place - 1) // 2):
        swap(machine, place, (place - 1) // 2)
        place = (place - 1) // 2


@compilable(into_caller=True)
def come_back(machine: Machine) -> int:
    """Take the first task out of the heap of those in delays."""
    counters, heap = machine.counters, machine.returning
    task = heap[0, 2]
    counters[RETURNING] -= 1
    last = counters[RETURNING]
    swap(machine, 0, last)
    place, least = 0, 0
    while True:
        for child in (2 * place + 1, 2 * place + 2):
            if child < last and is_earlier(machine, child, least):
                least = child
        if least == place:
            return int(task)
        swap(machine, place, least)
        place = least


@compilable(into_caller=True)
def is_earlier(machine: Machine, first: int, second: int) -> bool:
    """Return whether one entry of the heap comes before another."""
    heap = machine.returning
    return bool(
        heap[first, 0] < heap[second, 0]
        or (heap[first, 0] == heap[second, 0] and heap[first, 1] < heap[second, 1])
    )


@compilable(into_caller=True)
def swap(machine: Machine, first: int, second: int) -> None:
    """Let two entries of the heap change places."""
    heap = machine.returning
    for column in range(3):
        heap[first, column], heap[second, column] = heap[second, column], heap[first, column]
