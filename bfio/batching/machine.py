"""State tables of a run: counters, lists of tasks, and the heap of delayed tasks.

Each engine has one list of tasks per priority class and phase, and one of the tasks that leave.

A list is a ring that contains one extra record, its end. The row of that record is the number of
the list. So empty lists and first or last tasks need no special case. The end precedes every task
in every order, so no search passes it.

Delayed tasks form a heap by the slot of their return; ties go by the order of entry.
"""

from typing import NamedTuple, TypeAlias

from bfio.batching.tallies import DECODING
from bfio.common.array_kernels import at
from bfio.common.compilable import compilable
from formulations.arrays import IntArray

# Entries of `Machine.counters`: present slot; next row of the arrivals; first free task and
# request records; numbers of the next task and of the next entry into the heap of delays; rows of
# the log; size of the heap; whether a log is kept; priority classes; stage that needs draws.
(NOW, ARRIVAL, FREE_TASK, FREE_REQUEST, NUM_TASKS, NUM_RETURNS, LOG_ROWS, RETURNING, KEEPS_LOG,
 NUM_RANKS, MISSING, NUM_COUNTERS) = range(12)  # fmt: skip

# Why a loop returns: it reached the slot, or a table is full: draws of a stage (`MISSING`),
# records of tasks or of requests, entries of the heap of delays, rows of the log.
REACHED, NEEDS_DRAWS, NEEDS_TASKS, NEEDS_REQUESTS, NEEDS_RETURNS, NEEDS_LOG = range(6)

# Columns of `Machine.engines`: constant parameters (``S_...``), then the state.
(S_BUDGET, S_MIXING, S_DECODE_FIRST, S_KP, S_KD, S_LIMIT, S_GROUP, S_PREFILL_ORDER,
 S_DECODE_ORDER, S_CHUNKED, S_UNIT, S_OVERHEAD, S_PER_TOKEN, S_FREE, S_SQUARE, S_CACHED, S_CHUNK,
 S_MEMORY, S_OVER, S_OVER_SQUARE, S_OVER_FIXED, S_HAS_TERMS,
 FREE_AT, TO_PREFILL, NUM_PREFILLING, PREFILL_TOKENS, NUM_DECODING,
 NUM_SERVING) = range(28)  # fmt: skip

# Indices of the members of `bfio.batching.policy.Mixing` and `Order`.
MIXED, DECODE_FIRST, PREFILL_FIRST, GROUPS = range(4)
BY_ARRIVAL, BY_ENTRY, SHORTEST, LONGEST = range(4)
# Indices of the members of `bfio.batching.scenario.Balancer`.
RANDOM, LEAST_REQUESTS, LEAST_TOKENS, FIRST = range(4)

# Columns of `Machine.nodes`, one row per stage: priority; first engine, engines and balancer of
# its agent; next row of its draws; whether it forks; its type; number of predecessors.
(N_RANK, N_FIRST_ENGINE, N_ENGINES, N_BALANCER, N_DRAWN, N_FORKS, N_TYPE, N_WAITS,
 NUM_NODE) = range(9)  # fmt: skip

# Columns of `Machine.tasks`: next and previous task of its list; prefill and decode tokens left;
# end of its last batch; stage; number, which sorts tasks by age; its class's list of the prefill
# phase; slot of entry into the decode phase; first slot in which it may be loaded; total tokens;
# its request, or the slot in which that arrived; next stage; prefill tokens; number of its
# request; drawn engine. Columns used by every batch come first.
(NEXT, BEFORE, P_LEFT, D_LEFT, LAST, STAGE, NUMBER, LINE, ENTERED, READY, TOTAL, REQUEST,
 T_SUCCESSOR, T_PREFILL, T_REQUEST_NUMBER, T_ENGINE_DRAWN, NUM_TASK) = range(17)  # fmt: skip
# The end record of a decode list uses these columns for its length and the number of tasks chosen.
LENGTH, CHOSEN = LAST, STAGE

# Columns of `Machine.requests`, for fork–join types: slot of arrival, unfinished tasks, then the
# number of unfinished predecessors of each stage. A free record holds the next free one in its
# first column.
R_ARRIVED, R_LEFT, R_WAITS = range(3)

# Columns of `Machine.returning`, a heap: slot of return, number of entry, task.
NUM_RETURNING = 3

#: Column of `Machine.of_stages` for all tasks that have entered the decode phase; it replaces the
#: present tasks of that phase. The present tasks of each phase follow from it.
BEGUN = DECODING

#: No record, no engine.
NONE = -1


#: A small table. Interpreted runs use lists, whose entries are read several times as fast.
Rows: TypeAlias = IntArray | list[list[int]]


class Machine(NamedTuple):
    """The state tables of a run.

    Parameters
    ----------
    counters : IntArray
        Shape (11,).
    engines : IntArray
        Shape (E, 27): parameters and state of each engine.
    nodes : IntArray
        Shape (n, 8): the stages.
    children : IntArray
        Shape (n, n): 1 where a stage of a fork–join type precedes another.
    tasks : IntArray
        Shape (T, 16): first the ends of the lists, see `bfio.batching.machine`, then task records;
        the free records are linked.
    requests : IntArray
        Shape (R, 2 + n): requests of fork–join types; the free records are linked.
    returning : IntArray
        Shape (C, 3): tasks in delays.
    draws : IntArray
        Shape (n, rows, 5), see `bfio.batching.tallies`.
    arrivals : IntArray
        Shape (m, 2): arrivals of the present window.
    prefills : IntArray
        Shape (b, 2): prompts of the batch that is formed: task, tokens. Its decode tokens belong
        to the first tasks of the decode lists.
    parts : IntArray
        Shape (b, 2): all parts of that batch, oldest task first: task, tokens (0 for a decode
        token). Filled only if the batch time or the log needs it.
    log : IntArray
        Shape (L, 8), see `bfio.batching.tallies`.
    run, of_engines, of_stages, times, histograms : IntArray
        See `bfio.batching.tallies`, and `BEGUN` for stages.
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
    """Return the number of a class's prefill list on an engine; its decode list comes next."""
    return int(engine * (2 * machine.counters[NUM_RANKS] + 1) + 2 * rank)


@compilable(into_caller=True)
def leaving_list(machine: Machine, engine: int) -> int:
    """Return the list of tasks that leave an engine at the end of its batch."""
    return prefill_list(machine, engine, machine.counters[NUM_RANKS])


@compilable(into_caller=True)
def comes_before(machine: Machine, first: int, second: int, order: int, column: int) -> bool:
    """Return whether a task precedes another one in an order; on ties the older task does."""
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
    """Insert a task into a sorted list, searching from the end, where most tasks belong."""
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
    """Remove a task from its list."""
    tasks = machine.tasks
    before, following = tasks[at(task), BEFORE], tasks[at(task), NEXT]
    tasks[at(before), NEXT] = following
    tasks[at(following), BEFORE] = before


@compilable(into_caller=True)
def delay(machine: Machine, task: int) -> None:
    """Push a task onto the heap of delayed tasks."""
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
    """Pop the delayed task with the earliest return from the heap."""
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
    """Return whether one heap entry precedes another."""
    heap = machine.returning
    return bool(
        heap[first, 0] < heap[second, 0]
        or (heap[first, 0] == heap[second, 0] and heap[first, 1] < heap[second, 1])
    )


@compilable(into_caller=True)
def swap(machine: Machine, first: int, second: int) -> None:
    """Swap two heap entries."""
    heap = machine.returning
    for column in range(3):
        heap[first, column], heap[second, column] = heap[second, column], heap[first, column]
