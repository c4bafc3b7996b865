"""Names of the entries of the machine's arrays of counters, and of some values."""

# Entries of `State.counters`:
# STEP, current step; REVEALED, end of the pool; WAITING, requests in the pool; ACTIVE, running
# requests; COMPLETED, requests that finished or were cancelled.
# Of this step: ADMITTED and FINISHED, requests that start and end; FURTHEST, last position of the
# pool from which a request was taken; TAKEN, number of requests taken.
# QUEUED, requests bound to workers that do not run; SWAPPED, requests on the host; LOGGED,
# interruptions in the record; SLOTS, slots of the workers that are up; OUTAGES, failures and
# recoveries so far; SLOWED, changes of speed so far; CANCELLATIONS, cancellations so far; EXPIRED,
# entries of the record of expired caches.
(
    STEP, REVEALED, WAITING, ACTIVE, COMPLETED, ADMITTED, FINISHED, FURTHEST, QUEUED,
    SWAPPED, LOGGED, SLOTS, OUTAGES, SLOWED, CANCELLATIONS, EXPIRED, TAKEN,
) = range(17)  # fmt: skip

# Values of `Settings.overflow`, in the order of `bfio.decode.options.Overflow`.
(NONE, RESERVE, RECOMPUTE, SWAP) = range(-1, 3)

# Entries of `State.sight`: whether the ring of endings has the true lengths, and whether projected
# loads grow.
(KNOWN, GROWS) = range(2)

# Entries of `State.clock`: the current time, and the idle time since the last step [s].
(NOW, IDLE) = range(2)
