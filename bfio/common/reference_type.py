"""Pointers to named tuples as a type of Numba's: see `bfio.common.by_reference`."""

from hashlib import sha256
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.cgutils import alloca_once_value
from numba.core.datamodel import models
from numba.core.imputils import impl_ret_borrowed
from numba.core.types.containers import BaseNamedTuple
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, register_model

_INDEX = ir.IntType(32)


class Reference(types.Type):
    """The type of pointers to a named tuple.

    Parameters
    ----------
    pointee : numba type
        That of the tuple.
    """

    def __init__(self, pointee: Any) -> None:
        self.pointee = pointee
        # Symbols hold names of types, and that of a tuple names the types of all its fields.
        digest = sha256(str(pointee).encode()).hexdigest()[:16]
        super().__init__(f"reference({pointee.instance_class.__name__} {digest})")

    def field(self, name: str) -> tuple[int, Any]:
        """Return position and type of a field."""
        place = self.pointee.fields.index(name)
        return place, self.pointee.types[place]


@register_model(Reference)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    """What it is in machine code."""

    def __init__(self, manager: Any, kind: Reference) -> None:
        super().__init__(manager, kind, manager[kind.pointee].get_value_type().as_pointer())


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    """What reading a field gives."""

    key = Reference

    def generic_resolve(self, reference: Reference, name: str) -> Any:
        if name not in reference.pointee.fields:
            return None
        kind = reference.field(name)[1]
        return Reference(kind) if isinstance(kind, BaseNamedTuple) else kind


def _read(context: Any, builder: Any, reference: Reference, pointer: Any, name: str) -> Any:
    """Write the machine code that reads a field."""
    place, kind = reference.field(name)
    address = builder.gep(pointer, [_INDEX(0), _INDEX(place)], inbounds=True)
    if isinstance(kind, BaseNamedTuple):
        return address
    value = builder.load(address)
    # It may be read once for a whole loop, whatever the loop writes.
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return impl_ret_borrowed(context, builder, kind, value)


lower_getattr_generic(Reference)(_read)


def _by_reference(_context: Any, kind: Any) -> Any:
    """Write the tuple down on the stack of the function that this is compiled into."""

    def write(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        pointer = alloca_once_value(builder, values[0])
        # Opaque: reading may not be moved to before the tuple is there.
        identity = ir.FunctionType(pointer.type, [pointer.type])
        return builder.asm(identity, "", "=r,0,~{memory}", [pointer], side_effect=True)

    return (Reference(kind)(kind), write) if isinstance(kind, BaseNamedTuple) else None


by_reference = intrinsic(_by_reference)
