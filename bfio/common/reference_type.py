"""A Numba type for pointers to named tuples: see `bfio.common.array_kernels`."""

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
    """Numba type of pointers to a named tuple.

    Parameters
    ----------
    pointee : numba type
        Type of the tuple.
    """

    def __init__(self, pointee: Any) -> None:
        self.pointee = pointee
        # Symbols contain type names, and the name of a tuple type lists the types of all its
        # fields.
        digest = sha256(str(pointee).encode()).hexdigest()[:16]
        super().__init__(f"reference({pointee.instance_class.__name__} {digest})")

    def field(self, name: str) -> tuple[int, Any]:
        """Return the position and type of a field of the named tuple."""
        place = self.pointee.fields.index(name)
        return place, self.pointee.types[place]


@register_model(Reference)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    """Machine-code representation of a `Reference`: a pointer to the tuple's structure."""

    def __init__(self, manager: Any, kind: Reference) -> None:
        super().__init__(manager, kind, manager[kind.pointee].get_value_type().as_pointer())


@infer_getattr
class _Fields(AttributeTemplate):  # type: ignore[misc]
    """Types of attributes of a `Reference`: the field's type, or a reference to a nested tuple."""

    key = Reference

    def generic_resolve(self, reference: Reference, name: str) -> Any:
        if name not in reference.pointee.fields:
            return None
        kind = reference.field(name)[1]
        return Reference(kind) if isinstance(kind, BaseNamedTuple) else kind


def _read(context: Any, builder: Any, reference: Reference, pointer: Any, name: str) -> Any:
    """Generate the code that reads a field of the named tuple."""
    place, kind = reference.field(name)
    address = builder.gep(pointer, [_INDEX(0), _INDEX(place)], inbounds=True)
    if isinstance(kind, BaseNamedTuple):
        return address
    value = builder.load(address)
    # The value never changes, so a loop may load it once.
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return impl_ret_borrowed(context, builder, kind, value)


lower_getattr_generic(Reference)(_read)


def _by_reference(_context: Any, kind: Any) -> Any:
    """Generate the code that stores the named tuple on the stack of the calling function."""

    def write(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        pointer = alloca_once_value(builder, values[0])
        # Opaque to the optimizer, so that no read is moved before the tuple is stored.
        identity = ir.FunctionType(pointer.type, [pointer.type])
        return builder.asm(identity, "", "=r,0,~{memory}", [pointer], side_effect=True)

    return (Reference(kind)(kind), write) if isinstance(kind, BaseNamedTuple) else None


by_reference = intrinsic(_by_reference)
