"""Who starts: the built-in policies.

The running requests are sorted by their ends, so that the tokens still in the cache at any
completion are a running sum from the right: one candidate costs one pass, O(M), and a round with
its O(M) candidates O(M²), as the paper claims.
"""

from bfio.common.kernels import in_place
from bfio.kvcache.kernel.state import (
    BATCH,
    END,
    FIRST,
    LEAST_NEED,
    LEVEL,
    REQUEST,
    RUNNING,
    WAITING,
    Requests,
    Rule,
    Work,
    needed,
)
from formulations.arrays import IntArray


@in_place
def fits(active: IntArray, running: int, batch: int, need: int, length: int, memory: int) -> bool:
    """Test Equation (1) for one more request, from the last completion back to the first."""
    own_last = batch + length - 1
    level, count, own_open = 0, 0, True
    for j in range(running - 1, -1, -1):
        last = active[END, j] - 1
        if own_open and last < own_last:
            own_open = False
            if level + count * own_last + need + length - 1 > memory:
                return False
        level += active[LEVEL, j]
        count += 1
        if last <= own_last and level + count * last + need + last - batch > memory:
            return False
    return not own_open or level + count * own_last + need + length - 1 <= memory


@in_place
def start_requests(work: Work, requests: Requests, rule: Rule) -> None:
    """Move requests from the queue to the running ones."""
    counters, queue = work.counters, work.queue
    batch, waiting, running = counters[BATCH], counters[WAITING], counters[RUNNING]
    used = needed(work.active, running, batch)
    if rule.limit < 0 and used + counters[LEAST_NEED] > rule.memory:
        return
    limit = rule.limit
    if rule.limit >= 0 and rule.once_per_batch:
        limit = rule.memory if used <= rule.limit else 0
    kept, seen, least = 0, 0, rule.memory
    while seen < waiting:
        i = queue[seen] % len(requests.arrival)
        need, length = requests.first_need[i], requests.believed[i]
        if rule.limit >= 0:
            starts = used + need <= limit or used == 0
            starts = starts and (rule.cap == 0 or running < rule.cap)
        else:
            starts = used + need <= rule.memory and fits(
                work.active, running, batch, need, length, rule.memory
            )
        seen += 1
        if starts:
            _admit(work.active, running, i, batch, batch + length, need - batch)
            running += 1
            used += need
            continue
        queue[kept] = queue[seen - 1]
        kept += 1
        least = min(least, need)
        if not rule.keep_scanning:
            break
    if kept < seen:
        for rest in range(seen, waiting):
            queue[kept + rest - seen] = queue[rest]
    counters[LEAST_NEED] = least if seen == waiting else 0
    counters[WAITING], counters[RUNNING] = kept + waiting - seen, running


@in_place
def _admit(active: IntArray, running: int, i: int, batch: int, end: int, level: int) -> None:
    """Insert a running request; among equal ends it comes last."""
    j = running
    while j > 0 and active[END, j - 1] > end:
        for row in range(4):
            active[row, j] = active[row, j - 1]
        j -= 1
    active[REQUEST, j], active[FIRST, j], active[END, j], active[LEVEL, j] = i, batch, end, level
