"""How a policy's decisions become part of a compiled run: its kernel, and the loop around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from bfio.common.by_reference import by_reference
from bfio.common.compilable import compilable, rewired
from bfio.common.kernels import entry_point
from bfio.decode.features.cancellations import cancel_due
from bfio.decode.features.delay import decide_late, hurry
from bfio.decode.features.failures import fail_due
from bfio.decode.features.memory import relieve, swap_in
from bfio.decode.features.prefill.phases import catch_up, close_up
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

#: What a chunk returns instead of a number of steps: the kernel could not decide exactly, and the
#: run is interpreted; or nothing runs and nothing can arrive.
NOT_EXACT = -1
STALLED = -2


class KernelTask(NamedTuple):
    """What a kernel is to do: requests, machine, options, and the readable policy they made.

    Parameters
    ----------
    workload, cluster, options, policy_options, policy
        What is simulated, and how: the last two, the policy's own options and what they made.
    history : Workload, optional
        Requests of the past, for predictors that learn.
    rule : int
        Which of the greedy choices that are compiled together is this policy's.
    """

    workload: Workload
    cluster: Cluster
    options: RunOptions
    policy_options: Any
    policy: Policy
    history: Workload | None = None
    rule: int = 0


@dataclass(frozen=True)
class Kernel:
    """How compiled runs decide as a policy does.

    Parameters
    ----------
    memory : callable
        From a `KernelTask` to the arrays and settings that the kernel works on, a named tuple; or
        None if it cannot decide that task exactly.
    choose : callable, optional
        Of a policy that serves requests one after the other: the worker of the next one, as
        `bfio.decode.machine.greedy.Choose` says.
    decide : callable, optional
        Of any other policy: a compilable function ``decide(state, window, memory)``, which lets
        requests start by `bfio.decode.machine.phases.admit` and `close_gaps`, and answers False
        if it could not decide exactly.
    reads_window : bool
        Whether ``decide`` calls for projections, up to the policy's own look-ahead.
    statistics : callable, optional
        From the memory at the end of a run to what the policy says of itself.
    """

    memory: Callable[[KernelTask], Any]
    choose: Choose | None = None
    decide: Callable[..., bool] | None = None
    reads_window: bool = False
    statistics: Callable[[Any], dict[str, object]] | None = None

    @property
    def module(self) -> str:
        """The module that it is written in."""
        return (self.decide or self.choose).__module__


def decide(state: State, window: Window, memory: Any) -> bool:
    """Stand for the decisions of a policy in `run_chunk`."""
    raise NotImplementedError


@compilable(part_of="interruptions")
def begin_step(state: State, record: Record) -> None:
    """Let workers fail and recover, clients give up, and overflows be resolved, in this order."""
    fail_due(state, record)
    cancelled = state.counters[CANCELLATIONS]
    cancel_due(state, record)
    if state.settings.overflow in (RECOMPUTE, SWAP):
        relieve(state, record)
    if state.tier.is_on and state.counters[CANCELLATIONS] > cancelled:
        close_up(state, record)


def run_chunk(state: State, window: Window, memory: Any, record: Record) -> int:
    """Run until the record is full or the run is over: the one statement of what a step is.

    Compiled runs link it with the kernel of their policy and without the features that they do
    not use; interpreted runs call it with functions of their own for what it names (`decide`,
    `is_over`, `report`, `run_step`).

    Returns the number of steps run, or why there is none.
    """
    state, window, memory, record = (
        by_reference(state),
        by_reference(window),
        by_reference(memory),
        by_reference(record),
    )
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


def compiled_loop(
    name: str, kernel: Callable[..., bool], without: frozenset[str] = frozenset()
) -> Callable[[State, Window, Any, Record], int]:
    """Return `run_chunk` around a kernel, compiled on its first call and kept on disk.

    Parameters
    ----------
    name : str
        ``module:function`` under which it is kept.
    kernel : callable
        What decides.
    without : frozenset of str
        Features of the machine that it does not know, see `bfio.decode.machine.whole_run`.
    """
    return entry_point(rewired(run_chunk, decide=kernel), name=name, without=without)
