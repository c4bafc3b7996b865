"""The state of a run as flat arrays, and the record of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bfio.decode.features.cancellations import Cancellations, cancellations_of
from bfio.decode.features.failures import Failures, failures_of
from bfio.decode.features.memory import Host, peaks
from bfio.decode.features.prefill import Tier, new_tier
from bfio.decode.features.prefixes import PrefixCaches, new_caches
from bfio.decode.features.stragglers import Stragglers, stragglers_of
from bfio.decode.features.telemetry import Reports, new_reports
from bfio.decode.machine.counters import EXPIRED, FURTHEST, LOGGED, SLOTS, TAKEN
from bfio.decode.machine.moves import StartOrder, new_start_order
from bfio.decode.offered_load import rate_factor
from bfio.decode.options import (
    ArrivalMode,
    Dispatch,
    Overflow,
    Projection,
    RunOptions,
    Settings,
    may_interrupt,
    settings_of,
)
from bfio.prediction.length_history import Prediction, no_prediction
from formulations.arrays import IntArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bfio.decode.cluster import Cluster
    from bfio.decode.drift import Drift
    from bfio.workloads.workload import Workload
    from formulations.arrays import FloatArray

#: Range of the length of the timing wheel, whose k-th list holds the requests whose last step is k
#: modulo this length. A request with a longer output is visited several times.
MIN_WHEEL = 2**12
MAX_WHEEL = 2**16


class RequestRows(NamedTuple):
    """Data of the requests, each array of shape (n,)."""

    #: Prompt and output length [tokens].
    prompt: IntArray
    output: IntArray
    #: Tokens emitted before the last start; > 0 only after an interruption.
    emitted: IntArray
    #: Load at the next or last start: the prompt plus the growth until then [tokens].
    size: IntArray
    #: Free memory needed to start [tokens]: ``size``, or the peak load under `reserve`.
    need: IntArray
    #: Next request in the queue of the worker; for a running request, next in its list of the
    #: timing wheel.
    next: IntArray
    place: IntArray  #: Index in the list of running requests.


class Marks(NamedTuple):
    """Step of each event of each request, shape (n,), for the record; -1 before the event."""

    #: Steps of the reveal, the first start, and the last start.
    reveal: IntArray
    first: IntArray
    start: IntArray
    last: IntArray  #: Last step, set at the start; the finish if the run reaches it.
    #: Worker that the request is bound to, and step at which the policy bound the request.
    worker: IntArray
    bound: IntArray
    #: Step before which the client cancelled the request; empty if no request leaves early.
    cancel: IntArray


class WorkerRows(NamedTuple):
    """State of the workers, each array of shape (G,)."""

    #: Load [tokens] and number of running requests.
    load: IntArray
    running: IntArray
    #: Number and total size [tokens] of requests bound to the worker but not running, due to
    #: immediate dispatch or to delayed decisions.
    queued: IntArray
    queued_tokens: IntArray
    #: First and last request of this queue, if it is not empty.
    head: IntArray
    tail: IntArray
    swapped: IntArray  #: Number of the worker's requests that are swapped out to the host.


class Machine(NamedTuple):
    """Current capacity and speed of each worker, each array of shape (G,)."""

    #: Number of slots ``B_g``, and memory ``κ_g`` [tokens].
    slots: IntArray
    memory: IntArray
    used: IntArray  #: Memory in use [tokens]: the load, or the reserved memory.
    #: Overhead of a step ``C_g`` [s], and time per token ``t_g`` [s/token].
    overhead_s: FloatArray
    token_time_s: FloatArray
    #: Slots, overhead and time per token without failures and slowdowns.
    own_slots: IntArray
    own_overhead_s: FloatArray
    own_token_time_s: FloatArray


class Lists(NamedTuple):
    """Lists of requests in arbitrary order; `State.counters` holds their lengths."""

    #: Shape (most running requests,): running; started and ended at this step.
    running: IntArray
    started: IntArray
    ended: IntArray


class State(NamedTuple):
    """The complete state of a run, with the constants of the run."""

    settings: Settings
    #: See `bfio.decode.machine.counters` for the names of the entries.
    counters: IntArray
    clock: FloatArray
    sight: NDArray[np.bool_]
    #: Shape (period + 1,): ``D(0..period)``, cumulative drift over a period [tokens].
    gains: IntArray
    requests: RequestRows
    marks: Marks
    #: Shape (n,): times of reveal and arrival [s]; ``arrival_s`` is empty without timed arrivals.
    reveal_s: FloatArray
    arrival_s: FloatArray
    #: Shape (n,): the waiting requests are ``pool[REVEALED - WAITING : REVEALED]``, oldest first.
    pool: IntArray
    lists: Lists
    host: Host
    #: Shape (2^k,): first request in the list of those whose last step is this index modulo 2^k.
    wheel: IntArray
    workers: WorkerRows
    machine: Machine
    outages: Failures
    cancellations: Cancellations
    #: Shape (G, 2^k), ``2^k > H``: ring of endings. A column has the requests whose known or
    #: predicted last step is its index modulo 2^k and lies in the window: the sum of prompts less
    #: the drift before their starts [tokens], and their number.
    ending_load: IntArray
    ending_count: IntArray
    prediction: Prediction
    prefixes: PrefixCaches
    slowness: Stragglers
    order: StartOrder  #: Running requests of each worker by start, if memory may overflow.
    tier: Tier
    reports: Reports  #: State of the workers as policies see it.


class Record(NamedTuple):
    """The record of a chunk of C steps; fields as in `bfio.decode.run.Run`."""

    #: Shape (C,).
    start_s: FloatArray
    duration_s: FloatArray
    idle_before_s: FloatArray
    #: Shape (C,).
    max_load: IntArray
    min_load: IntArray
    total_load: IntArray
    active: IntArray
    waiting: IntArray
    admitted: IntArray
    #: Shape (C, G).
    loads: IntArray
    running: IntArray
    balanced_s: FloatArray  #: Shape (C,).
    #: Shape (L, 5): request, worker, first step, first step not run, and `Cause`.
    interruptions: IntArray
    prefix_hit_tokens: IntArray  #: Shape (C,), or (0,) without prefix caches.
    #: Shape (L, 3): request, step at which it became ready, and step before which its cache
    #: expired.
    expiries: IntArray
    refused: IntArray  #: Shape (C,), or (0,) without telemetry.


def new_state(
    workload: Workload,
    cluster: Cluster,
    options: RunOptions,
    *,
    look_ahead: int = 0,
    known: bool = False,
    prediction: Prediction | None = None,
    pauses: bool = False,
) -> State:
    """Return the state of a run before the first step.

    ``look_ahead`` is the number of steps in the window. ``known``: projections may use the true
    output lengths. ``prediction``: predictions of a compiled run. ``pauses``: requests may rest.
    """
    n, G = len(workload), cluster.workers
    counters = np.zeros(TAKEN + 1, dtype=np.int64)
    counters[FURTHEST] = -1
    counters[SLOTS] = cluster.total_slots
    longest = int(workload.output_tokens.max(initial=1))
    ring = 1 << look_ahead.bit_length()
    workers = WorkerRows(*_filled(7, G, 0))
    leaves = may_interrupt(cluster, options)
    # If no request leaves its worker early, each starts once. Some arrays are then shared, which
    # saves time in long runs.
    reveal, start, last, worker = _filled(4, n, -1)
    first = start.copy() if leaves else start
    is_bound_before = leaves or options.delay > 0 or options.dispatch is Dispatch.IMMEDIATE
    bound = start.copy() if is_bound_before else start
    reserves = cluster.memory is not None and options.overflow is Overflow.RESERVE
    swaps = cluster.memory is not None and options.overflow is Overflow.SWAP
    overflows = cluster.memory is not None and not reserves
    arrival_s = _arrival_seconds(workload, cluster, options)
    machine = _machine(cluster, workers.load.copy() if reserves else workers.load)
    now = (*workers[:4], machine.used)
    return State(
        settings=settings_of(cluster, options, look_ahead),
        counters=counters,
        clock=np.zeros(2),
        sight=np.array([known and look_ahead > 0, options.projection is Projection.GROWING]),
        gains=_gains(options.drift),
        requests=_request_rows(workload, options, leaves, pauses, reserves),
        marks=Marks(reveal, first, start, last, worker, bound, np.full(n if leaves else 0, -1)),
        reveal_s=np.full(n, np.nan),
        arrival_s=arrival_s,
        pool=np.arange(n, dtype=np.int64),
        lists=Lists(*_filled(3, min(n, cluster.total_slots), -1)),
        host=Host(np.zeros(n if swaps else 0, dtype=np.int64), np.zeros(n if swaps else 0)),
        wheel=np.full(_wheel_size(longest, look_ahead), -1, dtype=np.int64),
        workers=workers,
        machine=machine,
        outages=failures_of(options.failures, G, options.seed),
        cancellations=cancellations_of(options.cancellations, arrival_s, options.seed),
        ending_load=np.zeros((G, ring), dtype=np.int64),
        ending_count=np.zeros((G, ring), dtype=np.int64),
        prediction=prediction or no_prediction(),
        prefixes=new_caches(workload, cluster),
        slowness=stragglers_of(options.stragglers, G, options.seed),
        order=new_start_order(G, n, is_on=overflows),
        tier=new_tier(options.prefill, n),
        reports=new_reports(
            options.telemetry, now, look_ahead, options.seed, starts_late=options.delay > 0
        ),
    )


def _request_rows(
    workload: Workload, options: RunOptions, leaves: bool, pauses: bool, reserves: bool
) -> RequestRows:
    n, prompt = len(workload), _lent(workload.prompt_tokens)
    # If no request leaves early or rests, its size at its start is its prompt: share the array.
    size = prompt.copy() if leaves or pauses else prompt
    return RequestRows(
        prompt=prompt,
        output=_lent(workload.output_tokens),
        emitted=np.zeros(n, dtype=np.int64),
        size=size,
        need=peaks(workload, options.drift, leaves, pauses) if reserves else size,
        next=np.full(n, -1, dtype=np.int64),
        place=np.full(n, -1, dtype=np.int64),
    )


class _Lent:
    """An array of a workload for the phases, which are compiled for writeable arrays.

    No phase of a run writes to it.
    """

    def __init__(self, array: IntArray) -> None:
        self.array = array
        place = array.ctypes.data, False
        self.__array_interface__ = array.__array_interface__ | {"data": place}


def _lent(array: IntArray) -> IntArray:
    return np.asarray(_Lent(array))


def most_waiting(workload: Workload, cluster: Cluster, options: RunOptions) -> int:
    """Return the largest number of requests that may wait at once."""
    n = len(workload)
    if options.arrivals is ArrivalMode.TIMED:
        return n
    # Interrupted requests wait again, in addition to a full pool.
    return min(n, options.pool + min(n, cluster.total_slots) * may_interrupt(cluster, options))


def _machine(cluster: Cluster, used: IntArray) -> Machine:
    now, own = cluster.worker_times(), cluster.worker_times()
    slots = cluster.worker_slots()
    return Machine(slots, cluster.worker_memory(), used, *now, slots.copy(), *own)


def _filled(count: int, length: int, value: int) -> list[IntArray]:
    return [np.full(length, value, dtype=np.int64) for _ in range(count)]


def _gains(drift: Drift) -> IntArray:
    increments = drift.increments[:1] if drift.is_uniform else drift.increments
    return np.concatenate(([0], np.cumsum(increments))).astype(np.int64)


def _wheel_size(longest: int, look_ahead: int) -> int:
    """Return the number of end-step lists: a power of two above the look-ahead."""
    wanted = max(min(longest, MAX_WHEEL - 1), look_ahead, MIN_WHEEL - 1)
    return 1 << wanted.bit_length()


def _arrival_seconds(workload: Workload, cluster: Cluster, options: RunOptions) -> FloatArray:
    """Return the arrival times, shape (n,) [s]; empty unless arrivals are timed.

    The array is writeable, because phases are compiled for writeable arrays.
    """
    if options.arrivals is ArrivalMode.POOL:
        return np.zeros(0)
    # Divide before rounding, so that the scaled times are the floats nearest to the exact ones.
    factor = rate_factor(workload, cluster, options)
    return workload.exact_arrivals().scaled_seconds(1 / factor)


#: Largest number of steps of a chunk, and of entries of its loads (2 MiB).
MAX_CHUNK_STEPS = 20_000
MAX_CHUNK_ENTRIES = 2**18


#: Room of a chunk for interruptions, in addition to those of its last step.
LOG_SIZE = 4096
#: Most entries of loads for which there is room at first (128 MiB).
MAX_ROOM = 2**24


class Chunks:
    """The records of all chunks of a run, joined.

    Loads and running requests are kept only on request. All chunks share one array for them.
    """

    def __init__(self, state: State, keep_trajectory: bool) -> None:
        settings, self._num_workers = state.settings, len(state.workers.load)
        self._paces, self._caches = not settings.one_pace, settings.caches
        self._reports = state.reports.is_on
        # One step may interrupt all running requests; all may expire while the clock jumps.
        most = len(state.lists.running) if settings.interrupts else 0
        self._log_size = most + LOG_SIZE if most else 0
        expiring = len(state.tier.where)
        self._most_expiries = expiring + LOG_SIZE if expiring else 0
        self.keeps = keep_trajectory
        self.most_steps = max(1, min(MAX_CHUNK_STEPS, MAX_CHUNK_ENTRIES // self._num_workers))
        self._shared = self._trajectory(self.most_steps)
        loads, running = self._trajectory(0)
        none = self.new(0)._replace(loads=loads, running=running)
        # Steps of a run in which every slot emits a token at each; most runs take a few more.
        full = int(state.requests.output.sum() // max(state.counters[SLOTS], 1))
        most = MAX_ROOM // self._num_workers
        self._kept = [_Rows(array, max(0, min(full + full // 4, most))) for array in none]

    def new(self, num_steps: int) -> Record:
        """Return an empty record for ``num_steps`` steps."""
        times = [np.empty(num_steps) for _ in range(3)]
        counts = [np.empty(num_steps, dtype=np.int64) for _ in range(6)]
        balanced_s = np.empty(num_steps if self._paces else 0)
        log = np.empty((self._log_size if num_steps else 0, 5), dtype=np.int64)
        hits = np.empty(num_steps if self._caches else 0, dtype=np.int64)
        expiries = np.empty((self._most_expiries if num_steps else 0, 3), dtype=np.int64)
        refused = np.empty(num_steps if self._reports else 0, dtype=np.int64)
        rows = (log, hits, expiries, refused)
        return Record._make([*times, *counts, *self._shared, balanced_s, *rows])

    def keep(self, record: Record, num_steps: int, state: State) -> None:
        """Keep the first ``num_steps`` rows of a record, with their interruptions and expiries."""
        rows = num_steps if self.keeps else 0
        new = Record._make(array[:num_steps] for array in record)._replace(
            loads=record.loads[:rows],
            running=record.running[:rows],
            interruptions=record.interruptions[: state.counters[LOGGED]],
            expiries=record.expiries[: state.counters[EXPIRED]],
        )
        for kept, more in zip(self._kept, new, strict=True):
            kept.add(more)

    def joined(self) -> Record:
        """Return the joined record of all chunks."""
        return Record._make(rows.joined() for rows in self._kept)

    def _trajectory(self, num_steps: int) -> list[IntArray]:
        return [np.empty((num_steps, self._num_workers), dtype=np.int64) for _ in range(2)]


class _Rows:
    """Rows that are added in pieces, in one array with room for more.

    Unused room takes no memory, as nothing is written there.
    """

    def __init__(self, none: NDArray[Any], room: int) -> None:
        self._array, self._end = np.empty((room, *none.shape[1:]), none.dtype), 0

    def add(self, rows: NDArray[Any]) -> None:
        first, self._end = self._end, self._end + len(rows)
        if self._end > len(self._array):
            larger = np.empty((2 * self._end, *rows.shape[1:]), self._array.dtype)
            larger[:first] = self._array[:first]
            self._array = larger
        self._array[first : self._end] = rows

    def joined(self) -> NDArray[Any]:
        # In place; nothing else refers to the array.
        self._array.resize((self._end, *self._array.shape[1:]), refcheck=False)
        return self._array
