"""Names of the entries of a state, and of the values that some of them have."""

# Entries of `State.counters`. FURTHEST is the last position of the pool from which one was taken
# at this step, TAKEN how many were; ADMITTED and FINISHED count the lists of what starts and ends
# at this step, ACTIVE the list of those that run, COMPLETED those that are done or whose client
# gave up.
# WAITING counts the pool, QUEUED those bound to a worker that do not run, SWAPPED the requests on
# the host, LOGGED the interruptions in the record, SLOTS the slots of the workers that are up,
# OUTAGES the failures and recoveries so far, SLOWED the changes of pace, CANCELLATIONS the clients
# that gave up, and EXPIRED the entries of the record of those that lost their cache in the pool.
(
    STEP, REVEALED, WAITING, ACTIVE, COMPLETED, ADMITTED, FINISHED, FURTHEST, QUEUED,
    SWAPPED, LOGGED, SLOTS, OUTAGES, SLOWED, CANCELLATIONS, EXPIRED, TAKEN,
) = range(17)  # fmt: skip

# Values of `Settings.overflow`, in the order of `bfio.decode.options.Overflow`.
(NONE, RESERVE, RECOMPUTE, SWAP) = range(-1, 3)

# Entries of `State.sight`: whether the ring is kept from the true lengths, and whether projected
# loads grow.
(KNOWN, GROWS) = range(2)

# Entries of `State.clock`: the time, and the time without work since the last step [s].
(NOW, IDLE) = range(2)
