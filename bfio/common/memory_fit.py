"""Requests that no memory can hold, the same refusal for every simulator."""

import numpy as np

from formulations.arrays import BoolArray
from formulations.errors import InputError


def refuse_oversized(oversized: BoolArray, memory: int, remedy: str) -> None:
    """Refuse requests that exceed the memory alone, if there are such.

    Parameters
    ----------
    oversized : BoolArray
        Shape (n,): which do.
    memory : int
        Its size [tokens].
    remedy : str
        What the user should do.

    Raises
    ------
    InputError
        Naming the first of them, and how many there are.
    """
    if (count := int(np.count_nonzero(oversized))) > 0:
        raise InputError(
            f"requests[{int(np.argmax(oversized))}]",
            f"{count} of {len(oversized)} requests exceed the memory of {memory} tokens alone",
            remedy,
        )
