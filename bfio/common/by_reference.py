"""Named tuples that machine code passes on as one pointer.

Numba takes a tuple apart: each of its arrays is seven arguments of every function that it is
handed to, and with hundreds of arguments a call takes longer to compile than the function. An
entry point that writes its tuple down once, with `by_reference`, hands a pointer on; `tuple.field`
then reads the field where it is wanted, and a field that is a named tuple itself is a pointer
again. As named tuples never change, no write in between can change what is read.
"""

from typing import Any, TypeVar

from bfio.common.compilable import compilable

T = TypeVar("T")


def _intrinsic() -> Any:
    # Here, as it loads Numba.
    from numba import config

    from bfio.common.reference_type import by_reference

    # With NUMBA_DISABLE_JIT nothing is compiled, and the tuple is handed on itself.
    return (lambda value: value) if config.DISABLE_JIT else by_reference


@compilable(written_by=_intrinsic)
def by_reference(value: T) -> T:
    """Return a named tuple as what functions are to pass on: in Python that is the tuple itself.

    To be called in entry points only: what it points to is gone when they return. Of such a
    pointer machine code can read fields, by name; it cannot unpack, index or return it.
    """
    return value
