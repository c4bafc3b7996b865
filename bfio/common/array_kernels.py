"""Arrays in kernels: copies, indices, and named tuples passed as one pointer.

Numba unpacks tuples: each array becomes seven arguments of every function that takes the tuple.
With hundreds of arguments, a call takes longer to compile than the function. An entry point that
stores its tuple once with `by_reference` passes a pointer instead. `tuple.field` then reads the
field where it is used, and a field that is itself a named tuple is again a pointer. Named tuples
never change, so no write can change a value that is read.
"""

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bfio.common.compilable import compilable

T = TypeVar("T")
N = TypeVar("N", bound=np.generic)


@compilable
def copy_to(target: NDArray[N], values: NDArray[N]) -> None:
    """Copy one-dimensional ``values`` to the beginning of ``target``.

    ``target[:n] = values`` does the same but allocates and is slow to compile: Numba handles
    overlapping arrays and formats an error message.
    """
    for k in range(len(values)):
        target[k] = values[k]


def _unsigned(index: int) -> np.uint64:
    return np.uint64(index)


@compilable(compiled_as=_unsigned, into_caller=True)
def at(index: int) -> int:
    """Return an index that is known to be non-negative.

    For other indices, machine code checks the sign, as negative indices count from the end. In a
    loop over linked records this takes a fifth of the time.
    """
    return index


def _intrinsic() -> Any:
    # Imported here because it loads Numba.
    from numba import config

    from bfio.common.reference_type import by_reference

    # With NUMBA_DISABLE_JIT nothing is compiled, and the tuple itself is passed.
    return (lambda value: value) if config.DISABLE_JIT else by_reference


@compilable(written_by=_intrinsic)
def by_reference(value: T) -> T:
    """Return a named tuple in the form to pass to functions; in Python, the tuple itself.

    Call it only in entry points, because the pointer is invalid after they return. Machine code
    can read fields of the pointer by name. It cannot unpack, index or return it.
    """
    return value
