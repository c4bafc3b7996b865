"""What kernels write as loops because Numba's own way takes long to compile."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bfio.common.compilable import compilable

T = TypeVar("T", bound=np.generic)


@compilable
def copy_to(target: NDArray[T], values: NDArray[T]) -> None:
    """Write ``values``, of one dimension, over as many first entries of ``target``.

    ``target[:n] = values`` says the same and allocates: Numba provides for arrays that overlap,
    and for the text of an error, with all of its text functions.
    """
    for k in range(len(values)):
        target[k] = values[k]
