"""Lengths drawn from a run that goes on: of many requests only a lower bound is known yet.

Drawing a request at random, and instead of one that still runs another that got longer, again and
again until one has ended, draws from the product-limit estimate (Kaplan and Meier 1958) in the
form of Efron's redistribution to the right (1967). A request keeps its prompt, and its length if
that is known. Beyond the longest length lives are geometric, with the mean steps per end.
"""

import numpy as np

from bfio.common.compilable import compilable
from bfio.decode.adaptive.memory import (
    AHEAD_KNOWN,
    BEGUN,
    IS_OPEN,
    LEFT,
    LENGTH,
    PAST,
    PROMPT,
    RUNNING,
    Drawn,
    Memory,
)
from bfio.decode.adaptive.settings import LONGEST_TAIL
from bfio.step.exact.place import random_below
from formulations.arrays import IntArray


@compilable(allocates=True)
def draw_lengths(memory: Memory, step: int) -> int:
    """Draw what running requests have left and requests to come; return the mean of the former."""
    counts, drawn, past = memory.seen.counts, memory.drawn, memory.scene.past
    num = counts[PAST]
    mean = sort_by_length(drawn, past[:, :num])
    lengths = drawn.sorted[:num]
    for i in range(counts[RUNNING]):
        drawn.remaining[i] = memory.scene.running[LEFT, i]
        if drawn.remaining[i] > 0:
            continue
        begun = memory.scene.running[BEGUN, i]
        age = step + counts[AHEAD_KNOWN] - begun
        longer = np.searchsorted(lengths, age, side="right")
        length = drawn_length(drawn, past[:, :num], longer, age, mean)
        drawn.remaining[i] = length - (step - begun)
    for i in range(len(drawn.prompt)):
        place = random_below(drawn.word, num)
        chosen = drawn.order[place]
        drawn.prompt[i] = past[PROMPT, chosen]
        drawn.output[i] = past[LENGTH, chosen]
        if past[IS_OPEN, chosen] != 0:
            drawn.output[i] = drawn_length(
                drawn, past[:, :num], place + 1, past[LENGTH, chosen], mean
            )
    left = drawn.remaining[: counts[RUNNING]].sum()
    return mean if counts[RUNNING] == 0 else int(left // counts[RUNNING])


@compilable(allocates=True)
def sort_by_length(drawn: Drawn, past: IntArray) -> int:
    """Order past requests by length, those that have ended first; return the mean length."""
    num = past.shape[1]
    # Distinct keys, so that any way of sorting gives the same order.
    keys = (2 * past[LENGTH] + past[IS_OPEN]) * num + np.arange(num)
    drawn.order[:num] = np.argsort(keys)
    steps, ends = 0, 0
    for place in range(num):
        drawn.sorted[place] = past[LENGTH, drawn.order[place]]
        steps += past[LENGTH, place]
        ends += 1 - past[IS_OPEN, place]
    return max(1, steps // max(1, ends))


@compilable
def drawn_length(drawn: Drawn, past: IntArray, place: int, age: int, mean: int) -> int:
    """Draw a length from those at ``place`` and behind it in the order; beyond ``age``."""
    num = past.shape[1]
    while place < num:
        place += random_below(drawn.word, num - place)
        chosen = drawn.order[place]
        age = past[LENGTH, chosen]
        if past[IS_OPEN, chosen] == 0:
            return int(age)
        place += 1
    extra = 1
    while extra < LONGEST_TAIL * mean and random_below(drawn.word, mean) != 0:
        extra += 1
    return int(age + extra)
