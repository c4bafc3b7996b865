"""The record of a run, gathered chunk by chunk."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bfio.decode.cluster import Cluster
from bfio.decode.features.registry import FEATURES
from bfio.decode.machine.counters import ADMITTED, COMPLETED, EXPIRED, FINISHED, LOGGED, STEP
from bfio.decode.machine.state import Record, State
from bfio.decode.observers import StepView
from bfio.decode.options import RunOptions
from bfio.decode.run import Run
from bfio.decode.state import DecodeState
from formulations.arrays import IntArray, frozen

if TYPE_CHECKING:
    from bfio.decode.features.batching.batches import Batching
    from bfio.decode.features.pausing.rests import Rests

#: Most steps of a chunk, and most entries of its loads (8 MiB).
MAX_CHUNK_STEPS = 20_000
MAX_CHUNK_ENTRIES = 2**20


#: Interruptions that a chunk has room for besides those of its last step.
LOG_SIZE = 4096


class Chunks:
    """The records of all chunks of a run.

    Parameters
    ----------
    state : State
        The run: which columns there are follows from it.
    keep_trajectory : bool
        Keep loads and running requests; otherwise all chunks share one array for them, so that
        memory does not grow with G times the number of steps.
    """

    def __init__(self, state: State, keep_trajectory: bool) -> None:
        settings, self._num_workers = state.settings, len(state.workers.load)
        self._paces, self._caches = not settings.one_pace, settings.caches
        self._reports = state.reports.is_on
        # What one step may interrupt, and the requests that may expire while the clock jumps.
        most = len(state.lists.running) if settings.interrupts else 0
        self._log_size = most + LOG_SIZE if most else 0
        expiring = len(state.tier.where)
        self._most_expiries = expiring + LOG_SIZE if expiring else 0
        self.keeps = keep_trajectory
        self.most_steps = max(1, min(MAX_CHUNK_STEPS, MAX_CHUNK_ENTRIES // self._num_workers))
        self._shared: tuple[IntArray, IntArray] | None = None
        self._kept = [self.new(0)]

    def new(self, num_steps: int) -> Record:
        """Return an empty record of at most ``most_steps`` steps."""
        times = [np.empty(num_steps) for _ in range(3)]
        counts = [np.empty(num_steps, dtype=np.int64) for _ in range(6)]
        if self.keeps or num_steps == 0:
            trajectory = self._trajectory(num_steps)
        else:
            trajectory = self._shared = self._shared or self._trajectory(self.most_steps)
        balanced_s = np.empty(num_steps if self._paces else 0)
        log = np.empty((self._log_size if num_steps else 0, 5), dtype=np.int64)
        hits = np.empty(num_steps if self._caches else 0, dtype=np.int64)
        expiries = np.empty((self._most_expiries if num_steps else 0, 3), dtype=np.int64)
        refused = np.empty(num_steps if self._reports else 0, dtype=np.int64)
        rows = (log, hits, expiries, refused)
        return Record._make([*times, *counts, *trajectory, balanced_s, *rows])

    def keep(self, record: Record, num_steps: int, state: State) -> None:
        """Keep the first steps of a record, and what was interrupted and expired in them."""
        rows = num_steps if self.keeps else 0
        kept = Record._make(array[:num_steps] for array in record)
        self._kept.append(
            kept._replace(
                loads=record.loads[:rows],
                running=record.running[:rows],
                # A view would keep all of a log that is mostly empty.
                interruptions=record.interruptions[: state.counters[LOGGED]].copy(),
                expiries=record.expiries[: state.counters[EXPIRED]].copy(),
            )
        )

    def joined(self) -> Record:
        """Return what was kept of all chunks."""
        return Record._make(np.concatenate(parts) for parts in zip(*self._kept, strict=True))

    def _trajectory(self, num_steps: int) -> tuple[IntArray, IntArray]:
        shape = (num_steps, self._num_workers)
        return np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)


def step_view(
    state: State,
    record: Record,
    row: int,
    seen: DecodeState | None = None,
    decision: tuple[int | None, ...] | None = None,
) -> StepView:
    """Show an observer the step in a row of the record, which is the last one run.

    Parameters
    ----------
    state, record, row
        The run after that step, its record, and the row.
    seen, decision
        What the policy saw and answered, if that is known.
    """
    counters = state.counters
    return StepView(
        step=int(counters[STEP]) - 1,
        start_s=float(record.start_s[row]),
        duration_s=float(record.duration_s[row]),
        loads=frozen(record.loads[row].copy()),
        running=frozen(record.running[row].copy()),
        waiting=int(record.waiting[row]),
        admitted=frozen(np.sort(state.lists.started[: counters[ADMITTED]])),
        finished=frozen(np.sort(state.lists.ended[: counters[FINISHED]])),
        completed=int(counters[COMPLETED]),
        state=seen,
        decision=decision,
    )


def finished_run(
    policy: str,
    engine: str,
    cluster: Cluster,
    options: RunOptions,
    state: State,
    chunks: Chunks,
    wall_s: float,
    statistics: Mapping[str, object] | None = None,
    decide_s: float = 0.0,
    rests: "Rests | None" = None,
    batching: "Batching | None" = None,
) -> Run:
    """Freeze what happened into a `Run`."""
    record, marks = chunks.joined(), state.marks
    if len(state.cancellations.time_s) > 0:
        # Who came and gave up after the last step belongs to none.
        state.reveal_s[marks.reveal == state.counters[STEP]] = np.nan
        marks.reveal[marks.reveal == state.counters[STEP]] = -1
    kept: dict[str, Any] = {name: frozen(array) for name, array in record._asdict().items()}
    if not chunks.keeps:
        kept |= {"loads": None, "running": None}
    if state.settings.one_pace:
        kept["balanced_s"] = None
    for feature in FEATURES:
        kept |= feature.record(state)
    if batching is not None:
        rests = batching.rests
        kept["chunks"] = batching.log()
    if rests is not None:
        kept |= {"rests": rests.log(), "max_pauses": rests.max_pauses}
    return Run(
        policy=policy,
        engine=engine,
        cluster=cluster,
        options=options,
        reveal_step=frozen(marks.reveal),
        start_step=frozen(marks.first),
        last_start_step=frozen(marks.start),
        finish_step=frozen(np.where(marks.last < state.counters[STEP], marks.last, -1)),
        worker=frozen(marks.worker),
        bound_step=frozen(marks.bound),
        prompt_tokens=frozen(state.requests.prompt),
        emitted_tokens=frozen(emitted_tokens(state)),
        cancel_step=frozen(marks.cancel) if len(marks.cancel) else nowhere(len(marks.last)),
        reveal_s=frozen(state.reveal_s),
        arrival_s=frozen(state.arrival_s) if state.settings.timed else None,
        statistics=statistics or {},
        wall_s=wall_s,
        decide_s=decide_s,
        **kept,
    )


def nowhere(num_requests: int) -> IntArray:
    """Return -1 for each request, shape (n,), in the memory of one number."""
    return np.broadcast_to(np.int64(-1), num_requests)


def emitted_tokens(state: State) -> IntArray:
    """Return the tokens that each request has emitted so far, shape (n,)."""
    if state.counters[COMPLETED] == len(state.pool) and len(state.cancellations.time_s) == 0:
        return state.requests.output
    step, marks = state.counters[STEP], state.marks
    runs = marks.last >= 0
    since = np.minimum(marks.last + 1, step) - marks.start
    return state.requests.emitted + np.where(runs, since, 0)
