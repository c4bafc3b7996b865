"""The worker before a slot, drawn at random."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from proofs_checks.papers.kv.model import Load, equation_1, used


@dataclass(frozen=True)
class State:
    """The worker before a slot: memory, running loads that fit on their own, waiting loads."""

    memory: int
    running: tuple[Load, ...]
    waiting: tuple[Load, ...]


def random_state(rng: np.random.Generator, prompts: str) -> State:
    """Draw a state.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness.
    prompts : str
        ``common`` for one prompt, ``mixed``, or ``agreeable``: longer outputs, no smaller prompts.
    """
    memory, first = int(rng.integers(4, 16)), int(rng.integers(1, 4))
    running: list[Load] = []
    for _ in range(int(rng.integers(3))):
        load = (int(rng.integers(first, memory + 1)), int(rng.integers(1, 6)))
        if fits(memory, [*running, load]):
            running.append(load)
    num = int(rng.integers(1, 6))
    # `integers` stops below its end: no prompt is greater than 4.
    needs = np.full(num, first) if prompts == "common" else rng.integers(1, 5, num)
    lengths = np.sort(rng.integers(1, 7, num))
    if prompts == "agreeable":
        needs = np.sort(needs)
    waiting = [(int(n), int(d)) for n, d in zip(needs, lengths, strict=True)]
    waiting.sort(key=lambda load: load[::-1])
    return State(memory, tuple(running), tuple(w for w in waiting if sum(w) - 1 <= memory))


def fits(memory: int, loads: Sequence[Load]) -> bool:
    """Whether loads stay within the memory at every slot until all have left."""
    return all(used(loads, d) <= memory for d in range(max((n for _, n in loads), default=0)))


def most_together(state: State) -> int:
    """Return ``max |U|`` of Equation (2), over all subsets."""
    for size in range(len(state.waiting), 0, -1):
        for chosen in combinations(state.waiting, size):
            if equation_1(state.memory, state.running, chosen):
                return size
    return 0


COMMON = ("a common prompt s", "outputs known")
