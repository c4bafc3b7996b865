"""Lists of tasks: each engine has one per priority class and phase, and one of those that leave.

A list is a ring through a record that is no task: its end, whose row is the number of the list. So
neither an empty list nor the first or last task of one is a case of its own, and as the end comes
before every task, in whatever order, no search passes it.
"""

from bfio.batching.machine.state import (
    BEFORE,
    BY_ENTRY,
    D_LEFT,
    ENTERED,
    LONGEST,
    NEXT,
    NUM_RANKS,
    NUMBER,
    P_LEFT,
    SHORTEST,
    Machine,
)
from bfio.common.compilable import compilable
from bfio.common.indices import at


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
