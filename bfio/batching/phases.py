"""Phases of a slot: form batches, process their tokens, and move tasks between stages.

The loop of compiled runs skips slots without an event. `bfio.batching.policy` describes the
batches of the built-in policies.
"""

from collections.abc import Callable
from typing import TypeAlias

from bfio.batching.machine import (
    ARRIVAL,
    BEGUN,
    BY_ARRIVAL,
    CHOSEN,
    D_LEFT,
    DECODE_FIRST,
    ENTERED,
    FREE_AT,
    FREE_REQUEST,
    FREE_TASK,
    GROUPS,
    KEEPS_LOG,
    LAST,
    LEAST_REQUESTS,
    LEAST_TOKENS,
    LENGTH,
    LINE,
    LOG_ROWS,
    LONGEST,
    MISSING,
    MIXED,
    N_BALANCER,
    N_DRAWN,
    N_ENGINES,
    N_FIRST_ENGINE,
    N_FORKS,
    N_RANK,
    N_TYPE,
    N_WAITS,
    NEEDS_DRAWS,
    NEEDS_LOG,
    NEEDS_REQUESTS,
    NEEDS_RETURNS,
    NEEDS_TASKS,
    NEXT,
    NONE,
    NOW,
    NUM_DECODING,
    NUM_PREFILLING,
    NUM_RANKS,
    NUM_TASKS,
    NUMBER,
    P_LEFT,
    PREFILL_TOKENS,
    R_ARRIVED,
    R_LEFT,
    R_WAITS,
    RANDOM,
    REACHED,
    READY,
    REQUEST,
    RETURNING,
    S_BUDGET,
    S_CACHED,
    S_CHUNK,
    S_CHUNKED,
    S_DECODE_FIRST,
    S_DECODE_ORDER,
    S_FREE,
    S_GROUP,
    S_HAS_TERMS,
    S_KD,
    S_KP,
    S_LIMIT,
    S_MEMORY,
    S_MIXING,
    S_OVER,
    S_OVER_FIXED,
    S_OVER_SQUARE,
    S_OVERHEAD,
    S_PER_TOKEN,
    S_PREFILL_ORDER,
    S_SQUARE,
    S_UNIT,
    STAGE,
    T_ENGINE_DRAWN,
    T_PREFILL,
    T_REQUEST_NUMBER,
    T_SUCCESSOR,
    TO_PREFILL,
    TOTAL,
    Machine,
    come_back,
    delay,
    insert,
    leaving_list,
    prefill_list,
    remove,
)
from bfio.batching.tallies import (
    AREA_REQUESTS,
    AREA_TOKENS,
    ARRIVED,
    BATCHES,
    BUSY,
    COUNT,
    D_DECODE,
    D_DELAY,
    D_ENGINE,
    D_PREFILL,
    D_SUCCESSOR,
    DEADLINE,
    DECODE,
    DEPARTED,
    DEPARTS,
    DONE,
    E2E,
    FULL,
    IN_TIME,
    JOINED,
    LOG_BATCH,
    LOG_PART,
    LOG_TASK,
    PREFILL,
    REQUESTS,
    SHORT,
    SUM,
    TBT,
    TOKENS,
    TTFT,
    WORK,
)
from bfio.batching.tallies import LONGEST as LONGEST_TIME
from bfio.common.array_kernels import at
from bfio.common.compilable import compilable

#: Form and load a batch on a free engine.
Rule: TypeAlias = Callable[[Machine, int], None]
#: No limit.
_ANY = 1 << 60


@compilable(into_caller=True)
def decode_pass(machine: Machine, line: int, most: int) -> int:
    """Choose a decode token of each of the first ``most`` tasks of a list; return the number."""
    end = machine.tasks[at(line)]
    end[CHOSEN] = min(most, end[LENGTH])
    return int(end[CHOSEN])


@compilable(into_caller=True)
def prefill_pass(
    machine: Machine, line: int, most: int, begun: tuple[int, int], may_cut: bool
) -> tuple[int, int, bool]:
    """Choose prompts of the first ``most`` tasks of a list, until one exceeds the budget.

    Returns
    -------
    tuple
        Number of prompts chosen so far, tokens left of the budget, and whether all prompts fitted.
    """
    count, left = begun
    tasks, prefills = machine.tasks, machine.prefills
    task, stop = tasks[at(line), NEXT], count + most
    while task != line and count < stop:
        wanted = tasks[at(task), P_LEFT]
        chunk = min(wanted, left)
        if chunk == 0 or (chunk < wanted and not may_cut):
            return count, left, False
        prefills[at(count), 0], prefills[at(count), 1] = task, chunk
        count += 1
        left -= chunk
        task = tasks[at(task), NEXT]
    return count, left, True


@compilable(into_caller=True)
def choose(machine: Machine, engine: int) -> tuple[int, int]:
    """Choose the next batch of an engine; return its number of prompts and its tokens."""
    row = machine.engines[at(engine)]
    mixing, budget = row[S_MIXING], row[S_BUDGET]
    prompts, left = 0, budget
    if mixing == MIXED:
        prompts, left = mixed(machine, engine)
    elif mixing == GROUPS:
        if row[NUM_DECODING] == 0 and row[TO_PREFILL] == 0:
            # The previous group has ended, so a new one is admitted.
            row[TO_PREFILL] = min(row[S_GROUP], row[NUM_PREFILLING])
        if row[TO_PREFILL] > 0:
            prompts, left = prefills_alone(machine, engine, row[TO_PREFILL])
        else:
            left = decodes_alone(machine, engine)
    elif row[NUM_PREFILLING] == 0 or (row[NUM_DECODING] > 0 and mixing == DECODE_FIRST):
        left = decodes_alone(machine, engine)
    else:
        prompts, left = prefills_alone(machine, engine, _ANY)
    return prompts, int(budget - left)


@compilable(into_caller=True)
def mixed(machine: Machine, engine: int) -> tuple[int, int]:
    """Fill a batch with both phases, class by class; return its prompts and the budget left."""
    row = machine.engines[at(engine)]
    kp, kd = limit_of(row[S_KP]), limit_of(row[S_KD])
    places, may_cut = limit_of(row[S_LIMIT]), row[S_CHUNKED] == 1
    prompts, decodes, left = 0, 0, row[S_BUDGET]
    for rank in range(machine.counters[NUM_RANKS]):
        waiting = prefill_list(machine, engine, rank)
        if row[S_DECODE_FIRST]:
            found = decode_pass(machine, waiting + 1, min(kd, places - prompts - decodes, left))
            decodes, left = decodes + found, left - found
        most = min(kp, places - prompts - decodes)
        prompts, left, _ = prefill_pass(machine, waiting, most, (prompts, left), may_cut)
        if not row[S_DECODE_FIRST]:
            found = decode_pass(machine, waiting + 1, min(kd, places - prompts - decodes, left))
            decodes, left = decodes + found, left - found
    return prompts, left


@compilable(into_caller=True)
def decodes_alone(machine: Machine, engine: int) -> int:
    """Fill a batch with decode tokens only, class by class; return the budget left."""
    row = machine.engines[at(engine)]
    kd, most = limit_of(row[S_KD]), min(limit_of(row[S_LIMIT]), row[S_BUDGET])
    count = 0
    for rank in range(machine.counters[NUM_RANKS]):
        line = prefill_list(machine, engine, rank) + 1
        count += decode_pass(machine, line, min(kd, most - count))
    return int(row[S_BUDGET] - count)


@compilable(into_caller=True)
def prefills_alone(machine: Machine, engine: int, most: int) -> tuple[int, int]:
    """Fill a batch with prompts of the first ``most`` tasks; return their number, budget left."""
    row = machine.engines[at(engine)]
    kp, may_cut = limit_of(row[S_KP]), row[S_CHUNKED] == 1
    count, left, goes_on = 0, row[S_BUDGET], True
    for rank in range(machine.counters[NUM_RANKS]):
        if goes_on:
            line = prefill_list(machine, engine, rank)
            count, left, goes_on = prefill_pass(
                machine, line, min(kp, most - count), (count, left), may_cut
            )
    return count, left


@compilable(into_caller=True)
def limit_of(limit: int) -> int:
    """Return a limit on the number of tasks, where 0 stands for no limit."""
    return limit if limit > 0 else _ANY


@compilable(into_caller=True)
def load(machine: Machine, engine: int, rule: Rule) -> None:
    """Form and start the next batch of an engine by its built-in policy."""
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
    # Decode tokens come first: a finished prompt enters a decode list, which may be sorted by
    # remaining tokens.
    decodes = 0
    for rank in range(machine.counters[NUM_RANKS]):
        decodes += load_decodes(machine, engine, prefill_list(machine, engine, rank) + 1, end)
    for k in range(prompts):
        load_prefill(machine, engine, prefills[at(k), 0], prefills[at(k), 1], end)
    run_until(machine, engine, tokens, decodes, end)


@compilable(into_caller=True)
def run_until(machine: Machine, engine: int, tokens: int, decodes: int, end: int) -> None:
    """Mark an engine as busy with its batch until slot ``end``."""
    row, of_engine = machine.engines[at(engine)], machine.of_engines[at(engine)]
    of_engine[DECODE] += decodes
    of_engine[PREFILL] += tokens - decodes
    row[PREFILL_TOKENS] -= tokens - decodes
    row[FREE_AT] = end


@compilable(into_caller=True)
def load_decodes(machine: Machine, engine: int, line: int, end: int) -> int:
    """Start the chosen decode tokens of a list; return their number.

    Consecutive tokens with the same stage and the same gap are counted together, for speed.
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
        load_decode(machine, engine, task, end)
        task = following
    count_decodes(machine, stage, gap, equal)
    return int(count)


@compilable(into_caller=True)
def load_decode(machine: Machine, engine: int, task: int, end: int) -> None:
    """Start a decode token of a task; `count_decodes` updates the counters."""
    record = machine.tasks[at(task)]
    record[LAST] = end
    record[D_LEFT] -= 1
    if record[D_LEFT] == 0:
        leave(machine, engine, task)


@compilable(into_caller=True)
def count_decodes(machine: Machine, stage: int, gap: int, count: int) -> None:
    """Count ``count`` decode tokens of a stage, each ``gap`` slots after the previous token."""
    if count > 0:
        machine.of_stages[at(stage)][WORK] -= count
        measure(machine, TBT, gap, count)


@compilable(into_caller=True)
def batch_time(machine: Machine, engine: int, parts: int, tokens: int) -> int:
    """Return the duration of the chosen batch [slots], see `bfio.batching.time_terms`."""
    row = machine.engines[at(engine)]
    exact, unit = row[S_OVERHEAD] + row[S_PER_TOKEN] * max(0, tokens - row[S_FREE]), row[S_UNIT]
    if row[S_HAS_TERMS]:
        exact += terms_of(machine, engine, parts)
    # Usually the unit is one slot; the test avoids a division, which costs as much as a decode
    # token.
    return int(exact if unit == 1 else -(-exact // unit))


@compilable(into_caller=True)
def terms_of(machine: Machine, engine: int, parts: int) -> int:
    """Return the time of attention and of caches beyond the memory [1/unit slots]."""
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
    """Write the chosen batch to ``parts``, oldest task first; return the number of parts."""
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
    """Insert a part into the first ``count`` parts, which are sorted by age (insertion sort)."""
    parts, tasks = machine.parts, machine.tasks
    place = count
    while place > 0 and tasks[at(parts[place - 1, 0]), NUMBER] > tasks[at(task), NUMBER]:
        parts[place, 0], parts[place, 1] = parts[place - 1, 0], parts[place - 1, 1]
        place -= 1
    parts[place, 0], parts[place, 1] = task, tokens


@compilable(into_caller=True)
def count_batch(machine: Machine, engine: int, tokens: int, slots: int) -> None:
    """Add a batch to the counters of its engine."""
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
    """Write a batch and its parts to the log, if one is kept and has enough rows."""
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
    """Move a task without remaining tokens to the tasks that leave at the end of the batch."""
    machine.engines[at(engine)][NUM_DECODING] -= 1
    machine.tasks[at(machine.tasks[at(task), LINE] + 1), LENGTH] -= 1
    remove(machine, task)
    insert(machine, leaving_list(machine, engine), task, BY_ARRIVAL, 1)


@compilable(into_caller=True)
def load_prefill(machine: Machine, engine: int, task: int, chunk: int, end: int) -> None:
    """Start a chunk of a prompt."""
    record, row = machine.tasks[at(task)], machine.engines[at(engine)]
    record[P_LEFT] -= chunk
    record[LAST] = end
    machine.of_stages[at(record[STAGE])][WORK] -= chunk
    if record[P_LEFT] == 0:
        remove(machine, task)
        enter_decode(machine, engine, task, end)
    elif row[S_PREFILL_ORDER] == LONGEST:
        remove(machine, task)
        insert(machine, record[LINE], task, LONGEST, 0)


@compilable(into_caller=True)
def enter_decode(machine: Machine, engine: int, task: int, end: int) -> None:
    """Move a task whose prompt is processed to the decode phase."""
    record, row = machine.tasks[at(task)], machine.engines[at(engine)]
    row[NUM_PREFILLING] -= 1
    row[NUM_DECODING] += 1
    if row[TO_PREFILL] > 0:
        row[TO_PREFILL] -= 1
    machine.of_stages[at(record[STAGE])][BEGUN] += 1
    record[ENTERED] = machine.counters[NOW]
    machine.tasks[at(record[LINE] + 1), LENGTH] += 1
    insert(machine, record[LINE] + 1, task, row[S_DECODE_ORDER], 1)
    measure(machine, TTFT, end - record[READY], 1)


@compilable(into_caller=True)
def measure(machine: Machine, which: int, slots: int, times: int) -> None:
    """Add ``times`` occurrences of a time of ``slots`` slots to the measured times."""
    row = machine.times[which]
    row[COUNT] += times
    row[SUM] += slots * times
    if slots > row[LONGEST_TIME]:
        row[LONGEST_TIME] = slots
    if slots <= row[DEADLINE]:
        row[IN_TIME] += times
    # The formula of `bfio.batching.tallies.bin_of`, without methods of Python integers.
    part, shift = slots, 0
    while part >= 256:
        part >>= 1
        shift += 1
    machine.histograms[at(which), at(128 * shift + part)] += times


#: Later than every slot.
_NEVER = 1 << 62


def run_slots(machine: Machine, until: int, rule: Rule) -> int:
    """Run the slots before ``until`` and deliver the tasks due in it; stop at a full table.

    It also returns early if no further event can occur. The next call continues from the same
    state. ``rule`` forms the batch of a free engine that has requests; see `form_batch`.
    """
    counters = machine.counters
    while True:
        need = deliver(machine)
        if need != REACHED or counters[NOW] >= until:
            return need
        for engine in range(len(machine.engines)):
            row = machine.engines[at(engine)]
            if row[FREE_AT] <= counters[NOW] and row[NUM_PREFILLING] + row[NUM_DECODING] > 0:
                rows = counters[LOG_ROWS] + row[S_BUDGET] + 1
                if counters[KEEPS_LOG] and rows > len(machine.log):
                    return NEEDS_LOG
                form_batch(machine, engine, rule)
        slot = next_slot(machine)
        if slot == _NEVER:
            return REACHED
        counters[NOW] = min(slot, until)


def form_batch(machine: Machine, engine: int, rule: Rule) -> None:
    """Form and start a batch by a rule of interpreted runs; compiled runs call `load` instead."""
    rule(machine, engine)


@compilable(into_caller=True)
def next_slot(machine: Machine) -> int:
    """Return the next slot with an event."""
    counters, slot = machine.counters, _NEVER
    now = counters[NOW]
    for engine in range(len(machine.engines)):
        row = machine.engines[at(engine)]
        if row[FREE_AT] > now:
            slot = min(slot, row[FREE_AT])
        elif row[NUM_PREFILLING] + row[NUM_DECODING] > 0:
            # The engine is free and loaded none of its tasks: it decides again in the next slot.
            return int(now + 1)
        if slot == now + 1:
            # No event can come earlier.
            return int(slot)
    if counters[ARRIVAL] < len(machine.arrivals):
        slot = min(slot, machine.arrivals[at(counters[ARRIVAL]), 0] + 1)
    if counters[RETURNING] > 0:
        slot = min(slot, machine.returning[0, 0])
    return int(slot)


@compilable(into_caller=True)
def deliver(machine: Machine) -> int:
    """Move tasks that finish, return or arrive; return the table that is full, if any."""
    counters = machine.counters
    now, arrivals = counters[NOW], machine.arrivals
    # Order within a slot: finished tasks, then returns from delays, then arrivals.
    for engine in range(len(machine.engines)):
        if machine.engines[at(engine)][FREE_AT] <= now:
            line = at(leaving_list(machine, engine))
            while machine.tasks[line, NEXT] != line:
                need = finish(machine, engine, machine.tasks[line, NEXT])
                if need != REACHED:
                    return need
    while counters[RETURNING] > 0 and machine.returning[0, 0] <= now:
        if counters[KEEPS_LOG] and counters[LOG_ROWS] >= len(machine.log):
            return NEEDS_LOG
        join(machine, come_back(machine))
    while counters[ARRIVAL] < len(arrivals) and arrivals[at(counters[ARRIVAL]), 0] < now:
        need = arrive(machine, arrivals[at(counters[ARRIVAL]), 1])
        if need != REACHED:
            return need
        counters[ARRIVAL] += 1
    return REACHED


@compilable(into_caller=True)
def room_for(machine: Machine, stage: int) -> int:
    """Return the table without a free row for a task of a stage or, with forks, of its type."""
    counters, nodes, tasks = machine.counters, machine.nodes, 1
    if nodes[at(stage), N_FORKS]:
        tasks = len(nodes)
        for other in range(tasks):
            alike = nodes[other, N_TYPE] == nodes[stage, N_TYPE]
            if alike and nodes[other, N_DRAWN] >= machine.draws.shape[1]:
                counters[MISSING] = other
                return NEEDS_DRAWS
    elif nodes[at(stage), N_DRAWN] >= machine.draws.shape[1]:
        counters[MISSING] = stage
        return NEEDS_DRAWS
    if counters[KEEPS_LOG] and counters[LOG_ROWS] + tasks > len(machine.log):
        return NEEDS_LOG
    if counters[RETURNING] + tasks > len(machine.returning):
        return NEEDS_RETURNS
    free = counters[FREE_TASK]
    for _ in range(tasks):
        if free == NONE:
            return NEEDS_TASKS
        free = machine.tasks[at(free), NEXT]
    return REACHED


@compilable(into_caller=True)
def arrive(machine: Machine, stage: int) -> int:
    """Add a request at a stage, or at all first stages of a fork–join type."""
    need = room_for(machine, stage)
    if need != REACHED:
        return need
    nodes, counters = machine.nodes, machine.counters
    if not nodes[at(stage), N_FORKS]:
        join(machine, drawn(machine, stage, counters[NOW], machine.run[ARRIVED]))
        machine.run[ARRIVED] += 1
        return REACHED
    request = counters[FREE_REQUEST]
    if request == NONE:
        return NEEDS_REQUESTS
    record = machine.requests[request]
    counters[FREE_REQUEST] = record[0]
    record[R_ARRIVED], record[R_LEFT] = counters[NOW], 0
    for other in range(len(nodes)):
        if nodes[other, N_TYPE] == nodes[stage, N_TYPE]:
            record[R_LEFT] += 1
            record[R_WAITS + other] = nodes[other, N_WAITS]
            if nodes[other, N_WAITS] == 0:
                join(machine, drawn(machine, other, request, machine.run[ARRIVED]))
    machine.run[ARRIVED] += 1
    return REACHED


@compilable(into_caller=True)
def drawn(machine: Machine, stage: int, request: int, number: int) -> int:
    """Return the record of a new task, filled with the next random draws of its stage.

    Parameters
    ----------
    machine : Machine
        Tables with a free record.
    stage : int
        Its stage.
    request : int
        Record of its request; for a type without forks, the slot in which the request arrived.
    number : int
        Number of the request.
    """
    counters, node = machine.counters, machine.nodes[at(stage)]
    draw = machine.draws[at(stage), at(node[N_DRAWN])]
    node[N_DRAWN] += 1
    task = counters[FREE_TASK]
    record = machine.tasks[at(task)]
    counters[FREE_TASK] = record[NEXT]
    record[P_LEFT], record[D_LEFT] = draw[D_PREFILL], draw[D_DECODE]
    record[T_PREFILL], record[TOTAL] = draw[D_PREFILL], draw[D_PREFILL] + draw[D_DECODE]
    record[STAGE], record[REQUEST], record[ENTERED] = stage, request, NONE
    record[T_SUCCESSOR], record[T_ENGINE_DRAWN] = draw[D_SUCCESSOR], draw[D_ENGINE]
    record[T_REQUEST_NUMBER] = number
    # The number until the task joins an engine after its delay.
    record[READY] = counters[NOW] + draw[D_DELAY]
    record[LAST] = 0
    return int(task)


@compilable(into_caller=True)
def join(machine: Machine, task: int) -> None:
    """Add a task to the engine of its agent that `chosen_engine` selects."""
    counters, record = machine.counters, machine.tasks[at(task)]
    stage, now = record[STAGE], counters[NOW]
    engine = chosen_engine(machine, task)
    record[NUMBER], record[READY] = counters[NUM_TASKS], now
    counters[NUM_TASKS] += 1
    row, of_engine = machine.engines[at(engine)], machine.of_engines[at(engine)]
    of_stage, tokens = machine.of_stages[at(stage)], record[TOTAL]
    record[LINE] = prefill_list(machine, engine, machine.nodes[at(stage), N_RANK])
    insert(machine, record[LINE], task, row[S_PREFILL_ORDER], 0)
    row[NUM_PREFILLING] += 1
    row[PREFILL_TOKENS] += record[P_LEFT]
    of_engine[REQUESTS] += 1
    of_engine[TOKENS] += tokens
    of_engine[AREA_REQUESTS] -= now
    of_engine[AREA_TOKENS] -= tokens * now
    of_stage[JOINED] += 1
    of_stage[WORK] += tokens
    log_task(machine, task, engine)


@compilable(into_caller=True)
def log_task(machine: Machine, task: int, engine: int) -> None:
    """Write a task to the log, if one is kept and has a free row."""
    counters, record = machine.counters, machine.tasks[at(task)]
    if not counters[KEEPS_LOG]:
        return
    row = machine.log[counters[LOG_ROWS]]
    row[0], row[1], row[2] = LOG_TASK, record[NUMBER], record[T_REQUEST_NUMBER]
    row[3], row[4], row[5] = record[STAGE], engine, record[READY]
    row[6], row[7] = record[T_PREFILL], record[TOTAL] - record[T_PREFILL]
    counters[LOG_ROWS] += 1


@compilable(into_caller=True)
def chosen_engine(machine: Machine, task: int) -> int:
    """Return the engine of its agent that a task joins."""
    record = machine.tasks[at(task)]
    node = machine.nodes[at(record[STAGE])]
    first, balancer = node[N_FIRST_ENGINE], node[N_BALANCER]
    if balancer == RANDOM:
        return int(first + record[T_ENGINE_DRAWN])
    best = first
    if balancer in (LEAST_REQUESTS, LEAST_TOKENS):
        column = REQUESTS if balancer == LEAST_REQUESTS else TOKENS
        for engine in range(first + 1, first + node[N_ENGINES]):
            if machine.of_engines[engine][column] < machine.of_engines[best][column]:
                best = engine
    return int(best)


@compilable(into_caller=True)
def finish(machine: Machine, engine: int, task: int) -> int:
    """Move the first leaving task of an engine to its next stage; return a full table, if any."""
    counters, record = machine.counters, machine.tasks[at(task)]
    stage, now = record[STAGE], counters[NOW]
    forks, successor = machine.nodes[at(stage), N_FORKS], record[T_SUCCESSOR]
    if forks or successor != DEPARTS:
        need = room_for(machine, stage if forks else successor)
        if need != REACHED:
            return need
    of_engine, of_stage = machine.of_engines[at(engine)], machine.of_stages[at(stage)]
    remove(machine, task)
    of_engine[REQUESTS] -= 1
    of_engine[AREA_REQUESTS] += now
    of_stage[DONE] += 1
    request, number = record[REQUEST], record[T_REQUEST_NUMBER]
    record[NEXT], counters[FREE_TASK] = counters[FREE_TASK], task
    if forks:
        fork(machine, stage, request, number)
    elif successor == DEPARTS:
        machine.run[DEPARTED] += 1
        measure(machine, E2E, now - request, 1)
    else:
        follow(machine, drawn(machine, successor, request, number))
    return REACHED


@compilable(into_caller=True)
def fork(machine: Machine, stage: int, request: int, number: int) -> None:
    """Start the stages whose last predecessor is done; a request without tasks departs."""
    counters, record = machine.counters, machine.requests[request]
    record[R_LEFT] -= 1
    if record[R_LEFT] == 0:
        machine.run[DEPARTED] += 1
        measure(machine, E2E, counters[NOW] - record[R_ARRIVED], 1)
        record[0], counters[FREE_REQUEST] = counters[FREE_REQUEST], request
        return
    for other in range(len(machine.nodes)):
        if machine.children[stage, other]:
            record[R_WAITS + other] -= 1
            if record[R_WAITS + other] == 0:
                follow(machine, drawn(machine, other, request, number))


@compilable(into_caller=True)
def follow(machine: Machine, task: int) -> None:
    """Add a task to its stage, immediately or after a delay."""
    if machine.tasks[at(task), READY] == machine.counters[NOW]:
        join(machine, task)
    else:
        delay(machine, task)
