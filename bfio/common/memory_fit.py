"""The common error for requests that exceed the memory."""

import numpy as np

from formulations.arrays import BoolArray
from formulations.errors import InputError


def refuse_oversized(oversized: BoolArray, memory: int, remedy: str) -> None:
    """Reject requests that exceed the memory even when alone.

    Parameters
    ----------
    oversized : BoolArray
        Shape (n,): whether each request does.
    memory : int
        Size of the memory [tokens].
    remedy : str
        What the user should do.

    Raises
    ------
    InputError
        With the first of them and their number.
    """
    if (count := int(np.count_nonzero(oversized))) > 0:
        raise InputError(
            f"requests[{int(np.argmax(oversized))}]",
            f"{count} of {len(oversized)} requests exceed the memory of {memory} tokens alone",
            remedy,
        )
