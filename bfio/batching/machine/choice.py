"""Which tokens the built-in policies load, see `bfio.batching.token_budget`."""

from bfio.batching.machine.queues import prefill_list
from bfio.batching.machine.state import (
    CHOSEN,
    DECODE_FIRST,
    GROUPS,
    LENGTH,
    MIXED,
    NEXT,
    NUM_DECODING,
    NUM_PREFILLING,
    NUM_RANKS,
    P_LEFT,
    S_BUDGET,
    S_CHUNKED,
    S_DECODE_FIRST,
    S_GROUP,
    S_KD,
    S_KP,
    S_LIMIT,
    S_MIXING,
    TO_PREFILL,
    Machine,
)
from bfio.common.compilable import compilable
from bfio.common.indices import at

#: No limit.
_ANY = 1 << 60


@compilable(into_caller=True)
def decode_pass(machine: Machine, line: int, most: int) -> int:
    """Choose a decode token of each of the first ``most`` tasks of a list; return how many."""
    end = machine.tasks[at(line)]
    end[CHOSEN] = min(most, end[LENGTH])
    return int(end[CHOSEN])


@compilable(into_caller=True)
def prefill_pass(
    machine: Machine, line: int, most: int, begun: tuple[int, int], may_cut: bool
) -> tuple[int, int, bool]:
    """Choose prompts of the first ``most`` tasks of a list, up to one for which there is no room.

    Returns
    -------
    tuple
        Prompts chosen so far, tokens left of the budget, and whether there was room for all.
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
    """Choose the next batch of an engine; return its prompts, and all its tokens."""
    row = machine.engines[at(engine)]
    mixing, budget = row[S_MIXING], row[S_BUDGET]
    prompts, left = 0, budget
    if mixing == MIXED:
        prompts, left = mixed(machine, engine)
    elif mixing == GROUPS:
        if row[NUM_DECODING] == 0 and row[TO_PREFILL] == 0:
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
    """Choose tokens of both phases, class by class; return prompts and what is left."""
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
    """Choose decode tokens alone, class by class; return what is left."""
    row = machine.engines[at(engine)]
    kd, most = limit_of(row[S_KD]), min(limit_of(row[S_LIMIT]), row[S_BUDGET])
    count = 0
    for rank in range(machine.counters[NUM_RANKS]):
        line = prefill_list(machine, engine, rank) + 1
        count += decode_pass(machine, line, min(kd, most - count))
    return int(row[S_BUDGET] - count)


@compilable(into_caller=True)
def prefills_alone(machine: Machine, engine: int, most: int) -> tuple[int, int]:
    """Choose prompts alone, of the first ``most`` tasks, class by class."""
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
    """Return a limit of which 0 means none."""
    return limit if limit > 0 else _ANY
