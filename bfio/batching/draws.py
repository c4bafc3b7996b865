"""What a task draws when it comes to its stage: columns of blocks of draws."""

# Sizes; the delay before it; the stage after it; the engine that a random balancer gives it.
D_PREFILL, D_DECODE, D_DELAY, D_SUCCESSOR, D_ENGINE, NUM_DRAWN = range(6)
#: In the place of the stage after it: the request departs.
DEPARTS = -1
