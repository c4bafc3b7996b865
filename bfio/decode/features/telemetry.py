"""Telemetry: delay and loss of the load reports that a policy sees.

At each step every worker reports its load, its requests, the requests bound to it, its memory in
use and its projected loads. A report of step k arrives at step k + ``delay``, or never with
probability ``loss``. A policy uses the last report until the next one arrives. Reports do not
include slots, because a router knows which requests it has sent and which have ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.common.array_kernels import copy_to, sum_of
from bfio.common.compilable import compilable
from bfio.common.metrics import MetricTable, Value
from bfio.decode.features.feature import Feature
from bfio.decode.machine.counters import ACTIVE, STEP
from bfio.decode.option_kinds import Telemetry
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from bfio.decode.cluster import Cluster
    from bfio.decode.machine.state import State
    from bfio.decode.machine.window import Window
    from bfio.decode.options import RunOptions
    from bfio.decode.policy_spec import PolicySpec
    from bfio.decode.run import RunPart
    from bfio.workloads.workload import Workload
    from formulations.arrays import IntArray

#: Number of steps for which losses are drawn; then they repeat.
_DRAWN_STEPS = 4096
#: Number of the random stream; policies, predictors and schedules use others.
_STREAM = 6

# Columns of a report before the projected loads and the projected running requests.
(LOAD, RUNNING, QUEUED, QUEUED_TOKENS, USED) = range(5)
_NUM_NOW = 5


class Reports(NamedTuple):
    """The state of each worker that policies see; without telemetry, the workers' own arrays."""

    is_on: bool  #: Whether reports are late or lost.
    #: Whether the arrays of shape (G,) are copies. A request that a policy sends then counts here
    #: as running at once, even if its start is delayed or not yet reported.
    is_apart: bool
    delay: int  #: Steps after which a report arrives.
    #: Shape (G,): see `WorkerRows` and `Machine` of `bfio.decode.machine.state`.
    load: IntArray
    running: IntArray
    queued: IntArray
    queued_tokens: IntArray
    used: IntArray
    #: Shape (G, H+1): projected loads [tokens], and projected running requests.
    base: IntArray
    left: IntArray
    last: IntArray  #: Shape (G, columns): the last report of each worker that has arrived.
    #: Shape (d+1, G, columns): recent reports; that of step k is at index k modulo d+1.
    past: IntArray
    lost: NDArray[np.int8]  #: Shape (T, G): see `bfio.decode.features.telemetry.losses`.
    refused: IntArray  #: Shape (1,): decisions of this step that found no memory.


def new_reports(
    given: Telemetry | None,
    now: tuple[IntArray, ...],
    look_ahead: int,
    seed: int,
    starts_late: bool,
) -> Reports:
    """Return the reports before the first step; without telemetry, the true state is known.

    ``now`` has loads, running requests, queued requests and their tokens, and memory in use, each
    of shape (G,). ``starts_late`` is true if decisions take effect later.
    """
    is_on, G = given is not None, len(now[0])
    is_apart = is_on or starts_late
    kept = given or Telemetry()
    steps, width = (kept.delay + 1, look_ahead + 1) if is_on else (0, 0)
    columns = _NUM_NOW + 2 * width
    load, running, queued, queued_tokens, used = (
        each.copy() if is_apart else each for each in now
    )
    base, left = np.zeros((2, G, width), dtype=np.int64)
    return Reports(
        is_on=is_on,
        is_apart=is_apart,
        delay=kept.delay,
        load=load,
        running=running,
        queued=queued,
        queued_tokens=queued_tokens,
        used=used,
        base=base,
        left=left,
        last=np.zeros((G, columns), dtype=np.int64),
        past=np.zeros((steps, G, columns), dtype=np.int64),
        lost=losses(kept, G if is_on else 0, seed),
        refused=np.zeros(1, dtype=np.int64),
    )


@compilable
def show(reports: Reports, g: int) -> None:
    """Copy the last report of a worker to the known state of the worker."""
    report, width = reports.last[g], reports.base.shape[1]
    reports.load[g] = report[LOAD]
    reports.running[g] = report[RUNNING]
    reports.queued[g] = report[QUEUED]
    reports.queued_tokens[g] = report[QUEUED_TOKENS]
    reports.used[g] = report[USED]
    for h in range(width):
        reports.base[g, h] = report[_NUM_NOW + h]
        reports.left[g, h] = report[_NUM_NOW + width + h]


@compilable
def note_sent(reports: Reports, worker: int, size: int, is_bound: bool) -> None:
    """Add a request sent at this step to the known state of its worker, until the next report."""
    if is_bound:
        reports.queued[worker] += 1
        reports.queued_tokens[worker] += size
    else:
        reports.running[worker] += 1
        reports.load[worker] += size


@compilable
def nobody_runs(reports: Reports) -> bool:
    """Return whether no request is known to run."""
    return sum_of(reports.running) == 0


def losses(given: Telemetry, num_workers: int, seed: int) -> NDArray[np.int8]:
    """Return the lost reports, shape (T, G): row k mod T is that of step k, 1 if lost."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM,)))
    steps = _DRAWN_STEPS if given.loss else 1
    return (rng.random((steps, num_workers)) < given.loss).astype(np.int8)


@compilable
def show_projection(state: State, window: Window) -> None:
    """Write the reported projected loads to the window; `receive` sets their sum."""
    for g in range(len(window.base)):
        copy_to(window.base[g], state.reports.base[g])
        copy_to(window.running[g], state.reports.left[g])


@compilable
def receive(state: State, window: Window) -> None:
    """Send the reports of this step, after the projection of loads, and receive the reports due.

    While no request runs, no step passes, and all reports arrive.
    """
    reports, step = state.reports, int(state.counters[STEP])
    slots = reports.delay + 1
    for g in range(len(reports.load)):
        write_report(state, window, reports.past[step % slots, g], g)
        if state.counters[ACTIVE] == 0:
            for slot in range(slots):
                copy_to(reports.past[slot, g], reports.past[step % slots, g])
        # The next slot of the ring has the report of ``delay`` steps ago.
        sent = step - reports.delay
        is_lost = sent >= 0 and reports.lost[sent % len(reports.lost), g] != 0
        if state.counters[ACTIVE] == 0 or not is_lost:
            copy_to(reports.last[g], reports.past[(step + 1) % slots, g])
        show(reports, g)


@compilable
def write_report(state: State, window: Window, report: IntArray, g: int) -> None:
    """Write the state of a worker into its report."""
    workers, width = state.workers, len(window.level)
    report[LOAD] = workers.load[g]
    report[RUNNING] = workers.running[g]
    report[QUEUED] = workers.queued[g]
    report[QUEUED_TOKENS] = workers.queued_tokens[g]
    report[USED] = state.machine.used[g]
    now = len(report) - 2 * width
    copy_to(report[now : now + width], window.base[g])
    copy_to(report[now + width :], window.running[g])


METRICS: MetricTable[RunPart] = MetricTable()


@METRICS.metric(
    "refused",
    "requests",
    "decisions refused for lack of memory on the worker, due to outdated reports",
)
def _refused(part: RunPart) -> Value:
    refused = part.run.refused
    return None if refused is None else int(refused[part.steps].sum())


#: Largest number of entries in all pending reports (1 GiB).
MAX_REPORTED = 2**27


def _check(
    workload: Workload, cluster: Cluster, options: RunOptions, look_ahead: int, pauses: bool
) -> None:
    """Raise InputError if the delay needs too much memory for pending reports."""
    if options.telemetry is not None:
        entries = (options.telemetry.delay + 1) * cluster.workers * (2 * look_ahead + 7)
        if entries > MAX_REPORTED:
            what = f"reports in transit would hold more than {MAX_REPORTED} numbers"
            raise InputError("telemetry", what, "use a shorter delay or look-ahead")


def _idle(
    policies: Sequence[PolicySpec], cluster: Cluster, options: RunOptions, tells_prompts: bool
) -> Iterator[str]:
    """Yield a remark on policies that read no reports, so that telemetry has no effect on them."""
    deaf = [policy.name for policy in policies if not policy.reads_reports]
    if options.telemetry is not None and deaf:
        yield (
            f"Telemetry has no effect on {', '.join(deaf)}: the policy reads no reports of "
            f"workers, only free slots."
        )


FEATURE = Feature(
    "telemetry",
    setting=lambda _, options: f"telemetry {options.telemetry.text}" if options.telemetry else "",
    after="arrivals",
    check=_check,
    idle=_idle,
    record=lambda state: {} if state.reports.is_on else {"refused": None},
    metrics=METRICS,
    rank=4,
)
