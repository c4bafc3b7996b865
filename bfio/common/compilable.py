"""Functions that run as they are and can become machine code.

`compilable` leaves a function as it is, so that listing policies or a short run loads no Numba.
`machine_code` makes its compiled twin, in which every compilable function that it names, as a
global or as a variable of an enclosing function, is replaced by its own twin.
"""

from collections.abc import Callable
from dataclasses import dataclass
from dis import get_instructions
from functools import cache
from types import CellType, FunctionType
from typing import Any, TypeVar, cast, overload

from bfio.common.kernels import in_place, inlined, kernel

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class _Recipe:
    """How a function is compiled: whether it allocates, where, and what stands in for it."""

    allocates: bool
    into_caller: bool
    compiled_as: Callable[..., Any] | None
    written_by: Callable[[], Callable[..., Any]] | None


@overload
def compilable(function: F) -> F: ...
@overload
def compilable(
    *,
    allocates: bool = ...,
    into_caller: bool = ...,
    compiled_as: Callable[..., Any] | None = ...,
    written_by: Callable[[], Callable[..., Any]] | None = ...,
) -> Callable[[F], F]: ...
def compilable(
    function: F | None = None,
    *,
    allocates: bool = False,
    into_caller: bool = False,
    compiled_as: Callable[..., Any] | None = None,
    written_by: Callable[[], Callable[..., Any]] | None = None,
) -> F | Callable[[F], F]:
    """Mark a function as one that machine code may call.

    Parameters
    ----------
    function : callable
        Plain Python that Numba understands.
    allocates : bool
        Whether it makes arrays. Of one that does not, no array has its references counted.
    into_caller : bool
        Whether it is written into its caller whatever its size: a state of many arrays takes
        longer to pass on than a short function to run.
    compiled_as : callable, optional
        Compiled in its place, for an operation on whole arrays that Numba does not know.
    written_by : callable, optional
        Returns what machine code calls in its place, where that cannot be said in Python.
    """

    def mark(marked: F) -> F:
        recipe = _Recipe(allocates, into_caller, compiled_as, written_by)
        marked.__recipe__ = recipe  # type: ignore[attr-defined]
        return marked

    return mark if function is None else mark(function)


@cache
def machine_code(function: F) -> F:
    """Return the compiled twin of a compilable function, for other compiled functions to call."""
    recipe: _Recipe = function.__recipe__  # type: ignore[attr-defined]
    if recipe.written_by is not None:
        return cast(F, recipe.written_by())
    plain = linked(recipe.compiled_as or function)
    if recipe.into_caller:
        return cast(F, inlined(plain, allocates=recipe.allocates))
    return cast(F, kernel(plain) if recipe.allocates else in_place(plain))


def linked(function: Callable[..., Any], **replaced: Callable[..., Any]) -> Any:
    """Return a copy of a function that calls compiled twins, itself not compiled yet.

    Parameters
    ----------
    function : callable
        The function.
    **replaced : callable
        What its globals of these names are to be.
    """
    assert isinstance(function, FunctionType)
    names = function.__globals__
    named = {name: names[name] for name in _globals_of(function) if name in names}
    twins = {name: _twin(value) for name, value in (named | replaced).items()}
    copy = FunctionType(
        function.__code__,
        names | twins,
        function.__name__,
        function.__defaults__,
        tuple(CellType(_twin(cell.cell_contents)) for cell in function.__closure__ or ()),
    )
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    return copy


def _globals_of(function: FunctionType) -> set[str]:
    # Not `co_names`: these include attributes, and one may be called as some function is.
    code = get_instructions(function)
    return {str(each.argval) for each in code if each.opname == "LOAD_GLOBAL"}


def _twin(value: Any) -> Any:
    return machine_code(value) if hasattr(value, "__recipe__") else value
