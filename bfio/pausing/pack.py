"""A step of a given length with as many tokens as a greedy order finds: the smallest first.

Unlike `bfio.pausing.heuristic.fill`, a waiting request goes before heavier active ones, to the
worker that bears most beyond what its own active requests could use.
"""

import numpy as np

from bfio.pausing.heuristic import Filled, Workers, finished
from formulations.pausing import Relaxation


def pack(relaxation: Relaxation, time: int) -> Filled | None:
    """Fill a step of at most so many units; None if nothing runs, or what must does not fit."""
    workers = Workers.of(relaxation, time)
    if workers is None:
        return None
    problem = relaxation.problem
    own = problem.worker[relaxation.optional]
    loads = problem.load[relaxation.optional]
    runs = np.zeros(len(own), dtype=np.bool_)
    # What the active requests of a worker that have joined and not run yet would use.
    wanted = np.zeros(problem.num_workers, dtype=np.int64)
    joined = relaxation.joins <= time
    np.add.at(wanted, own[joined], loads[joined])
    items = [(int(loads[k]), 0, k) for k in np.flatnonzero(joined).tolist()]
    items += [(int(problem.waiting[i]), 1, i) for i in relaxation.candidates.tolist()]
    for tokens, waits, which in sorted(items):
        if waits:
            workers.take(which, tokens, workers.left - wanted)
            continue
        worker = int(own[which])
        wanted[worker] -= tokens
        if workers.left[worker] >= tokens:
            workers.left[worker] -= tokens
            runs[which] = True
    return finished(relaxation, runs, workers)
