"""The state of a compiled run: flat arrays, and what their rows and entries mean."""

from typing import NamedTuple

import numpy as np

from formulations.arrays import FloatArray, IntArray

# Entries of `State.settings`, fixed for a run.
(RULE, ORDER, TIMED, IMMEDIATE, POOL, SLOTS, STEPS, CHOICES, CAP) = range(9)
NUM_SETTINGS = 9

# Entries of `State.times`: fixed part of a step [s], per token of the largest and mean load [s].
(STEP_OVERHEAD, TOKEN_TIME, MEAN_TIME) = range(3)

# Rows of `State.requests`. NEXT links the requests of one worker's queue and, once they run, those
# of one slot of the wheel.
(PROMPT, OUTPUT, NEXT) = range(3)

# Rows of `State.marks`: what the record of a run says of each request; -1 where it has not
# happened. LAST is known at the start and becomes the finish if it is reached.
(REVEAL, START, LAST, WORKER) = range(4)

# Rows of `State.workers`. FREE, REQUESTS and TOKENS are the tally a policy decides by; QUEUED to
# TAIL describe the queues of immediate dispatch.
(LOADS, RUNNING, FREE, REQUESTS, TOKENS, QUEUED, QUEUED_TOKENS, HEAD, TAIL) = range(9)
NUM_WORKER_ROWS = 9

# Entries of `State.counters`. CYCLE is the next worker of round-robin, SHARE the threshold of
# `throttled` at this step, FURTHEST the last position of the pool that was admitted at this step.
(STEP, REVEALED, WAITING, ACTIVE, COMPLETED, ADMITTED, CYCLE, SHARE, FURTHEST) = range(9)
NUM_COUNTERS = 9

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
        Shapes (3, n) and (4, n); see the names of their rows.
    reveal_s, arrival_s : FloatArray
        Shape (n,) [s]; ``arrival_s`` is empty unless arrivals are timed.
    pool : IntArray
        Shape (n,): the waiting requests are ``pool[REVEALED - WAITING : REVEALED]``, oldest first.
    keys, places : IntArray
        Shape (n,) or (0,): heap of the waiting requests for policies that order them by size.
    wheel : IntArray
        Shape (2^k,): first request of the list of those whose last step is this slot modulo 2^k.
    workers : IntArray
        Shape (9, G); see the names of its rows.
    sampled : IntArray
        Shape (2, G): workers open to a random choice, and which of them are in the sample.
    rng : numpy.random.Generator
        The run's own generator.
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
    keys: IntArray
    places: IntArray
    wheel: IntArray
    workers: IntArray
    sampled: IntArray
    rng: np.random.Generator


class Record(NamedTuple):
    """What a chunk of C steps leaves behind; the columns are those of `bfio.decode.run.Run`.

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


def wheel_size(longest: int, horizon: int) -> int:
    """Return a power of two: more than the look-ahead, and than ``longest`` if that is small."""
    wanted = max(min(longest, MAX_WHEEL - 1), horizon, MIN_WHEEL - 1)
    return 1 << wanted.bit_length()
