"""The record of a compiled run, gathered chunk by chunk."""

from collections.abc import Sequence

import numpy as np

from bfio.decode.cluster import Cluster
from bfio.decode.compiled.state import (
    COMPLETED,
    LAST,
    REVEAL,
    START,
    STEP,
    WORKER,
    Record,
    State,
)
from bfio.decode.observers import StepView
from bfio.decode.options import RunOptions
from bfio.decode.run import Run
from formulations.arrays import FloatArray, IntArray, frozen

#: Most steps of a chunk, and most entries of its loads (8 MiB).
MAX_CHUNK_STEPS = 20_000
MAX_CHUNK_ENTRIES = 2**20


class Chunks:
    """The records of all chunks of a run.

    Parameters
    ----------
    num_workers : int
        ``G``.
    keep_trajectory : bool
        Keep loads and running requests; otherwise all chunks share one array for them, so that
        memory does not grow with G times the number of steps.
    """

    def __init__(self, num_workers: int, keep_trajectory: bool) -> None:
        self._num_workers = num_workers
        self._keeps = keep_trajectory
        self.most_steps = max(1, min(MAX_CHUNK_STEPS, MAX_CHUNK_ENTRIES // num_workers))
        self._shared = None if keep_trajectory else self._trajectory(self.most_steps)
        self._times: list[FloatArray] = []
        self._counts: list[IntArray] = []
        self._loads: list[IntArray] = []
        self._running: list[IntArray] = []

    def new(self, num_steps: int) -> Record:
        """Return an empty record of at most ``most_steps`` steps."""
        loads, running = self._shared or self._trajectory(num_steps)
        return Record(
            np.empty((3, num_steps)), np.empty((6, num_steps), dtype=np.int64), loads, running
        )

    def keep(self, record: Record, num_steps: int) -> None:
        """Keep the first steps of a record."""
        self._times.append(record.times[:, :num_steps])
        self._counts.append(record.counts[:, :num_steps])
        if self._keeps:
            self._loads.append(record.loads[:num_steps])
            self._running.append(record.running[:num_steps])

    def times(self) -> FloatArray:
        """Return start, duration and idle time before of each step, shape (3, K) [s]."""
        return np.concatenate([np.empty((3, 0)), *self._times], axis=1)

    def counts(self) -> IntArray:
        """Return the counts of each step, shape (6, K)."""
        return np.concatenate([np.empty((6, 0), dtype=np.int64), *self._counts], axis=1)

    def loads(self) -> IntArray | None:
        """Return the loads of each step, shape (K, G) [tokens], if they are kept."""
        return self._joined(self._loads)

    def running(self) -> IntArray | None:
        """Return the running requests of each step, shape (K, G), if they are kept."""
        return self._joined(self._running)

    def _joined(self, rows: Sequence[IntArray]) -> IntArray | None:
        if not self._keeps:
            return None
        none = np.empty((0, self._num_workers), dtype=np.int64)
        return frozen(np.concatenate([none, *rows]))

    def _trajectory(self, num_steps: int) -> tuple[IntArray, IntArray]:
        shape = (num_steps, self._num_workers)
        return np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)


def last_view(state: State, record: Record, row: int) -> StepView:
    """Show an observer the step in a row of the record, which is the last one run.

    It holds neither what the policy saw nor what it answered.
    """
    step = int(state.counters[STEP]) - 1
    return StepView(
        step=step,
        start_s=float(record.times[0, row]),
        duration_s=float(record.times[1, row]),
        loads=frozen(record.loads[row].copy()),
        running=frozen(record.running[row].copy()),
        waiting=int(record.counts[4, row]),
        admitted=frozen(np.flatnonzero(state.marks[START] == step)),
        finished=frozen(np.flatnonzero(state.marks[LAST] == step)),
        completed=int(state.counters[COMPLETED]),
        state=None,
        decision=None,
    )


def finished_run(
    policy: str,
    cluster: Cluster,
    options: RunOptions,
    state: State,
    chunks: Chunks,
    arrival_s: FloatArray | None,
) -> Run:
    """Freeze what happened into a `Run`, whose wall-clock time is still to be set."""
    start_s, duration_s, idle_before_s = (frozen(row) for row in chunks.times())
    peak, least, total, active, waiting, admitted = (frozen(row) for row in chunks.counts())
    marks = state.marks
    last = marks[LAST]
    return Run(
        policy=policy,
        cluster=cluster,
        options=options,
        start_s=start_s,
        duration_s=duration_s,
        idle_before_s=idle_before_s,
        max_load=peak,
        min_load=least,
        total_load=total,
        active=active,
        waiting=waiting,
        admitted=admitted,
        loads=chunks.loads(),
        running=chunks.running(),
        reveal_step=frozen(marks[REVEAL]),
        start_step=frozen(marks[START]),
        finish_step=frozen(np.where(last < state.counters[STEP], last, -1)),
        worker=frozen(marks[WORKER]),
        reveal_s=frozen(state.reveal_s),
        arrival_s=None if arrival_s is None else frozen(arrival_s),
    )
