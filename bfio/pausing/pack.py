"""Greedy packing: fill a step of a given length with many tokens, smallest request first.

Unlike in `bfio.pausing.heuristic.fill`, a waiting request precedes heavier active ones. It starts
on the worker with the most capacity beyond the needs of its own active requests.
"""

import numpy as np

from bfio.pausing.heuristic import Filled, Workers, finished
from formulations.pausing import Relaxation


def pack(relaxation: Relaxation, time: int) -> Filled | None:
    """Fill a step of at most ``time`` units; None if nothing runs or required requests fail."""
    workers = Workers.of(relaxation, time)
    if workers is None:
        return None
    problem = relaxation.problem
    own = problem.worker[relaxation.optional]
    loads = problem.load[relaxation.optional]
    runs = np.zeros(len(own), dtype=np.bool_)
    # Load of the active requests of each worker that fit in this time and are not yet decided.
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
