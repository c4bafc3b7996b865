"""The machine code of insertions: where one more request raises the peaks least.

Of all starts and workers at which a request fits beside those that have places already, the
cheapest is taken: its price is what it adds to the objective, and besides, at a lower price,
the tokens by which it stays under the peaks that are there anyway. Requests placed highest
first open new steps, those that follow fill the valleys beside and behind them.

A step and a worker are a cell. Blocks of cells know how far their loads are below the peaks in
all, so most places are turned down after a few blocks; what is chosen is not changed by that.
"""

from typing import NamedTuple

from bfio.common.compilable import compilable
from bfio.common.kernels import entry_point
from formulations.arrays import IntArray

#: Steps of a block.
BLOCK = 16
#: Above every price.
_NEVER = 2**61


class Profile(NamedTuple):
    """What runs at each step, and what prices insertions.

    ``load``, ``running`` and ``room`` have shape (G, T), ``peak`` (T,). ``room`` is the sum of
    ``peak − load`` from the first step of the block on. ``memory`` has shape (G,). ``per_step`` is
    the price of a step that becomes busy, ``per_token`` of a token that a peak rises, ``per_gap``
    of a token by which a step of the request stays below its peak.
    """

    load: IntArray
    running: IntArray
    peak: IntArray
    room: IntArray
    memory: IntArray
    slots: int
    per_step: int
    per_token: int
    per_gap: int


class Places(NamedTuple):
    """Requests and where they are: ``span`` holds the first busy step and the one after the last.

    ``effort`` has one entry, the cells and blocks looked at so far.
    """

    prompt: IntArray
    output: IntArray
    start: IntArray
    worker: IntArray
    span: IntArray
    effort: IntArray


@entry_point
def insert_next(
    profile: Profile, places: Places, order: IntArray, first: int, most_effort: int
) -> int:
    """Insert ``order[first:]`` one by one; return how many of the order have places then.

    It ends early after some effort, or where a request might need steps beyond the arrays.
    """
    until = places.effort[0] + most_effort
    for r in range(first, len(order)):
        i = order[r]
        output = places.output[i]
        early, late = places.span[0] - output, places.span[1] + output
        if early < 0 or late > len(profile.peak) or places.effort[0] > until:
            return r
        insert(profile, places, i, early, places.span[1])
    return len(order)


@entry_point
def put_all(profile: Profile, places: Places, placed: IntArray) -> None:
    """Let requests that have places run there."""
    for i in placed:
        put(profile, places, i)


@compilable
def insert(profile: Profile, places: Places, i: int, early: int, late: int) -> None:
    """Give request i the cheapest place from step ``early`` to step ``late``."""
    worker, start = cheapest_place(profile, places, i, early, late)
    places.worker[i] = worker
    places.start[i] = start
    put(profile, places, i)
    places.span[0] = min(places.span[0], start)
    places.span[1] = max(places.span[1], start + places.output[i])


@compilable
def cheapest_place(
    profile: Profile, places: Places, i: int, early: int, late: int
) -> tuple[int, int]:
    """Return worker and start of least price; of equal ones the lowest worker, the latest start.

    Worker -1 says that there is none: never where ``late`` leaves the whole request new steps.
    """
    prompt, output = places.prompt[i], places.output[i]
    # One more than a price that some place has: the first of that price is below it.
    least, at_worker, at_start = _sampled(profile, places, i, early, late), -1, -1
    for g in range(profile.load.shape[0]):
        # A free slot from the step on, for so many steps.
        free = 0
        places.effort[0] += late + output - early
        for start in range(late + output - 1, early - 1, -1):
            free = free + 1 if profile.running[g, start] < profile.slots else 0
            if free < output or start > late:
                continue
            price = _price(profile, places, g, start, output, prompt, least)
            if price < least:
                least, at_worker, at_start = price, g, start
            if least == 0:
                return at_worker, at_start
    return at_worker, at_start


@compilable
def _sampled(profile: Profile, places: Places, i: int, early: int, late: int) -> int:
    """Return one more than the least price of one place in each block; `_NEVER` if none fits."""
    prompt, output = places.prompt[i], places.output[i]
    least = _NEVER - 1
    for g in range(profile.load.shape[0]):
        for start in range(late, early - 1, -BLOCK):
            price = _price(profile, places, g, start, output, prompt, least)
            if price < least and _is_free(profile, g, start, output):
                least = price
        if least == 0:
            break
    return least + 1


@compilable
def _is_free(profile: Profile, g: int, start: int, output: int) -> bool:
    k = start
    while k < start + output and profile.running[g, k] < profile.slots:
        k += 1
    return k == start + output


@compilable
def _price(
    profile: Profile, places: Places, g: int, start: int, output: int, prompt: int, least: int
) -> int:
    """Return the price of a place, or, once that is clear, something no less than ``least``.

    Lower bounds of all blocks first, then, block by block, prices in their place.
    """
    end = start + output
    price, k = 0, start
    while k < end and price < least:
        after = min((k // BLOCK + 1) * BLOCK, end)
        price += _floor(profile, g, k, after, prompt + k - start)
        places.effort[0] += 1
        k = after
    k = start
    while k < end and price < least:
        after = min((k // BLOCK + 1) * BLOCK, end)
        price -= _floor(profile, g, k, after, prompt + k - start)
        price += _price_within(profile, g, k, after, prompt + k - start)
        places.effort[0] += after - k
        k = after
    return price


@compilable
def _floor(profile: Profile, g: int, k: int, after: int, load: int) -> int:
    """Return a lower bound on the price of the steps ``k .. after − 1`` of one block.

    The price of a step is convex in ``load − room``: all together cost no less than their mean
    does each.
    """
    room: int = profile.room[g, after - 1]
    if k % BLOCK:
        room -= profile.room[g, k - 1]
    steps = after - k
    above = steps * load + steps * (steps - 1) // 2 - room
    return above * profile.per_token if above > 0 else -above * profile.per_gap


@compilable
def _price_within(profile: Profile, g: int, k: int, after: int, load: int) -> int:
    """Return the price of the steps from k on, in the first of which the request weighs `load`."""
    price = 0
    for step in range(k, after):
        new = profile.load[g, step] + load + step - k
        above = new - profile.peak[step]
        price += max(above, 0) * profile.per_token - min(above, 0) * profile.per_gap
        if profile.peak[step] == 0:
            price += profile.per_step
        if new > profile.memory[g]:
            return _NEVER
    return price


@compilable
def put(profile: Profile, places: Places, i: int) -> None:
    """Let request i run in its place."""
    g, start, output = places.worker[i], places.start[i], places.output[i]
    risen = False
    for j in range(output):
        profile.load[g, start + j] += places.prompt[i] + j
        profile.running[g, start + j] += 1
        if profile.load[g, start + j] > profile.peak[start + j]:
            profile.peak[start + j] = profile.load[g, start + j]
            risen = True
    for block in range(start // BLOCK, (start + output - 1) // BLOCK + 1):
        for h in range(profile.load.shape[0]):
            # Where no peak rose, other workers are as far below it as before.
            if risen or h == g:
                _measure_room(profile, h, block)


@compilable
def _measure_room(profile: Profile, h: int, block: int) -> None:
    room = 0
    for k in range(block * BLOCK, (block + 1) * BLOCK):
        room += profile.peak[k] - profile.load[h, k]
        profile.room[h, k] = room
