"""The engine and the built-in policies as one compiled loop; it decides as `engine` does.

Requests are numbered in order of arrival. ``active`` has one column per running request, sorted
by the batch after its believed last one, so that the tokens still in the cache at any completion
are a running sum from the right: one candidate costs one pass, O(M), and a round with its O(M)
candidates O(M²), as the paper claims. All functions live in this file, because Numba's cache on
disk watches only the file of the cached one.
"""

from typing import NamedTuple

import numpy as np

from bfio.policies.kernels.machine_code import entry_point, kernel
from formulations.arrays import IntArray

#: Rows of ``active``: request, its first batch, the batch after its believed last one, and the
#: tokens it would have needed in batch 0.
REQUEST, FIRST, END, LEVEL = range(4)
#: Entries of ``loop``: see `bfio.kvcache.engine.LoopWatch`; and the least need of those waiting
#: (0 if not known), without which a scan that tries everyone would do so in every batch.
CLEARINGS, ARMED, SAW_ALL, RAN_DRY, LEAST_NEED = range(5)
#: Columns of batches and stays, as in `bfio.kvcache.run`.
_BATCH_COLUMNS, _STAY_COLUMNS = 5, 4
_COMPLETED, _CLEARED, _OPEN = range(3)
#: How a run ended.
FINISHED, LOOP, CLEARINGS_LIMIT, BATCHES_LIMIT = range(4)
_FIRST_ROWS = 1024


class Requests(NamedTuple):
    """Data by order of arrival; ``believed`` grows when a prediction is outlived."""

    arrival: IntArray
    prompt: IntArray
    first_need: IntArray
    length: IntArray
    believed: IntArray


class Rule(NamedTuple):
    """The policy: look-ahead if ``limit`` is negative, else protection with that limit.

    Protection looks at its limit before each prompt, or ``once_per_batch`` before all of them;
    ``cap`` is the most requests in a batch, 0 for any number.
    """

    memory: int
    limit: int
    once_per_batch: bool
    cap: int
    shortest: bool
    keep_scanning: bool
    chance: float
    pause: int
    completes_at_start: bool
    base: int
    per_request: int
    per_context: int
    per_prompt: int
    max_batches: int
    max_clearings: int


@kernel
def needed(active: IntArray, running: int, batch: int) -> int:
    """Return the tokens the running requests need in a batch."""
    tokens = 0
    for j in range(running):
        tokens += active[LEVEL, j] + batch
    return tokens


@kernel
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


@kernel
def insert(active: IntArray, running: int, column: IntArray) -> None:
    """Insert a running request; among equal ends it comes last."""
    j = running
    while j > 0 and active[END, j - 1] > column[END]:
        for row in range(4):
            active[row, j] = active[row, j - 1]
        j -= 1
    for row in range(4):
        active[row, j] = column[row]


@kernel
def merge(queue: IntArray, waiting: int, new: IntArray) -> None:
    """Merge sorted new keys into the sorted queue."""
    write, old, fresh = waiting + len(new) - 1, waiting - 1, len(new) - 1
    while fresh >= 0:
        if old >= 0 and queue[old] > new[fresh]:
            queue[write] = queue[old]
            old -= 1
        else:
            queue[write] = new[fresh]
            fresh -= 1
        write -= 1


@kernel
def keys_of(numbers: IntArray, requests: Requests, shortest: bool) -> IntArray:
    """Return sorted keys of requests: their number, or believed length first and number second."""
    keys = numbers.copy()
    if shortest:
        for k in range(len(keys)):
            keys[k] += requests.believed[numbers[k]] * len(requests.arrival)
    return np.sort(keys)


@kernel
def with_room(table: IntArray, rows: int) -> IntArray:
    """Return the table itself, or a copy of twice the rows if it is full."""
    if rows < len(table):
        return table
    larger = np.empty((2 * len(table), table.shape[1]), np.int64)
    # Element by element: assigning a slice takes seconds to compile.
    for row in range(rows):
        for column in range(table.shape[1]):
            larger[row, column] = table[row, column]
    return larger


@kernel
def grow_beliefs(active: IntArray, running: int, batch: int, believed: IntArray) -> bool:
    """Extend every outlived prediction by a batch; return whether there was one."""
    learned = False
    for j in range(running):
        # Sorted by end, and the outlived ones all end at this batch: order is kept.
        if active[END, j] <= batch:
            active[END, j] = batch + 1
            believed[active[REQUEST, j]] = batch + 1 - active[FIRST, j]
            learned = True
    return learned


@kernel
def state_is_back(loop: IntArray, is_full: bool, first_come: bool, all_revealed: bool) -> bool:
    """Note an overflow and tell whether the state has come back, as `LoopWatch.cleared`."""
    back = (
        is_full
        and loop[ARMED] == 1
        and (loop[SAW_ALL] == 1 or (first_come and loop[RAN_DRY] == 0))
    )
    loop[CLEARINGS] += 1
    loop[ARMED] = is_full
    loop[SAW_ALL] = all_revealed
    loop[RAN_DRY] = 0
    return back


@kernel
def draw(
    active: IntArray, running: int, chance: float, rng: np.random.Generator, cleared: IntArray
) -> None:
    """Mark requests to clear, drawing in order of arrival."""
    for i in np.sort(active[REQUEST, :running]):
        cleared[i] = chance >= 1.0 or rng.random() < chance


@kernel
def choose(
    queue: IntArray,
    waiting: int,
    active: IntArray,
    running: int,
    batch: int,
    requests: Requests,
    rule: Rule,
    loop: IntArray,
) -> tuple[int, int]:
    """Move requests from the queue to the running ones; return the new (waiting, running)."""
    n, kept, k, least = len(requests.arrival), 0, 0, rule.memory
    used = needed(active, running, batch)
    if rule.limit < 0 and used + loop[LEAST_NEED] > rule.memory:
        return waiting, running
    limit = rule.limit
    if rule.limit >= 0 and rule.once_per_batch:
        limit = rule.memory if used <= rule.limit else 0
    column = np.empty(4, np.int64)
    while k < waiting:
        i = queue[k] % n
        need, length = requests.first_need[i], requests.believed[i]
        if rule.limit >= 0:
            starts = used + need <= limit or used == 0
            starts = starts and (rule.cap == 0 or running < rule.cap)
        else:
            starts = used + need <= rule.memory and fits(
                active, running, batch, need, length, rule.memory
            )
        if starts:
            column[REQUEST], column[FIRST] = i, batch
            column[END], column[LEVEL] = batch + length, need - batch
            insert(active, running, column)
            running += 1
            used += need
        else:
            queue[kept] = queue[k]
            kept += 1
            least = min(least, need)
            if not rule.keep_scanning:
                k += 1
                break
        k += 1
    loop[LEAST_NEED] = least if k == waiting else 0
    if kept < k:
        for rest in range(k, waiting):
            queue[kept + rest - k] = queue[rest]
    return kept + waiting - k, running


@kernel
def totals(active: IntArray, running: int, batch: int, prompt: IntArray) -> tuple[int, int]:
    """Return output tokens behind the running requests, and prompt tokens of new ones."""
    context, new_prompt = 0, 0
    for j in range(running):
        context += batch - active[FIRST, j]
        if active[FIRST, j] == batch:
            new_prompt += prompt[active[REQUEST, j]]
    return context, new_prompt


@kernel
def leave(
    active: IntArray,
    running: int,
    batch: int,
    leaves: IntArray,
    stays: IntArray,
    rows: int,
    end: int,
) -> tuple[IntArray, int, IntArray]:
    """Remove the marked requests; return the stays, their rows and who left, by number."""
    gone = np.empty(running, np.int64)
    first = np.empty(len(leaves), np.int64)
    count, kept = 0, 0
    for j in range(running):
        i = active[REQUEST, j]
        if leaves[i] == 1:
            leaves[i] = 0
            gone[count], first[i] = i, active[FIRST, j]
            count += 1
            continue
        for row in range(4):
            active[row, kept] = active[row, j]
        kept += 1
    gone = np.sort(gone[:count])
    for i in gone:
        stays = with_room(stays, rows)
        stays[rows, 0], stays[rows, 1] = i, first[i]
        stays[rows, 2], stays[rows, 3] = batch - first[i], end
        rows += 1
    return stays, rows, gone


@entry_point
def run_batches(
    requests: Requests, rule: Rule, rng: np.random.Generator
) -> tuple[int, IntArray, IntArray, IntArray, IntArray, int, int]:
    """Run everything.

    Returns
    -------
    tuple
        How it ended, starts and completions by number, the tables of batches and stays, overflows
        and draws.
    """
    n = len(requests.arrival)
    start, completion = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
    marked, queue = np.zeros(n, np.int64), np.empty(n, np.int64)
    active, loop = np.empty((4, n), np.int64), np.zeros(5, np.int64)
    batches = np.empty((_FIRST_ROWS, _BATCH_COLUMNS), np.int64)
    stays = np.empty((_FIRST_ROWS, _STAY_COLUMNS), np.int64)
    batch, rows, clock, revealed, waiting, running, overflows, draws = 0, 0, 0, 0, 0, 0, 0, 0
    ended = FINISHED
    first_come = not rule.shortest and not rule.keep_scanning
    while waiting > 0 or running > 0 or revealed < n:
        if waiting == 0 and running == 0:
            clock = max(clock, requests.arrival[revealed])
        if grow_beliefs(active, running, batch, requests.believed):
            loop[ARMED] = 0
        if needed(active, running, batch) > rule.memory:
            overflows += 1
            while True:
                draws += 1
                draw(active, running, rule.chance, rng, marked)
                stays, rows, gone = leave(active, running, batch, marked, stays, rows, _CLEARED)
                running -= len(gone)
                merge(queue, waiting, keys_of(gone, requests, rule.shortest))
                waiting += len(gone)
                loop[LEAST_NEED] = 0
                for i in gone:
                    start[i] = -1
                if needed(active, running, batch) <= rule.memory:
                    break
                clock += rule.pause
            if state_is_back(loop, rule.chance >= 1.0, first_come, revealed == n):
                ended = LOOP
                break
            if loop[CLEARINGS] == rule.max_clearings:
                ended = CLEARINGS_LIMIT
                break
        before = revealed
        while revealed < n and requests.arrival[revealed] <= clock:
            revealed += 1
        if revealed > before:
            new = np.arange(before, revealed)
            merge(queue, waiting, keys_of(new, requests, rule.shortest))
            waiting += revealed - before
            loop[LEAST_NEED] = 0
        waiting, running = choose(queue, waiting, active, running, batch, requests, rule, loop)
        if waiting == 0:
            loop[RAN_DRY] = 1
        if batch == rule.max_batches:
            ended = BATCHES_LIMIT
            break
        context, new_prompt = totals(active, running, batch, requests.prompt)
        duration = rule.base + rule.per_request * running
        duration += rule.per_context * context + rule.per_prompt * new_prompt
        batches = with_room(batches, batch)
        batches[batch, 0], batches[batch, 1] = clock, duration
        batches[batch, 2] = needed(active, running, batch)
        batches[batch, 3], batches[batch, 4] = running, waiting
        finishing = False
        for j in range(running):
            i = active[REQUEST, j]
            if active[FIRST, j] == batch:
                start[i] = clock
            if active[FIRST, j] + requests.length[i] == batch + 1:
                finishing = True
                marked[i] = 1
                completion[i] = clock if rule.completes_at_start else clock + duration
        clock += duration
        batch += 1
        if finishing:
            stays, rows, gone = leave(active, running, batch, marked, stays, rows, _COMPLETED)
            running -= len(gone)
            loop[CLEARINGS] = 0
            loop[ARMED] = 0
    for j in range(running):
        marked[active[REQUEST, j]] = 1
    stays, rows, gone = leave(active, running, batch, marked, stays, rows, _OPEN)
    return ended, start, completion, batches[:batch], stays[:rows], overflows, draws
