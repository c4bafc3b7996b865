"""Tasks in delays: a heap, the first to come back on top, of equal ones the first that went."""

from bfio.batching.machine.state import NUM_RETURNS, READY, RETURNING, Machine
from bfio.common.compilable import compilable


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
