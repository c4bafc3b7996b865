"""KV memory of the workers: what fits beside what, and how many requests run at once."""

from collections.abc import Iterable
from itertools import accumulate

from formulations.arrays import IntArray, integer, integer_vector
from formulations.errors import InputError

#: A running request as (constant, end): at a step k < end it holds ``constant + k`` tokens.
Held = tuple[int, int]


def checked_memory(memory: object, workers: int, peaks: IntArray) -> IntArray | None:
    """Return the tokens that each worker holds at most, shape (G,); None where none is given.

    Parameters
    ----------
    memory : object
        One number for all workers, or one each.
    workers : int
        ``G``.
    peaks : IntArray
        Shape (n,): most tokens that each request holds.

    Raises
    ------
    InputError
        If a value breaks its rule, or a request fits no worker.
    """
    if memory is None:
        return None
    if isinstance(memory, int) and not isinstance(memory, bool):
        memory = [integer(memory, "memory", minimum=1)] * workers
    tokens = integer_vector(memory, "memory", minimum=1)
    if len(tokens) != workers:
        raise InputError(
            "memory", f"{len(tokens)} entries for {workers} workers", "give one each, or a number"
        )
    if len(peaks) and int(peaks.max()) > int(tokens.max()):
        i = int(peaks.argmax())
        raise InputError(
            f"requests[{i}]",
            f"holds {peaks[i]} tokens at last, the largest worker {tokens.max()}",
            "leave it out, or give more memory",
        )
    return tokens


def fits(held: Iterable[Held], new: Held, memory: int) -> bool:
    """Whether a worker can take one more request and holds no more than its memory to the end.

    Loads rise but where a request ends, so the last step of each is looked at.
    """
    together = [*held, new]
    return all(
        sum(constant + end - 1 for constant, other in together if other >= end) <= memory
        for _, end in together
    )


def most_at_once(prompt: IntArray, slots: int, memory: IntArray) -> int:
    """Return how many requests run at once at most: on each worker so many of the smallest."""
    sums = list(accumulate(sorted(prompt.tolist())[:slots]))
    return sum(sum(total <= tokens for total in sums) for tokens in memory.tolist())
