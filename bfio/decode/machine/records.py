"""The record of a run, gathered chunk by chunk."""

from typing import TYPE_CHECKING

import numpy as np

from bfio.decode.machine.counters import EXPIRED, LOGGED
from bfio.decode.machine.state import Record, State
from formulations.arrays import IntArray

if TYPE_CHECKING:
    pass

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
