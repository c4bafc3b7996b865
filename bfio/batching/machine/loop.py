"""The loop of compiled runs: it jumps from slot to slot in which something happens."""

from bfio.batching.draws import (
    D_DECODE,
    D_DELAY,
    D_ENGINE,
    D_PREFILL,
    D_SUCCESSOR,
    DEPARTS,
)
from bfio.batching.log import LOG_TASK
from bfio.batching.machine.batches import load, measure
from bfio.batching.machine.delays import come_back, delay
from bfio.batching.machine.queues import insert, leaving_list, prefill_list, remove
from bfio.batching.machine.state import (
    ARRIVAL,
    D_LEFT,
    ENTERED,
    FREE_AT,
    FREE_REQUEST,
    FREE_TASK,
    KEEPS_LOG,
    LAST,
    LEAST_REQUESTS,
    LEAST_TOKENS,
    LINE,
    LOG_ROWS,
    MISSING,
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
    S_PREFILL_ORDER,
    STAGE,
    T_ENGINE_DRAWN,
    T_PREFILL,
    T_REQUEST_NUMBER,
    T_SUCCESSOR,
    TOTAL,
    Machine,
)
from bfio.batching.tallies import (
    AREA_REQUESTS,
    AREA_TOKENS,
    ARRIVED,
    DEPARTED,
    DONE,
    E2E,
    JOINED,
    REQUESTS,
    TOKENS,
    WORK,
)
from bfio.common.compilable import compilable
from bfio.common.indices import at

#: A slot that does not come.
_NEVER = 1 << 62


def run_slots(machine: Machine, until: int) -> int:
    """Run all slots before ``until`` and deliver what comes to it, or until a table needs rows.

    It returns earlier, too, if nothing happens any more. What has been delivered or loaded before
    a return stays so: the next call goes on.
    """
    counters = machine.counters
    while True:
        need = deliver(machine)
        if need != REACHED or counters[NOW] >= until:
            return need
        need = decide(machine)
        if need != REACHED:
            return need
        slot = next_slot(machine)
        if slot == _NEVER:
            return REACHED
        counters[NOW] = min(slot, until)


@compilable(into_caller=True)
def decide(machine: Machine) -> int:
    """Let every engine that is free and has requests load a batch; return what is missing."""
    counters = machine.counters
    now = counters[NOW]
    for engine in range(len(machine.engines)):
        row = machine.engines[at(engine)]
        if row[FREE_AT] <= now and row[NUM_PREFILLING] + row[NUM_DECODING] > 0:
            if counters[KEEPS_LOG] and counters[LOG_ROWS] + row[S_BUDGET] + 1 > len(machine.log):
                return NEEDS_LOG
            load(machine, engine)
    return REACHED


@compilable(into_caller=True)
def next_slot(machine: Machine) -> int:
    """Return the next slot in which something happens."""
    counters, slot = machine.counters, _NEVER
    now = counters[NOW]
    for engine in range(len(machine.engines)):
        row = machine.engines[at(engine)]
        if row[FREE_AT] > now:
            slot = min(slot, row[FREE_AT])
        elif row[NUM_PREFILLING] + row[NUM_DECODING] > 0:
            return int(now + 1)
        if slot == now + 1:
            # Nothing that is not over yet comes sooner.
            return int(slot)
    if counters[ARRIVAL] < len(machine.arrivals):
        slot = min(slot, machine.arrivals[at(counters[ARRIVAL]), 0] + 1)
    if counters[RETURNING] > 0:
        slot = min(slot, machine.returning[0, 0])
    return int(slot)


@compilable(into_caller=True)
def deliver(machine: Machine) -> int:
    """Let tasks go on, come back and arrive, each in its order; return what is missing."""
    counters = machine.counters
    now, arrivals = counters[NOW], machine.arrivals
    for engine in range(len(machine.engines)):
        if machine.engines[at(engine), FREE_AT] <= now:
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
    """Return what is missing to make tasks of a stage: of one, or of all of its type."""
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
    """Let a request arrive at a stage; of a fork–join type at all in which it begins."""
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
    """Return a record of a task with the next draws of its stage.

    Parameters
    ----------
    machine : Machine
        With room for it.
    stage : int
        Its stage.
    request : int
        Record of its request, or, if its type does not fork, the slot in which that arrived.
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
    # Until it joins an engine, when its delay ends.
    record[READY] = counters[NOW] + draw[D_DELAY]
    record[LAST] = 0
    return int(task)


@compilable(into_caller=True)
def join(machine: Machine, task: int) -> None:
    """Let a task join an engine of its agent."""
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
    """Write a task to the log, if there is one; it has room."""
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
    """Return the engine that a task joins."""
    record = machine.tasks[at(task)]
    node = machine.nodes[at(record[STAGE])]
    first, balancer = node[N_FIRST_ENGINE], node[N_BALANCER]
    if balancer == RANDOM:
        return int(first + record[T_ENGINE_DRAWN])
    best = first
    if balancer in (LEAST_REQUESTS, LEAST_TOKENS):
        column = REQUESTS if balancer == LEAST_REQUESTS else TOKENS
        for engine in range(first + 1, first + node[N_ENGINES]):
            if machine.of_engines[engine, column] < machine.of_engines[best, column]:
                best = engine
    return int(best)


@compilable(into_caller=True)
def finish(machine: Machine, engine: int, task: int) -> int:
    """Let the first of the tasks that leave an engine go on; return what is missing."""
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
    """Let the stages begin that waited for this one alone; a request that is done departs."""
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
    """Let a task come to its stage, after its delay."""
    if machine.tasks[at(task), READY] == machine.counters[NOW]:
        join(machine, task)
    else:
        delay(machine, task)
