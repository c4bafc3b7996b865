"""Which tokens the built-in policies load, see `bfio.batching.token_budget`."""

from bfio.batching.machine.queues import list_of
from bfio.batching.machine.state import (
    DECODE_FIRST,
    GROUPS,
    HEAD,
    MIXED,
    NEXT,
    NONE,
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

#: No limit.
_ANY = 1 << 60


@compilable(into_caller=True)
def decode_pass(machine: Machine, line: int, most: int, begun: tuple[int, int]) -> tuple[int, int]:
    """Choose a decode token of each of the first ``most`` tasks of a list.

    Returns
    -------
    tuple of int
        Tasks chosen so far and tokens left of the budget; ``begun`` are those before.
    """
    count, left = begun
    tasks, chosen = machine.tasks, machine.chosen
    task, stop = machine.lists[line, HEAD], count + min(most, left)
    while task != NONE and count < stop:
        chosen[count, 0], chosen[count, 1] = task, 0
        count += 1
        left -= 1
        task = tasks[task, NEXT]
    return count, left


@compilable(into_caller=True)
def prefill_pass(
    machine: Machine, line: int, most: int, begun: tuple[int, int], may_cut: bool
) -> tuple[int, int, bool]:
    """Choose prompts of the first ``most`` tasks of a list, up to one for which there is no room.

    Returns
    -------
    tuple
        Tasks chosen so far, tokens left of the budget, and whether there was room for all.
    """
    count, left = begun
    tasks, chosen = machine.tasks, machine.chosen
    task, stop = machine.lists[line, HEAD], count + most
    while task != NONE and count < stop:
        wanted = tasks[task, P_LEFT]
        chunk = min(wanted, left)
        if chunk == 0 or (chunk < wanted and not may_cut):
            return count, left, False
        chosen[count, 0], chosen[count, 1] = task, chunk
        count += 1
        left -= chunk
        task = tasks[task, NEXT]
    return count, left, True


@compilable(into_caller=True)
def choose(machine: Machine, engine: int) -> tuple[int, int]:
    """Write the next batch of an engine to ``chosen``; return its tasks and its tokens."""
    row = machine.engines[engine]
    mixing, budget = row[S_MIXING], row[S_BUDGET]
    if mixing == MIXED:
        count, left = mixed(machine, engine)
    elif mixing == GROUPS:
        if row[NUM_DECODING] == 0 and row[TO_PREFILL] == 0:
            row[TO_PREFILL] = min(row[S_GROUP], row[NUM_PREFILLING])
        if row[TO_PREFILL] > 0:
            count, left = prefills(machine, engine, row[TO_PREFILL])
        else:
            count, left = decodes(machine, engine)
    elif row[NUM_PREFILLING] == 0 or (row[NUM_DECODING] > 0 and mixing == DECODE_FIRST):
        count, left = decodes(machine, engine)
    else:
        count, left = prefills(machine, engine, _ANY)
    return count, int(budget - left)


@compilable(into_caller=True)
def mixed(machine: Machine, engine: int) -> tuple[int, int]:
    """Choose tokens of both phases, class by class."""
    row = machine.engines[engine]
    kp, kd = limit_of(row[S_KP]), limit_of(row[S_KD])
    places, may_cut = limit_of(row[S_LIMIT]), row[S_CHUNKED] == 1
    count, left = 0, row[S_BUDGET]
    for rank in range(machine.counters[NUM_RANKS]):
        waiting = list_of(machine, engine, rank, 0)
        if row[S_DECODE_FIRST]:
            count, left = decode_pass(machine, waiting + 1, min(kd, places - count), (count, left))
        count, left, _ = prefill_pass(
            machine, waiting, min(kp, places - count), (count, left), may_cut
        )
        if not row[S_DECODE_FIRST]:
            count, left = decode_pass(machine, waiting + 1, min(kd, places - count), (count, left))
        if left == 0:
            break
    return count, left


@compilable(into_caller=True)
def decodes(machine: Machine, engine: int) -> tuple[int, int]:
    """Choose decode tokens alone, class by class."""
    row = machine.engines[engine]
    kd, places = limit_of(row[S_KD]), limit_of(row[S_LIMIT])
    count, left = 0, row[S_BUDGET]
    for rank in range(machine.counters[NUM_RANKS]):
        line = list_of(machine, engine, rank, 1)
        count, left = decode_pass(machine, line, min(kd, places - count), (count, left))
    return count, left


@compilable(into_caller=True)
def prefills(machine: Machine, engine: int, most: int) -> tuple[int, int]:
    """Choose prompts alone, of the first ``most`` tasks, class by class."""
    row = machine.engines[engine]
    kp, may_cut = limit_of(row[S_KP]), row[S_CHUNKED] == 1
    count, left, goes_on = 0, row[S_BUDGET], True
    for rank in range(machine.counters[NUM_RANKS]):
        if goes_on:
            line = list_of(machine, engine, rank, 0)
            count, left, goes_on = prefill_pass(
                machine, line, min(kp, most - count), (count, left), may_cut
            )
    return count, left


@compilable(into_caller=True)
def limit_of(limit: int) -> int:
    """Return a limit of which 0 means none."""
    return limit if limit > 0 else _ANY
