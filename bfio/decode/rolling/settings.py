"""The constants of plans, for kernel and statement."""

#: ``1/λ``: by how much a token of load counts less than balance would have it. What is not
#: admitted now is admitted later, and does not go away; counted whole, it would draw large
#: requests in before there is room for them.
LOAD_SHARE = 2
#: ``K``: new requests that a worker gets before what this step leaves behind no longer matters.
TURNOVER = 5
#: The gap between sampled steps is at most one part in so many of the step.
SPARSITY = 3
#: The first threshold, in hundredths of a request of mean size on each step of the window.
THRESHOLD_PERCENT = 15
#: Half of the exchanges are with a request at most so far away in the order of sizes.
NEAR = 8
#: Most requests that are looked at, the oldest, unless more slots are free.
MOST_WAITING = 4096
#: Bits of a random number that choose a position.
CHOICE_BITS = 24
#: First random number of every plan.
SEED = 0x9E3779B97F4A7C15
