"""Loading a batch: its time, and what it does to tasks and tallies."""

from bfio.batching.log import LOG_BATCH, LOG_PART
from bfio.batching.machine.choice import choose
from bfio.batching.machine.queues import insert, list_of, remove
from bfio.batching.machine.state import (
    D_LEFT,
    ENTERED,
    FIRST_LEAVING,
    FREE_AT,
    KEEPS_LOG,
    LAST,
    LAST_LEAVING,
    LOG_ROWS,
    LONGEST,
    N_RANK,
    NEXT,
    NONE,
    NOW,
    NUM_DECODING,
    NUM_PREFILLING,
    NUMBER,
    P_LEFT,
    PREFILL_TOKENS,
    READY,
    S_BUDGET,
    S_CACHED,
    S_CHUNK,
    S_DECODE_ORDER,
    S_FREE,
    S_HAS_TERMS,
    S_MEMORY,
    S_OVER,
    S_OVER_FIXED,
    S_OVER_SQUARE,
    S_OVERHEAD,
    S_PER_TOKEN,
    S_PREFILL_ORDER,
    S_SQUARE,
    S_UNIT,
    STAGE,
    TO_PREFILL,
    TOTAL,
    Machine,
)
from bfio.batching.tallies import (
    AREA_TOKENS,
    BATCHES,
    BUSY,
    COUNT,
    DEADLINE,
    DECODE,
    DECODING,
    FULL,
    IN_TIME,
    PREFILL,
    PREFILLING,
    SHORT,
    SUM,
    TBT,
    TOKENS,
    TTFT,
    WORK,
)
from bfio.batching.tallies import LONGEST as LONGEST_TIME
from bfio.common.compilable import compilable


@compilable(into_caller=True)
def load(machine: Machine, engine: int) -> None:
    """Form a batch of what an engine has, and load it."""
    count, tokens = choose(machine, engine)
    if count == 0:
        return
    slots = batch_time(machine, engine, count, tokens)
    end = machine.counters[NOW] + slots
    count_batch(machine, engine, tokens, slots)
    log_batch(machine, engine, count, tokens, slots)
    # First: a prompt that ends enters a line that may be in order of what others have left.
    load_decodes(machine, engine, count, end)
    for k in range(count):
        if machine.chosen[k, 1] > 0:
            load_prefill(machine, engine, machine.chosen[k, 0], machine.chosen[k, 1], end)
    machine.engines[engine, FREE_AT] = end


@compilable(into_caller=True)
def load_decodes(machine: Machine, engine: int, count: int, end: int) -> None:
    """Load the decode tokens of the chosen batch.

    Those of one stage whose gaps are equal, as most are, are counted together.
    """
    chosen, tasks = machine.chosen, machine.tasks
    equal, gap, stage = 0, 0, 0
    for k in range(count):
        if chosen[k, 1] > 0:
            continue
        record = tasks[chosen[k, 0]]
        if end - record[LAST] != gap or record[STAGE] != stage:
            count_decodes(machine, engine, stage, gap, equal)
            equal, gap, stage = 0, end - record[LAST], record[STAGE]
        equal += 1
        record[LAST] = end
        record[D_LEFT] -= 1
        if record[D_LEFT] == 0:
            leave_queue(machine, engine, chosen[k, 0])
    count_decodes(machine, engine, stage, gap, equal)


@compilable(into_caller=True)
def count_decodes(machine: Machine, engine: int, stage: int, gap: int, count: int) -> None:
    """Count decode tokens of a stage that come the same time after those before them."""
    if count > 0:
        machine.of_engines[engine, DECODE] += count
        machine.of_stages[stage, WORK] -= count
        measure(machine, TBT, gap, count)


@compilable(into_caller=True)
def batch_time(machine: Machine, engine: int, count: int, tokens: int) -> int:
    """Return the slots of the chosen batch, see `bfio.batching.time_terms`."""
    row = machine.engines[engine]
    exact = row[S_OVERHEAD] + row[S_PER_TOKEN] * max(0, tokens - row[S_FREE])
    if row[S_HAS_TERMS]:
        exact += terms_of(machine, engine, count)
    return int(-(-exact // row[S_UNIT]))


@compilable(into_caller=True)
def terms_of(machine: Machine, engine: int, count: int) -> int:
    """Return the time of attention and of caches beyond the memory."""
    row, tasks, chosen = machine.engines[engine], machine.tasks, machine.chosen
    sort_by_age(machine, count)
    exact, room = 0, row[S_MEMORY]
    for k in range(count):
        task, chunk = chosen[k, 0], chosen[k, 1]
        cached = tasks[task, TOTAL] - tasks[task, P_LEFT] - tasks[task, D_LEFT]
        if chunk == 0:
            exact += row[S_CACHED] * cached
        else:
            exact += row[S_SQUARE] * chunk * chunk + row[S_CHUNK] * chunk * cached
        held = cached + max(chunk, 1)
        beyond = held - min(held, max(room, 0))
        room -= held
        if row[S_MEMORY] > 0 and beyond > 0:
            exact += row[S_OVER] * beyond + row[S_OVER_SQUARE] * beyond * beyond
            exact += row[S_OVER_FIXED]
    return int(exact)


@compilable(into_caller=True)
def sort_by_age(machine: Machine, count: int) -> None:
    """Put the chosen tasks in order of age: they are nearly so."""
    chosen, tasks = machine.chosen, machine.tasks
    for k in range(1, count):
        task, tokens = chosen[k, 0], chosen[k, 1]
        place = k
        while place > 0 and tasks[chosen[place - 1, 0], NUMBER] > tasks[task, NUMBER]:
            chosen[place, 0] = chosen[place - 1, 0]
            chosen[place, 1] = chosen[place - 1, 1]
            place -= 1
        chosen[place, 0], chosen[place, 1] = task, tokens


@compilable(into_caller=True)
def count_batch(machine: Machine, engine: int, tokens: int, slots: int) -> None:
    """Count a batch that is about to be loaded."""
    row, of_engine = machine.engines[engine], machine.of_engines[engine]
    eligible = row[PREFILL_TOKENS] + row[NUM_DECODING]
    of_engine[BUSY] += slots
    of_engine[BATCHES] += 1
    of_engine[FULL] += tokens == row[S_BUDGET]
    of_engine[SHORT] += tokens < min(row[S_BUDGET], eligible)
    of_engine[TOKENS] -= tokens
    of_engine[AREA_TOKENS] += tokens * (machine.counters[NOW] + 1)


@compilable(into_caller=True)
def log_batch(machine: Machine, engine: int, count: int, tokens: int, slots: int) -> None:
    """Write a batch and its parts to the log, if there is one; it has room."""
    counters = machine.counters
    if not counters[KEEPS_LOG]:
        return
    row = machine.log[counters[LOG_ROWS]]
    row[0], row[1], row[2] = LOG_BATCH, engine, counters[NOW]
    row[3], row[4], row[5] = slots, tokens, count
    for k in range(count):
        row = machine.log[counters[LOG_ROWS] + 1 + k]
        chunk = machine.chosen[k, 1]
        row[0], row[1] = LOG_PART, machine.tasks[machine.chosen[k, 0], NUMBER]
        row[2], row[3] = max(chunk, 1), chunk == 0
    counters[LOG_ROWS] += count + 1


@compilable(into_caller=True)
def leave_queue(machine: Machine, engine: int, task: int) -> None:
    """Let a task whose last token is loaded leave its queue; it goes on when the batch ends."""
    machine.engines[engine, NUM_DECODING] -= 1
    rank = machine.nodes[machine.tasks[task, STAGE], N_RANK]
    remove(machine, list_of(machine, engine, rank, 1), task)
    leave(machine, engine, task)


@compilable(into_caller=True)
def leave(machine: Machine, engine: int, task: int) -> None:
    """Put a task among those that go on when the batch ends, in order of age."""
    tasks, row = machine.tasks, machine.engines[engine]
    after, following = NONE, row[FIRST_LEAVING]
    last = row[LAST_LEAVING]
    if last != NONE and tasks[last, NUMBER] < tasks[task, NUMBER]:
        after, following = last, NONE
    while following != NONE and tasks[following, NUMBER] < tasks[task, NUMBER]:
        after, following = following, tasks[following, NEXT]
    tasks[task, NEXT] = following
    if after == NONE:
        row[FIRST_LEAVING] = task
    else:
        tasks[after, NEXT] = task
    if following == NONE:
        row[LAST_LEAVING] = task


@compilable(into_caller=True)
def load_prefill(machine: Machine, engine: int, task: int, chunk: int, end: int) -> None:
    """Load a chunk of a prompt."""
    record, row = machine.tasks[task], machine.engines[engine]
    stage = record[STAGE]
    record[P_LEFT] -= chunk
    record[LAST] = end
    row[PREFILL_TOKENS] -= chunk
    machine.of_engines[engine, PREFILL] += chunk
    machine.of_stages[stage, WORK] -= chunk
    line = list_of(machine, engine, machine.nodes[stage, N_RANK], 0)
    if record[P_LEFT] == 0:
        remove(machine, line, task)
        enter_decode(machine, engine, task, line + 1, end)
    elif row[S_PREFILL_ORDER] == LONGEST:
        remove(machine, line, task)
        insert(machine, line, task, LONGEST, 0)


@compilable(into_caller=True)
def enter_decode(machine: Machine, engine: int, task: int, line: int, end: int) -> None:
    """Let a task whose prompt is loaded enter the decode phase."""
    record, row = machine.tasks[task], machine.engines[engine]
    row[NUM_PREFILLING] -= 1
    row[NUM_DECODING] += 1
    row[TO_PREFILL] = max(row[TO_PREFILL] - 1, 0)
    machine.of_stages[record[STAGE], PREFILLING] -= 1
    machine.of_stages[record[STAGE], DECODING] += 1
    record[ENTERED] = machine.counters[NOW]
    order = row[S_DECODE_ORDER]
    insert(machine, line, task, order, 1)
    measure(machine, TTFT, end - record[READY], 1)


@compilable(into_caller=True)
def measure(machine: Machine, which: int, slots: int, times: int) -> None:
    """Count a time that occurred so many times."""
    row = machine.times[which]
    row[COUNT] += times
    row[SUM] += slots * times
    row[LONGEST_TIME] = max(row[LONGEST_TIME], slots)
    if slots <= row[DEADLINE]:
        row[IN_TIME] += times
    # `bfio.batching.tallies.bin_of`, without the methods of Python's integers.
    part, shift = slots, 0
    while part >= 256:
        part >>= 1
        shift += 1
    machine.histograms[which, 128 * shift + part] += times
