"""Named tuples that kernels take as one pointer.

Numba unpacks tuples: each array becomes seven arguments of every function that takes the tuple.
With hundreds of arguments, a call takes longer to compile than the function. Python lays out the
tuple in memory instead, and machine code takes its address. `tuple.field` then reads the field
where it is used, and a field that is itself a named tuple is again a pointer. Named tuples never
change, so no write can change a value that is read.
"""

import struct
from ctypes import addressof, c_void_p, cast, create_string_buffer
from hashlib import sha256
from typing import Any

import numpy as np
from llvmlite import ir
from numba import typeof
from numba.core import types
from numba.core.datamodel import models
from numba.core.errors import NumbaError
from numba.core.imputils import impl_ret_borrowed
from numba.core.types.containers import BaseNamedTuple
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    register_model,
    unbox,
)

from bfio.common.numba_parts import type_text
from formulations.errors import InputError

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
        digest = sha256(type_text(pointee).encode()).hexdigest()[:16]
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


@unbox(Reference)  # type: ignore[untyped-decorator]
def _unbox(_kind: Reference, value: Any, context: Any) -> Any:
    """Generate the code that reads the address from a `Pointer`."""
    address = context.pyapi.object_getattr_string(value, "address")
    number = context.pyapi.long_as_longlong(address)
    context.pyapi.decref(address)
    pointer = context.context.get_value_type(_kind)
    return NativeValue(context.builder.inttoptr(number, pointer))


class Pointer:
    """A named tuple in the memory layout of machine code, passed as a pointer.

    Parameters
    ----------
    value : named tuple
        Its fields are arrays, numbers, NumPy generators, and tuples of these.

    Raises
    ------
    InputError
        If a field is of another type.
    """

    def __init__(self, value: Any) -> None:
        self._value = value  # Its arrays must exist as long as the pointer.
        words: list[Any] = []
        kinds: list[Any] = []
        _lay_out(value, words, kinds)
        key, name = tuple(kinds), type(value).__name__
        try:
            kind, layout = _known.get(key) or _stored_as(typeof(value), words)
            packed = layout.pack(*words)
        except (ValueError, NumbaError, struct.error) as error:
            raise _refused(f"{name} with numbers of such size or kind") from error
        _known[key] = kind, layout
        self._numba_type_ = kind
        self._memory = create_string_buffer(packed)
        self.address = addressof(self._memory)


#: Numba types and layouts of named tuples, by class and kinds of fields. `numba.typeof` takes
#: milliseconds for a tuple of many arrays.
_known: dict[tuple[Any, ...], tuple[Reference, struct.Struct]] = {}


def _lay_out(value: Any, words: list[Any], kinds: list[Any]) -> None:
    """Append the words of a value, and what its type depends on."""
    if type(value) is np.ndarray and not value.dtype.hasobject:
        flags = value.flags
        form = flags.c_contiguous, flags.f_contiguous, flags.writeable
        kinds.append((value.dtype, value.ndim, form))
        address = value.__array_interface__["data"][0]
        # First two pointers to the owner, which Numba does not need while it exists.
        words.extend((0, 0, value.size, value.itemsize, address, *value.shape, *value.strides))
        return
    kinds.append(type(value))
    if isinstance(value, tuple):
        kinds.append(len(value))
        for field in value:
            _lay_out(field, words, kinds)
    elif isinstance(value, np.random.Generator):
        parts = value.bit_generator.ctypes
        calls = (parts.next_uint64, parts.next_uint32, parts.next_double)
        addresses = [cast(call, c_void_p).value for call in calls]
        words.extend((0, parts.state_address, parts.state.value, *addresses))
        words.extend((parts.bit_generator.value, 0, 0))
    elif type(value) in _FORMATS:
        words.append(value)
    else:
        raise _refused(type(value).__name__)


#: Format of each type of word, see `struct`.
_FORMATS = {bool: "?", np.bool_: "?", int: "q", np.int64: "q", float: "d", np.float64: "d"}


def _refused(what: str) -> InputError:
    remedy = "use arrays of numbers, int, float, bool and tuples of these"
    return InputError("kernel", f"{what} cannot be passed to machine code", remedy)


def _stored_as(kind: Any, words: list[Any]) -> tuple[Reference, struct.Struct]:
    """Return the type of pointers to a named tuple, and the layout of its words."""
    reference = Reference(kind)
    layout = checked(reference, "".join(_FORMATS[type(word)] for word in words))
    return reference, struct.Struct(layout)


def checked(kind: Reference, words: str) -> str:
    """Return Numba's layout of a type, after a check that it has words of these formats."""
    # The first import defines the layout of generators.
    import numba.np.random.generator_core  # noqa: F401
    from numba.core.registry import cpu_target

    try:
        value_type = cpu_target.target_context.get_value_type(kind.pointee)
    except NotImplementedError as error:
        raise ValueError(f"Numba cannot store {error}") from error
    layout = _format_of(value_type)
    if layout.replace(_ALIGNED, "") != words:
        raise NotImplementedError(f"this version of Numba stores {kind} in another layout")
    return layout


#: Moves to the next multiple of eight bytes.
_ALIGNED = "0q"


def _format_of(kind: Any) -> str:
    """Return the format of an LLVM type."""
    if isinstance(kind, ir.BaseStructType):
        fields = "".join(map(_format_of, kind.elements))
        # A structure with words begins and ends at a multiple of eight bytes.
        return f"{_ALIGNED}{fields}{_ALIGNED}" if fields.strip("?") else fields
    if isinstance(kind, ir.ArrayType):
        return _format_of(kind.element) * int(kind.count)
    if isinstance(kind, ir.IntType):
        return {1: "?", 8: "b", 64: "q"}[kind.width]
    return "q" if kind.is_pointer else {ir.DoubleType: "d"}[type(kind)]
