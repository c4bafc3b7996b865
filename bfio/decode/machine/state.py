"""The state of a run: flat arrays, and what their rows and entries mean."""

from typing import NamedTuple

import numpy as np

from bfio.decode.cluster import Cluster
from bfio.decode.drift import Drift, DriftReading
from bfio.decode.options import Arrivals, Dispatch, Projection, RunOptions
from bfio.workloads.workload import Workload
from formulations.arrays import FloatArray, IntArray

# Entries of `State.settings`, fixed for a run. BY_AGE: requests do not all grow alike. HORIZON:
# steps of the ring of endings. GROWING: projected loads grow. KNOWN: the ring is kept, from the
# true lengths.
(TIMED, IMMEDIATE, POOL, SLOTS, STEPS, BY_AGE, HORIZON, GROWING, KNOWN) = range(9)

# Entries of `State.times`: fixed part of a step [s], per token of the largest and mean load [s].
(STEP_OVERHEAD, TOKEN_TIME, MEAN_TIME) = range(3)

# Rows of `State.requests`. NEXT links the requests of one worker's queue and, once they run, those
# of one slot of the wheel. PLACE is the position among those that run.
(PROMPT, OUTPUT, NEXT, PLACE) = range(4)

# Rows of `State.marks`: what the record of a run says of each request; -1 where it has not
# happened. LAST is known at the start and becomes the finish if it is reached.
(REVEAL, START, LAST, WORKER) = range(4)

# Rows of `State.workers`. QUEUED to TAIL describe the queues of immediate dispatch.
(LOADS, RUNNING, QUEUED, QUEUED_TOKENS, HEAD, TAIL) = range(6)

# Rows of `State.lists`: requests that run, in any order; those that start and end at this step.
(RUN, STARTED, ENDED) = range(3)

# Entries of `State.counters`. FIRST is the first request revealed at this step, FURTHEST the last
# position of the pool that was admitted at this step; ADMITTED and FINISHED count the lists of
# what starts and ends at this step, ACTIVE the list of those that run.
(STEP, FIRST, REVEALED, WAITING, ACTIVE, COMPLETED, ADMITTED, FINISHED, FURTHEST) = range(9)

# Entries of `State.clock`: the time, and the time without work since the last step [s].
(NOW, IDLE) = range(2)

#: Slots of the wheel of finishing steps: outputs up to this many tokens are met exactly once.
MIN_WHEEL = 2**12
MAX_WHEEL = 2**16


class State(NamedTuple):
    """Everything a run changes, and its constants.

    Parameters
    ----------
    settings, times, counters, clock
        See the names of their entries above.
    gains : IntArray
        Shape (period + 1,): ``D(0..period)``, cumulative drift over a period [tokens].
    requests, marks : IntArray
        Shape (4, n); see the names of their rows.
    reveal_s, arrival_s : FloatArray
        Shape (n,) [s]; ``arrival_s`` is empty unless arrivals are timed.
    pool : IntArray
        Shape (n,): the waiting requests are ``pool[REVEALED - WAITING : REVEALED]``, oldest first.
    lists : IntArray
        Shape (3, most requests that run); see the names of its rows.
    wheel : IntArray
        Shape (2^k,): first request of the list of those whose last step is this slot modulo 2^k.
    workers : IntArray
        Shape (6, G); see the names of its rows.
    ending_load, ending_count : IntArray
        Shape (G, H): requests whose last step is k = column modulo H, if that lies in the
        window: their prompts less the drift before they started [tokens], and their number.
    """

    settings: IntArray
    times: FloatArray
    counters: IntArray
    clock: FloatArray
    gains: IntArray
    requests: IntArray
    marks: IntArray
    reveal_s: FloatArray
    arrival_s: FloatArray
    pool: IntArray
    lists: IntArray
    wheel: IntArray
    workers: IntArray
    ending_load: IntArray
    ending_count: IntArray


class Record(NamedTuple):
    """What C steps leave behind; the columns are those of `bfio.decode.run.Run`.

    Parameters
    ----------
    times : FloatArray
        Shape (3, C): start, duration, idle time before [s].
    counts : IntArray
        Shape (6, C): largest, least and total load [tokens], active, waiting, admitted requests.
    loads, running : IntArray
        Shape (C, G): loads after admission [tokens] and requests of each worker.
    """

    times: FloatArray
    counts: IntArray
    loads: IntArray
    running: IntArray


def new_state(
    workload: Workload,
    cluster: Cluster,
    options: RunOptions,
    *,
    horizon: int = 0,
    known: bool = False,
) -> State:
    """Return the state before the first step.

    Parameters
    ----------
    workload, cluster, options
        What is simulated.
    horizon : int
        ``H`` of the projections that will be asked for.
    known : bool
        Whether these know the true lengths.
    """
    n = len(workload)
    requests = np.full((4, n), -1, dtype=np.int64)
    requests[PROMPT], requests[OUTPUT] = workload.prompt_tokens, workload.output_tokens
    counters = np.zeros(9, dtype=np.int64)
    counters[FURTHEST] = -1
    ending = np.zeros((2, cluster.workers, horizon), dtype=np.int64)
    longest = int(workload.output_tokens.max(initial=1))
    times = [cluster.step_overhead_s, cluster.token_time_s, cluster.mean_time_s]
    return State(
        settings=_settings(cluster, options, horizon, known),
        times=np.array(times, dtype=np.float64),
        counters=counters,
        clock=np.zeros(2),
        gains=_gains(options.drift),
        requests=requests,
        marks=np.full((4, n), -1, dtype=np.int64),
        reveal_s=np.full(n, np.nan),
        arrival_s=_arrival_seconds(workload, options),
        pool=np.arange(n, dtype=np.int64),
        lists=np.empty((3, min(n, cluster.total_slots)), dtype=np.int64),
        wheel=np.full(_wheel_size(longest, horizon), -1, dtype=np.int64),
        workers=np.zeros((6, cluster.workers), dtype=np.int64),
        ending_load=ending[0],
        ending_count=ending[1],
    )


def _settings(cluster: Cluster, options: RunOptions, horizon: int, known: bool) -> IntArray:
    drift = options.drift
    settings = {
        TIMED: options.arrivals is Arrivals.TIMED,
        IMMEDIATE: options.dispatch is Dispatch.IMMEDIATE,
        POOL: options.pool,
        SLOTS: cluster.slots,
        STEPS: -1 if options.steps is None else options.steps,
        BY_AGE: drift.reading is DriftReading.AGE and not drift.is_uniform,
        HORIZON: horizon,
        GROWING: options.projection is Projection.GROWING,
        KNOWN: known and horizon > 0,
    }
    return np.array([settings[entry] for entry in range(len(settings))], dtype=np.int64)


def _gains(drift: Drift) -> IntArray:
    increments = drift.increments[:1] if drift.is_uniform else drift.increments
    return np.concatenate(([0], np.cumsum(increments))).astype(np.int64)


def _wheel_size(longest: int, horizon: int) -> int:
    """Return a power of two: more than the look-ahead, and than ``longest`` if that is small."""
    wanted = max(min(longest, MAX_WHEEL - 1), horizon, MIN_WHEEL - 1)
    return 1 << wanted.bit_length()


def _arrival_seconds(workload: Workload, options: RunOptions) -> FloatArray:
    """Return when requests arrive, shape (n,) [s]; empty unless arrivals are timed.

    It may be written, as all arrays for which phases are compiled.
    """
    if options.arrivals is Arrivals.POOL:
        return np.zeros(0)
    # Divide before rounding, so that the scaled times are the nearest floats to the exact ones.
    return workload.exact_arrivals().scaled(1 / options.rate_scale).seconds()
