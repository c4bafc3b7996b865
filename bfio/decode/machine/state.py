"""The state of a run: flat arrays, and what their rows and entries mean; and its record."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.decode.features.cancellations import Cancellations, cancellations_of
from bfio.decode.features.failures import Failures, failures_of
from bfio.decode.features.memory import Host, peaks
from bfio.decode.features.prefill.phases import Tier, new_tier
from bfio.decode.features.prefixes import PrefixCaches, new_caches
from bfio.decode.features.stragglers import Stragglers, stragglers_of
from bfio.decode.features.telemetry import Reports, new_reports
from bfio.decode.machine.counters import EXPIRED, FURTHEST, LOGGED, SLOTS, TAKEN
from bfio.decode.machine.endings import Prediction, no_prediction
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
from formulations.arrays import IntArray

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bfio.decode.cluster import Cluster
    from bfio.decode.drift import Drift
    from bfio.workloads.workload import Workload
    from formulations.arrays import FloatArray

#: Slots of the wheel of finishing steps: outputs up to this many tokens are met exactly once.
MIN_WHEEL = 2**12
MAX_WHEEL = 2**16


class RequestRows(NamedTuple):
    """One entry per request, each array of shape (n,)."""

    #: Their lengths [tokens].
    prompt: IntArray
    output: IntArray
    #: Tokens that it emitted before it last started; 0 but for those that were interrupted.
    emitted: IntArray
    #: Its load when it starts or starts again: its prompt and what it had gained [tokens].
    size: IntArray
    #: Memory that must be free for it to start: ``size`` itself, or its peak if that is reserved
    #: [tokens].
    need: IntArray
    #: The request behind it in its worker's queue and, once it runs, in its slot of the wheel.
    next: IntArray
    place: IntArray  #: Its position among those that run.


class Marks(NamedTuple):
    """What the record of a run says of each request, shape (n,); -1 where it has not happened."""

    #: Steps at which it is revealed, starts for the first time, and last started.
    reveal: IntArray
    first: IntArray
    start: IntArray
    last: IntArray  #: Its last step: known at the start, and its finish if the run reaches it.
    #: The worker it is bound to, and the step at which the policy sent it there.
    worker: IntArray
    bound: IntArray
    #: The step before which its client gave up; empty where nobody leaves before it is done.
    cancel: IntArray


class WorkerRows(NamedTuple):
    """One entry per worker, each array of shape (G,)."""

    #: Load [tokens] and requests that run.
    load: IntArray
    running: IntArray
    #: Requests that are bound to it and do not run, and their sizes: with immediate dispatch, or
    #: because decisions take effect later.
    queued: IntArray
    queued_tokens: IntArray
    #: First and last request of that queue, if there is one.
    head: IntArray
    tail: IntArray
    swapped: IntArray  #: Its requests on the host.


class Machine(NamedTuple):
    """The workers as machines, as they are at this step, each array of shape (G,)."""

    #: ``B_g`` and ``κ_g`` [tokens].
    slots: IntArray
    memory: IntArray
    used: IntArray  #: Memory in use [tokens]: the load itself, or what is reserved.
    #: ``C_g`` [s] and ``t_g`` [s/token].
    overhead_s: FloatArray
    token_time_s: FloatArray
    #: The same of workers that are up, at their own pace.
    own_slots: IntArray
    own_overhead_s: FloatArray
    own_token_time_s: FloatArray


class Lists(NamedTuple):
    """Lists of requests, in any order; counters say how long each is."""

    #: Shape (most requests that run,): those that run; those that start and end at this step.
    running: IntArray
    started: IntArray
    ended: IntArray


class State(NamedTuple):
    """Everything a run changes, and its constants."""

    settings: Settings
    #: See the names of their entries above.
    counters: IntArray
    clock: FloatArray
    sight: NDArray[np.bool_]
    #: Shape (period + 1,): ``D(0..period)``, cumulative drift over a period [tokens].
    gains: IntArray
    requests: RequestRows
    marks: Marks
    #: Shape (n,) [s]; ``arrival_s`` is empty unless arrivals are timed.
    reveal_s: FloatArray
    arrival_s: FloatArray
    #: Shape (n,): the waiting requests are ``pool[REVEALED - WAITING : REVEALED]``, oldest first.
    pool: IntArray
    lists: Lists
    host: Host
    #: Shape (2^k,): first request of the list of those whose last step is this slot modulo 2^k.
    wheel: IntArray
    workers: WorkerRows
    machine: Machine
    outages: Failures
    cancellations: Cancellations
    #: Shape (G, 2^k), ``2^k > H``: requests whose last step, known or predicted, is the column
    #: modulo 2^k, if that lies in the window: their prompts less the drift before they started
    #: [tokens], and their number.
    ending_load: IntArray
    ending_count: IntArray
    prediction: Prediction
    prefixes: PrefixCaches
    slowness: Stragglers
    order: StartOrder  #: Who runs on each worker, the youngest first, where memory may overflow.
    tier: Tier
    reports: Reports  #: What policies are told of the workers.


class Record(NamedTuple):
    """What C steps leave behind; each field is that of `bfio.decode.run.Run`."""

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
    prefix_hit_tokens: IntArray  #: Shape (C,), or (0,) where nothing is kept.
    #: Shape (L, 3): request, step at which it was ready, and step before which it lost its cache.
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
    """Return the state before the first step.

    Projections of ``look_ahead`` steps will be asked for. They may know the true lengths
    (``known``), or what a compiled run predicts (``prediction``). Requests may rest (``pauses``).
    """
    n, G = len(workload), cluster.workers
    counters = np.zeros(TAKEN + 1, dtype=np.int64)
    counters[FURTHEST] = -1
    counters[SLOTS] = cluster.total_slots
    longest = int(workload.output_tokens.max(initial=1))
    ring = 1 << look_ahead.bit_length()
    workers = WorkerRows(*_filled(7, G, 0))
    leaves = may_interrupt(cluster, options)
    # Where nobody leaves its worker a request starts once: then these are one array each, which
    # long runs feel.
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
    n, prompt = len(workload), workload.prompt_tokens.copy()
    # One array where nobody leaves its worker or rests, as it then has its prompt when it starts.
    size = prompt.copy() if leaves or pauses else prompt
    return RequestRows(
        prompt=prompt,
        output=workload.output_tokens.copy(),
        emitted=np.zeros(n, dtype=np.int64),
        size=size,
        need=peaks(workload, options.drift, leaves, pauses) if reserves else size,
        next=np.full(n, -1, dtype=np.int64),
        place=np.full(n, -1, dtype=np.int64),
    )


def most_waiting(workload: Workload, cluster: Cluster, options: RunOptions) -> int:
    """Return how many requests may wait at once."""
    n = len(workload)
    if options.arrivals is ArrivalMode.TIMED:
        return n
    # Those that were interrupted wait again beside a pool that is full.
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
    """Return a power of two: more than the look-ahead, and than ``longest`` if that is small."""
    wanted = max(min(longest, MAX_WHEEL - 1), look_ahead, MIN_WHEEL - 1)
    return 1 << wanted.bit_length()


def _arrival_seconds(workload: Workload, cluster: Cluster, options: RunOptions) -> FloatArray:
    """Return when requests arrive, shape (n,) [s]; empty unless arrivals are timed.

    It may be written, as all arrays for which phases are compiled.
    """
    if options.arrivals is ArrivalMode.POOL:
        return np.zeros(0)
    # Divide before rounding, so that the scaled times are the nearest floats to the exact ones.
    factor = rate_factor(workload, cluster, options)
    return workload.exact_arrivals().scaled(1 / factor).seconds()


#: Most steps of a chunk, and most entries of its loads (8 MiB).
MAX_CHUNK_STEPS = 20_000
MAX_CHUNK_ENTRIES = 2**20


#: Interruptions that a chunk has room for besides those of its last step.
LOG_SIZE = 4096


class Chunks:
    """The records of all chunks of a run, whose state says which columns there are.

    Loads and running requests are kept if asked for; otherwise all chunks share one array for
    them, so that memory does not grow with G times the number of steps.
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
