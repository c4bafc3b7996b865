"""Kernels: the compiled decisions of a policy, and the loop of a run around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from bfio.common.compilable import compilable
from bfio.decode.features.cancellations import cancel_due
from bfio.decode.features.delay import decide_late, hurry
from bfio.decode.features.failures import fail_due
from bfio.decode.features.memory import relieve, swap_in
from bfio.decode.features.prefill import catch_up, close_up
from bfio.decode.machine.counters import (
    ACTIVE,
    CANCELLATIONS,
    EXPIRED,
    LOGGED,
    RECOMPUTE,
    SWAP,
    SWAPPED,
)
from bfio.decode.machine.moves import log_is_full, reveal
from bfio.decode.machine.phases import is_over, look_ahead, run_step, wait_for_arrival
from bfio.decode.machine.state import Record, State
from bfio.decode.machine.window import report

if TYPE_CHECKING:
    from collections.abc import Callable

    from bfio.decode.cluster import Cluster
    from bfio.decode.machine.greedy import Choose
    from bfio.decode.machine.window import Window
    from bfio.decode.options import RunOptions
    from bfio.decode.policy import Policy
    from bfio.workloads.workload import Workload

#: Return values of `run_chunk` in place of a number of steps: the kernel cannot decide exactly, so
#: the run is interpreted; no request runs and no event is pending.
NOT_EXACT = -1
STALLED = -2


class KernelTask(NamedTuple):
    """Input of a kernel: requests, machine, options, and the policy object in Python."""

    #: The run to simulate. ``policy_options`` are the options from which ``policy`` was made.
    workload: Workload
    cluster: Cluster
    options: RunOptions
    policy_options: Any
    policy: Policy
    history: Workload | None = None  #: Past requests, for predictors that learn.
    rule: int = 0  #: Index of this policy among the greedy policies that are compiled together.


@dataclass(frozen=True)
class Kernel:
    """The compiled form of a policy's decisions."""

    #: Takes a `KernelTask` and returns the memory of the kernel, a named tuple of arrays and
    #: parameters; or None if the kernel cannot decide this task exactly.
    memory: Callable[[KernelTask], Any]
    #: For a policy that serves requests one by one: returns the worker of the next request, see
    #: `bfio.decode.machine.greedy.Choose`.
    choose: Choose | None = None
    #: For any other policy: a compilable function ``decide(state, window, memory)``. It starts
    #: requests by `bfio.decode.machine.phases.admit` and `close_gaps`, and returns False if it
    #: could not decide exactly.
    decide: Callable[..., bool] | None = None
    #: Whether ``decide`` supports immediate dispatch: it then binds each arriving request by
    #: `bfio.decode.machine.phases.bind`. Otherwise such runs are interpreted.
    binds: bool = False
    #: Whether ``decide`` uses projections, up to the policy's own look-ahead.
    reads_window: bool = False
    #: Returns the policy's statistics from the memory at the end of a run.
    statistics: Callable[[Any], dict[str, object]] | None = None

    @property
    def module(self) -> str:
        """The module that defines the kernel."""
        return (self.decide or self.choose).__module__


def decide(state: State, window: Window, memory: Any) -> bool:
    """Raise NotImplementedError; `run_chunk` is linked with the decisions of a policy instead."""
    raise NotImplementedError


@compilable(apart=True)
def begin_step(state: State, record: Record) -> None:
    """Process failures and recoveries, cancellations, and memory overflows, in this order."""
    fail_due(state, record)
    cancelled = state.counters[CANCELLATIONS]
    cancel_due(state, record)
    if state.settings.overflow in (RECOMPUTE, SWAP):
        relieve(state, record)
    if state.tier.is_on and state.counters[CANCELLATIONS] > cancelled:
        close_up(state, record)


def run_chunk(state: State, window: Window, memory: Any, record: Record) -> int:
    """Run steps until the record is full or the run is over; this function defines a step.

    A compiled run links this function with the kernel of its policy. An interpreted run replaces
    some of the functions called here (`decide`, `is_over`, `report`, `run_step`) by its own.

    Returns the number of steps run, `NOT_EXACT` or `STALLED`.
    """
    row = 0
    state.counters[LOGGED] = state.counters[EXPIRED] = 0
    while row < len(record.start_s) and not is_over(state):
        if state.tier.is_on and not catch_up(state, record):
            break
        if state.settings.interrupts:
            if log_is_full(state, record):
                break
            begin_step(state, record)
        reveal(state)
        look_ahead(state)
        if state.counters[SWAPPED] > 0:
            swap_in(state)
        report(state, window)
        if state.settings.delay > 0:
            decide_late(state)
        if not decide(state, window, memory):
            return NOT_EXACT
        if state.settings.delay > 0 and state.counters[ACTIVE] == 0:
            hurry(state)
        if state.counters[ACTIVE] == 0:
            if not wait_for_arrival(state, record):
                return STALLED
            continue
        run_step(state, record, row)
        row += 1
    return row
