"""Records that no replay could follow."""

import numpy as np

from bfio.decode.cluster import Cluster
from bfio.decode.features.batching.replay import malformed_chunks
from bfio.decode.replay.counting import number
from bfio.decode.run import Run
from bfio.decode.stints import Cause
from bfio.workloads.workload import Workload


def malformed(run: Run, workload: Workload, cluster: Cluster) -> int:
    """Count arrays of the wrong shape and indices that no replay could follow."""
    n, K, G = len(workload), run.steps, cluster.workers
    requests = (
        run.reveal_step, run.start_step, run.finish_step, run.last_start_step, run.worker,
        run.bound_step, run.prompt_tokens, run.emitted_tokens, run.reveal_s, run.cancel_step,
    )  # fmt: skip
    per_step = (run.start_s, run.idle_before_s, run.max_load, run.min_load, run.total_load)
    counts = (run.active, run.waiting, run.admitted)
    wrong = sum(array.shape != (n,) for array in requests)
    wrong += sum(array.shape != (K,) for array in (*per_step, *counts))
    wrong += sum(array is not None and array.shape != (K, G) for array in (run.loads, run.running))
    hits = run.prefix_hit_tokens
    wrong += hits is not None and hits.shape != (K,)
    wrong += run.interruptions.ndim != 2 or run.interruptions.shape[1:] != (5,)
    if wrong:
        return wrong
    wrong += _malformed_rests(run) + malformed_chunks(run, cluster)
    if wrong:
        return wrong
    who, where, start, end, cause = run.interruptions.T
    wrong += number((who < 0) | (who >= n)) + number((where < 0) | (where >= G))
    wrong += number((start < 0) | (start >= end) | (end > K))
    wrong += number(~np.isin(cause, list(Cause)))
    wrong += number((run.last_start_step < run.start_step) | (run.last_start_step >= K))
    wrong += number((run.worker < -1) | (run.worker >= G))
    # Who was interrupted and waits again may be bound to none.
    nowhere = (run.start_step >= 0) & (run.worker < 0)
    wrong += number(~np.isin(np.flatnonzero(nowhere), who))
    wrong += number((run.cancel_step < -1) | (run.cancel_step > K))
    wrong += number((run.bound_step < -1) | (run.bound_step > K))
    for steps in (run.reveal_step, run.start_step, run.finish_step):
        wrong += number((steps < -1) | (steps >= K))
    return wrong


def _malformed_rests(run: Run) -> int:
    """Count rests that no replay could follow."""
    if run.rests is None:
        return 0
    if run.rests.ndim != 2 or run.rests.shape[1:] != (3,):
        return 1
    who, first, end = run.rests.T
    wrong = number((who < 0) | (who >= run.num_requests))
    return wrong + number((first < 0) | (first >= end) | (end > run.steps))
