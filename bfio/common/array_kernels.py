"""Loops for kernels, where Numba's own operation is slow to compile."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bfio.common.compilable import compilable

T = TypeVar("T", bound=np.generic)


@compilable
def copy_to(target: NDArray[T], values: NDArray[T]) -> None:
    """Copy one-dimensional ``values`` to the beginning of ``target``.

    ``target[:n] = values`` does the same but allocates and is slow to compile: Numba handles
    overlapping arrays and formats an error message.
    """
    for k in range(len(values)):
        target[k] = values[k]
