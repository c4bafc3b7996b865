"""Named tuples that machine code passes as one pointer.

Numba unpacks tuples: each array becomes seven arguments of every function that takes the tuple.
With hundreds of arguments, a call takes longer to compile than the function. An entry point that
stores its tuple once with `by_reference` passes a pointer instead. `tuple.field` then reads the
field where it is used, and a field that is itself a named tuple is again a pointer. Named tuples
never change, so no write can change a value that is read.
"""

from typing import Any, TypeVar

from bfio.common.compilable import compilable

T = TypeVar("T")


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
