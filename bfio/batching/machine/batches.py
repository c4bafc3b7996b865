"""Loading a batch: its time, and what it does to tasks and tallies."""

from bfio.batching.log import LOG_BATCH, LOG_PART
from bfio.batching.machine.choice import choose
from bfio.batching.machine.queues import insert, leaving_list, prefill_list, remove
from bfio.batching.machine.state import (
    BEGUN,
    BY_ARRIVAL,
    CHOSEN,
    D_LEFT,
    ENTERED,
    FREE_AT,
    KEEPS_LOG,
    LAST,
    LENGTH,
    LINE,
    LOG_ROWS,
    LONGEST,
    NEXT,
    NOW,
    NUM_DECODING,
    NUM_PREFILLING,
    NUM_RANKS,
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
    FULL,
    IN_TIME,
    PREFILL,
    SHORT,
    SUM,
    TBT,
    TOKENS,
    TTFT,
    WORK,
)
from bfio.batching.tallies import LONGEST as LONGEST_TIME
from bfio.common.compilable import compilable
from bfio.common.indices import at


@compilable(into_caller=True)
def load(machine: Machine, engine: int) -> None:
    """Form a batch of what an engine has, and load it."""
    row, prefills = machine.engines[at(engine)], machine.prefills
    prompts, tokens = choose(machine, engine)
    if tokens == 0:
        return
    parts = 0
    if row[S_HAS_TERMS] or machine.counters[KEEPS_LOG]:
        parts = list_parts(machine, engine, prompts)
    slots = batch_time(machine, engine, parts, tokens)
    end = machine.counters[NOW] + slots
    count_batch(machine, engine, tokens, slots)
    log_batch(machine, engine, parts, tokens, slots)
    # First: a prompt that ends enters a list that may be in order of what others have left.
    decodes = 0
    for rank in range(machine.counters[NUM_RANKS]):
        decodes += load_decodes(machine, engine, prefill_list(machine, engine, rank) + 1, end)
    machine.of_engines[at(engine), DECODE] += decodes
    machine.of_engines[at(engine), PREFILL] += tokens - decodes
    row[PREFILL_TOKENS] -= tokens - decodes
    for k in range(prompts):
        load_prefill(machine, engine, prefills[at(k), 0], prefills[at(k), 1], end)
    row[FREE_AT] = end


@compilable(into_caller=True)
def load_decodes(machine: Machine, engine: int, line: int, end: int) -> int:
    """Load the decode tokens of the chosen tasks of a list; return how many.

    Those of one stage whose gaps are equal, as most are, are counted together.
    """
    tasks = machine.tasks
    task, count = tasks[at(line), NEXT], tasks[at(line), CHOSEN]
    tasks[at(line), CHOSEN] = 0
    equal, gap, stage = 0, 0, 0
    for _ in range(count):
        record = tasks[at(task)]
        following = record[NEXT]
        if end - record[LAST] != gap or record[STAGE] != stage:
            count_decodes(machine, stage, gap, equal)
            equal, gap, stage = 0, end - record[LAST], record[STAGE]
        equal += 1
        record[LAST] = end
        record[D_LEFT] -= 1
        if record[D_LEFT] == 0:
            leave(machine, engine, task)
        task = following
    count_decodes(machine, stage, gap, equal)
    return int(count)


@compilable(into_caller=True)
def count_decodes(machine: Machine, stage: int, gap: int, count: int) -> None:
    """Count decode tokens of a stage that come the same time after those before them."""
    if count > 0:
        machine.of_stages[at(stage), WORK] -= count
        measure(machine, TBT, gap, count)


@compilable(into_caller=True)
def batch_time(machine: Machine, engine: int, parts: int, tokens: int) -> int:
    """Return the slots of the chosen batch, see `bfio.batching.time_terms`."""
    row = machine.engines[at(engine)]
    exact, unit = row[S_OVERHEAD] + row[S_PER_TOKEN] * max(0, tokens - row[S_FREE]), row[S_UNIT]
    if row[S_HAS_TERMS]:
        exact += terms_of(machine, engine, parts)
    # Mostly all terms are whole slots, and a division takes as long as a decode token.
    return int(exact if unit == 1 else -(-exact // unit))


@compilable(into_caller=True)
def terms_of(machine: Machine, engine: int, parts: int) -> int:
    """Return the time of attention and of caches beyond the memory."""
    row = machine.engines[at(engine)]
    exact, room = 0, row[S_MEMORY]
    for k in range(parts):
        record, chunk = machine.tasks[at(machine.parts[k, 0])], machine.parts[k, 1]
        cached = record[TOTAL] - record[P_LEFT] - record[D_LEFT]
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
def list_parts(machine: Machine, engine: int, prompts: int) -> int:
    """Write the chosen batch to ``parts``, in order of age; return how many parts it has."""
    tasks, count = machine.tasks, 0
    for rank in range(machine.counters[NUM_RANKS]):
        line = prefill_list(machine, engine, rank) + 1
        task = tasks[at(line), NEXT]
        for _ in range(tasks[at(line), CHOSEN]):
            insert_part(machine, count, task, 0)
            count += 1
            task = tasks[at(task), NEXT]
    for k in range(prompts):
        insert_part(machine, count, machine.prefills[k, 0], machine.prefills[k, 1])
        count += 1
    return count


@compilable(into_caller=True)
def insert_part(machine: Machine, count: int, task: int, tokens: int) -> None:
    """Put a part at its place among so many: those of each phase come nearly in order."""
    parts, tasks = machine.parts, machine.tasks
    place = count
    while place > 0 and tasks[at(parts[place - 1, 0]), NUMBER] > tasks[at(task), NUMBER]:
        parts[place, 0], parts[place, 1] = parts[place - 1, 0], parts[place - 1, 1]
        place -= 1
    parts[place, 0], parts[place, 1] = task, tokens


@compilable(into_caller=True)
def count_batch(machine: Machine, engine: int, tokens: int, slots: int) -> None:
    """Count a batch that is about to be loaded."""
    row, of_engine = machine.engines[at(engine)], machine.of_engines[at(engine)]
    eligible = row[PREFILL_TOKENS] + row[NUM_DECODING]
    of_engine[BUSY] += slots
    of_engine[BATCHES] += 1
    of_engine[FULL] += tokens == row[S_BUDGET]
    of_engine[SHORT] += tokens < min(row[S_BUDGET], eligible)
    of_engine[TOKENS] -= tokens
    of_engine[AREA_TOKENS] += tokens * (machine.counters[NOW] + 1)


@compilable(into_caller=True)
def log_batch(machine: Machine, engine: int, parts: int, tokens: int, slots: int) -> None:
    """Write a batch and its parts to the log, if there is one; it has room."""
    counters = machine.counters
    if not counters[KEEPS_LOG]:
        return
    row = machine.log[counters[LOG_ROWS]]
    row[0], row[1], row[2] = LOG_BATCH, engine, counters[NOW]
    row[3], row[4], row[5] = slots, tokens, parts
    for k in range(parts):
        row = machine.log[counters[LOG_ROWS] + 1 + k]
        chunk = machine.parts[k, 1]
        row[0], row[1] = LOG_PART, machine.tasks[at(machine.parts[k, 0]), NUMBER]
        row[2], row[3] = max(chunk, 1), chunk == 0
    counters[LOG_ROWS] += parts + 1


@compilable(into_caller=True)
def leave(machine: Machine, engine: int, task: int) -> None:
    """Let a task whose last token is loaded leave its queue; it goes on when the batch ends."""
    machine.engines[at(engine), NUM_DECODING] -= 1
    machine.tasks[at(machine.tasks[at(task), LINE] + 1), LENGTH] -= 1
    remove(machine, task)
    insert(machine, leaving_list(machine, engine), task, BY_ARRIVAL, 1)


@compilable(into_caller=True)
def load_prefill(machine: Machine, engine: int, task: int, chunk: int, end: int) -> None:
    """Load a chunk of a prompt."""
    record, row = machine.tasks[at(task)], machine.engines[at(engine)]
    record[P_LEFT] -= chunk
    record[LAST] = end
    machine.of_stages[at(record[STAGE]), WORK] -= chunk
    if record[P_LEFT] == 0:
        remove(machine, task)
        enter_decode(machine, engine, task, end)
    elif row[S_PREFILL_ORDER] == LONGEST:
        remove(machine, task)
        insert(machine, record[LINE], task, LONGEST, 0)


@compilable(into_caller=True)
def enter_decode(machine: Machine, engine: int, task: int, end: int) -> None:
    """Let a task whose prompt is loaded enter the decode phase."""
    record, row = machine.tasks[at(task)], machine.engines[at(engine)]
    row[NUM_PREFILLING] -= 1
    row[NUM_DECODING] += 1
    if row[TO_PREFILL] > 0:
        row[TO_PREFILL] -= 1
    machine.of_stages[at(record[STAGE]), BEGUN] += 1
    record[ENTERED] = machine.counters[NOW]
    machine.tasks[at(record[LINE] + 1), LENGTH] += 1
    insert(machine, record[LINE] + 1, task, row[S_DECODE_ORDER], 1)
    measure(machine, TTFT, end - record[READY], 1)


@compilable(into_caller=True)
def measure(machine: Machine, which: int, slots: int, times: int) -> None:
    """Count a time that occurred so many times."""
    row = machine.times[which]
    row[COUNT] += times
    row[SUM] += slots * times
    if slots > row[LONGEST_TIME]:
        row[LONGEST_TIME] = slots
    if slots <= row[DEADLINE]:
        row[IN_TIME] += times
    # `bfio.batching.tallies.bin_of`, without the methods of Python's integers.
    part, shift = slots, 0
    while part >= 256:
        part >>= 1
        shift += 1
    machine.histograms[at(which), at(128 * shift + part)] += times
