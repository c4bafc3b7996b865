"""Validate numbers from users as integer arrays; errors name the offending entry."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from formulations.errors import InputError, check_kind
from formulations.problem_data import check_keys, check_list, shown
from formulations.scalars import MAX_TOKENS as MAX_TOKENS
from formulations.scalars import integer as integer
from formulations.words import counted

T = TypeVar("T")
IntArray: TypeAlias = NDArray[np.int64]
FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]


def integer_vector(
    values: object, where: str, *, minimum: int = 0, maximum: int = MAX_TOKENS
) -> IntArray:
    """Return ``values`` as a read-only int64 vector, each entry checked by `integer`.

    Accepts lists, tuples, arrays, and objects that convert to an array, such as pandas or polars
    series and pyarrow arrays.
    """
    values = plain_array(values)
    if isinstance(values, np.ndarray):
        return _checked_array(values, where, 1, minimum, maximum)
    if not _is_sequence(values):
        raise InputError(where, f"expected a list, found {shown(values)}", "write a list")
    entries = [
        integer(v, f"{where}[{i}]", minimum=minimum, maximum=maximum) for i, v in enumerate(values)
    ]
    return frozen(np.array(entries, dtype=np.int64))


def integer_matrix(
    rows: object, where: str, *, columns: int | None = None, maximum: int = MAX_TOKENS
) -> IntArray:
    """Return ``rows`` as a read-only int64 matrix of numbers from 0 to ``maximum``.

    Parameters
    ----------
    rows : sequence of sequences of int
        Equally long rows.
    where : str
        Name used in errors.
    columns : int, optional
        Required row length; by default that of the first row.
    """
    rows = plain_array(rows)
    if isinstance(rows, np.ndarray):
        array = _checked_array(rows, where, 2, 0, maximum)
        _check_columns(array.shape[1], columns, where)
        return array
    if not _is_sequence(rows):
        what = f"expected a list of lists, found {shown(rows)}"
        raise InputError(where, what, "write equally long lists of integers")
    vectors = [integer_vector(row, f"{where}[{i}]", maximum=maximum) for i, row in enumerate(rows)]
    width = columns if columns is not None else (len(vectors[0]) if vectors else 0)
    for i, vector in enumerate(vectors):
        _check_columns(len(vector), width, f"{where}[{i}]")
    return frozen(np.array(vectors, dtype=np.int64).reshape(len(vectors), width))


def check_length(array: NDArray[Any], length: int, where: str, per: str) -> None:
    """Refuse an array of another length; ``per`` names the item that each entry belongs to."""
    if len(array) != length:
        raise InputError(
            where,
            f"{counted(len(array), 'entry')} where {length} are expected",
            f"give one per {per}",
        )


def optional_vector(values: object, where: str, length: int, minimum: int) -> IntArray | None:
    """Return one integer per worker, or None if ``values`` is None; see `integer_vector`."""
    if values is None:
        return None
    vector = integer_vector(values, where, minimum=minimum)
    check_length(vector, length, where, "worker")
    return vector


def optional_flags(values: object, where: str, length: int) -> BoolArray | None:
    """Return one flag per request as a read-only vector, or None if ``values`` is None."""
    if values is None:
        return None
    values = plain_array(values)
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if not isinstance(values, list | tuple) or not all(isinstance(v, bool) for v in values):
        raise InputError(where, "is not a list of true or false", "give one flag per request")
    flags: BoolArray = frozen(np.array(values, dtype=np.bool_).reshape(len(values)))
    check_length(flags, length, where, "request")
    return flags


def read_columns(
    document: object,
    where: str,
    columns: Mapping[str, tuple[int, int | None]],
    maximum: int = MAX_TOKENS,
) -> dict[str, IntArray]:
    """Return the columns of a JSON table, ``[{"name": integer, ...}, ...]``.

    Parameters
    ----------
    document : object
        The table, as parsed from JSON: one object per row.
    where : str
        Name of the document, for errors.
    columns : mapping
        Name to (minimum, default); a default of None makes the column required.
    maximum : int
        Largest allowed value.

    Raises
    ------
    InputError
        If a value is missing or out of range; the error names row and column.
    """
    required = tuple(name for name, (_, default) in columns.items() if default is None)
    optional = tuple(name for name in columns if name not in required)
    rows = [
        check_keys(row, f"{where}[{i}]", required, optional)
        for i, row in enumerate(check_list(document, where))
    ]
    read = {}
    for name, (least, default) in columns.items():
        values = [
            integer(row.get(name, default), f"{where}[{i}].{name}", minimum=least, maximum=maximum)
            for i, row in enumerate(rows)
        ]
        read[name] = np.array(values, dtype=np.int64)
    return read


def plain_array(values: object) -> object:
    """Return an array of objects as a list, a scalar as a number, other values unchanged."""
    if not isinstance(values, np.ndarray | Sequence) and hasattr(values, "__array__"):
        values = np.asarray(values)
    if isinstance(values, np.ndarray) and (values.dtype == object or not values.ndim):
        return values.tolist()
    return values


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return ``array`` itself, made read-only."""
    array.flags.writeable = False
    return array


def frozen_columns(table: IntArray) -> list[IntArray]:
    """Return the C columns of a table of shape (K, C), contiguous and read-only."""
    return [frozen(column.copy()) for column in table.T]


def _checked_array(
    values: NDArray[Any], where: str, ndim: int, minimum: int, maximum: int
) -> IntArray:
    if values.ndim != ndim:
        raise InputError(
            where, f"array of shape {values.shape}", f"give an array of {ndim} dimension(s)"
        )
    if not np.issubdtype(values.dtype, np.integer):
        if values.size == 0:
            return frozen(np.zeros(values.shape, dtype=np.int64))
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            index = np.argwhere(~np.isfinite(values))[0].tolist()
            place = "".join(f"[{k}]" for k in index)
            remedy = "remove such entries, and give an integer array"
            raise InputError(f"{where}{place}", f"{values[tuple(index)]} is not finite", remedy)
        raise InputError(where, f"array of {values.dtype}", "give an integer array")
    bad = np.argwhere((values < minimum) | (values > maximum))
    if len(bad):
        index = tuple(int(k) for k in bad[0])
        place = "".join(f"[{k}]" for k in index)
        what = f"{values[index]} is out of range"
        raise InputError(f"{where}{place}", what, f"use {minimum} <= value <= {maximum}")
    return frozen(values.astype(np.int64))


def _check_columns(found: int, expected: int | None, where: str) -> None:
    if expected is not None and found != expected:
        raise InputError(
            where,
            f"{counted(found, 'entry')} where {expected} are expected",
            "make all rows equally long",
        )


def entries(values: object, where: str) -> list[Any]:
    """Return the entries of a list, tuple or array as a list.

    Raises
    ------
    InputError
        If it is none of these.
    """
    values = plain_array(values)
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if not _is_sequence(values):
        raise InputError(where, f"expected a list, found {shown(values)}", "write a list")
    return list(values)


def each_of(kind: type[T], values: object, where: str) -> tuple[T, ...]:
    """Return the entries of a list, which must all be of a class."""
    found = tuple(entries(values, where))
    for i, value in enumerate(found):
        check_kind(value, kind, f"{where}[{i}]", f"{kind.__name__}(...)")
    return found


def _is_sequence(values: object) -> TypeGuard[Sequence[object]]:
    return isinstance(values, Sequence) and not isinstance(values, str | bytes)
