"""Plans of the window for Python callers, and as a kernel of compiled runs."""

from typing import NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.decode.machine.counters import ACTIVE, SLOTS, WAITING
from bfio.decode.machine.kernel import Kernel, KernelTask
from bfio.decode.machine.phases import admit_assigned, free_slots
from bfio.decode.machine.state import State, most_waiting
from bfio.decode.machine.window import Window, project
from bfio.decode.rolling.kernel import DECIDED, plan_admissions
from bfio.decode.rolling.reference import MOST_WAITING, planned_reference
from bfio.step.two_stage.kernels.two_stage import order_by_size
from formulations.arrays import IntArray


def planned(
    free: IntArray, base: IntArray, running: IntArray, contribution: IntArray, moves: int
) -> list[int | None]:
    """Assign ``min(N, free slots)`` waiting requests to workers by a plan of the window.

    Arguments are those of `plan_admissions`, with at least one move; None means that a request
    keeps waiting.
    """
    num = min(len(contribution), max(MOST_WAITING, int(free.sum())))
    waiting = [None] * (len(contribution) - num)
    # New, writeable and contiguous arrays, so that one compiled version serves every caller.
    added = np.array(contribution[:num], dtype=np.int64, order="C")
    capacity, loads, runs = (np.array(x, dtype=np.int64, order="C") for x in (free, base, running))
    by_size, assignment = np.empty((2, num), dtype=np.int64)
    if num == 0 or not capacity.any():
        return [None] * len(contribution)
    order_by_size(added[:, 0].copy(), by_size)
    if plan_admissions(capacity, loads, runs, added, by_size, moves, assignment) != DECIDED:
        return [*planned_reference(capacity, loads, runs, added, moves), *waiting]
    return [*(None if worker < 0 else worker for worker in assignment.tolist()), *waiting]


def warm_up() -> None:
    """Compile or load the kernel by a plan of one request and one slot."""
    one = np.ones((1, 1), dtype=np.int64)
    planned(one[0], one, one, one, 1)


class Planner(NamedTuple):
    """Parameters and buffers of the plans of a run."""

    moves: int  #: Number of exchanges that a plan evaluates.
    #: Shape (most waiting,): the waiting requests, largest first; worker of each, -1 for none.
    by_size: IntArray
    assignment: IntArray


def memory(task: KernelTask) -> Planner | None:
    """Return the memory of the kernel; None if decisions are delayed, because these hold slots."""
    if task.options.delay > 0:
        return None
    most = most_waiting(task.workload, task.cluster, task.options)
    by_size, assignment = np.empty((2, most), dtype=np.int64)
    return Planner(task.policy.moves, by_size, assignment)  # type: ignore[attr-defined]


@compilable(allocates=True)
def decide(state: State, window: Window, planner: Planner) -> bool:
    """Start the requests that the plan starts now; return False if 64-bit sums are not exact."""
    counters = state.counters
    num_free = counters[SLOTS] - counters[ACTIVE]
    if counters[WAITING] == 0 or num_free == 0:
        return True
    project(state, window)
    num = min(counters[WAITING], max(MOST_WAITING, num_free))
    contribution = window.contribution[:num]
    by_size, assignment = planner.by_size[:num], planner.assignment[:num]
    order_by_size(contribution[:, 0].copy(), by_size)
    free = free_slots(state)
    status = plan_admissions(
        free, window.base, window.running, contribution, by_size, planner.moves, assignment
    )
    if status != DECIDED:
        return False
    admit_assigned(state, assignment)
    return True


KERNEL = Kernel(memory, decide=decide, reads_window=True)
