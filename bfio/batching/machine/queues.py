"""Lists of tasks: each engine has one per priority class and phase."""

from bfio.batching.machine.state import (
    BEFORE,
    BY_ENTRY,
    D_LEFT,
    ENTERED,
    HEAD,
    LONGEST,
    NEXT,
    NONE,
    NUM_RANKS,
    NUMBER,
    P_LEFT,
    SHORTEST,
    TAIL,
    Machine,
)
from bfio.common.compilable import compilable


@compilable(into_caller=True)
def list_of(machine: Machine, engine: int, rank: int, phase: int) -> int:
    """Return the list of an engine, class and phase (0: prefill, 1: decode)."""
    return int((engine * machine.counters[NUM_RANKS] + rank) * 2 + phase)


@compilable(into_caller=True)
def comes_before(machine: Machine, first: int, second: int, order: int, column: int) -> bool:
    """Return whether a task comes before another; of equal ones the oldest does."""
    tasks = machine.tasks
    a, b = 0, 0
    if order == SHORTEST:
        a, b = tasks[first, column], tasks[second, column]
    elif order == LONGEST:
        a, b = -tasks[first, column], -tasks[second, column]
    elif order == BY_ENTRY:
        a, b = tasks[first, ENTERED], tasks[second, ENTERED]
    return bool(a < b or (a == b and tasks[first, NUMBER] < tasks[second, NUMBER]))


@compilable(into_caller=True)
def insert(machine: Machine, line: int, task: int, order: int, phase: int) -> None:
    """Put a task at its place, which is looked for from the end: mostly it is the last."""
    tasks, ends = machine.tasks, machine.lists[line]
    column = D_LEFT if phase else P_LEFT
    after = ends[TAIL]
    while after != NONE and comes_before(machine, task, after, order, column):
        after = tasks[after, BEFORE]
    following = ends[HEAD] if after == NONE else tasks[after, NEXT]
    tasks[task, BEFORE], tasks[task, NEXT] = after, following
    if after == NONE:
        ends[HEAD] = task
    else:
        tasks[after, NEXT] = task
    if following == NONE:
        ends[TAIL] = task
    else:
        tasks[following, BEFORE] = task


@compilable(into_caller=True)
def remove(machine: Machine, line: int, task: int) -> None:
    """Take a task out of a list."""
    tasks, ends = machine.tasks, machine.lists[line]
    before, following = tasks[task, BEFORE], tasks[task, NEXT]
    if before == NONE:
        ends[HEAD] = following
    else:
        tasks[before, NEXT] = following
    if following == NONE:
        ends[TAIL] = before
    else:
        tasks[following, BEFORE] = before
