"""Functions that run as Python and can be compiled to machine code.

`compilable` leaves a function unchanged, so that listing policies or a short run does not load
Numba. `machine_code` creates the compiled twin of a function. The twin calls the compiled twins of
all compilable functions that the original names, as globals or in an enclosing function.
"""

from collections.abc import Callable
from dataclasses import dataclass
from dis import get_instructions
from functools import cache
from types import CellType, FunctionType
from typing import Any, TypeVar, cast, overload

from bfio.common.numba_parts import compiled_inner

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Recipe:
    """Compile settings of a function: the parameters of `compilable`."""

    allocates: bool = False
    into_caller: bool = False
    compiled_as: Callable[..., Any] | None = None
    apart: bool = False
    #: Returns the machine code of an entry point, see `bfio.common.kernels`.
    of_entry: Callable[[], Callable[..., Any]] | None = None


@overload
def compilable(function: F) -> F: ...
@overload
def compilable(
    *,
    allocates: bool = ...,
    into_caller: bool = ...,
    compiled_as: Callable[..., Any] | None = ...,
    apart: bool = ...,
) -> Callable[[F], F]: ...
def compilable(
    function: F | None = None,
    *,
    allocates: bool = False,
    into_caller: bool = False,
    compiled_as: Callable[..., Any] | None = None,
    apart: bool = False,
) -> F | Callable[[F], F]:
    """Mark a function as one that machine code may call.

    Parameters
    ----------
    function : callable
        A Python function that Numba supports.
    allocates : bool
        Whether the function creates arrays. If not, reference counting of arrays is disabled.
    into_caller : bool
        Whether to inline the function into its caller regardless of size. Passing a state of many
        arrays takes longer than running a short function.
    compiled_as : callable, optional
        Function to compile instead, for operations on whole arrays that Numba does not support.
    apart : bool
        Whether to compile the function once, with its own machine code on disk, not once in each
        caller. For large functions at the top level of a module that several kernels call.
    """

    def mark(marked: F) -> F:
        recipe = Recipe(allocates, into_caller, compiled_as, apart)
        marked.__recipe__ = recipe  # type: ignore[attr-defined]
        return marked

    return mark if function is None else mark(function)


@cache
def machine_code(function: F) -> F:
    """Return the compiled twin of a compilable function, for calls by other compiled functions."""
    recipe: Recipe = function.__recipe__  # type: ignore[attr-defined]
    if recipe.of_entry is not None:
        return cast(F, recipe.of_entry())
    if recipe.apart:
        # Imported here because that module imports this one.
        from bfio.common.kernels import StoredFunction

        return cast(F, StoredFunction(function).machine_code)
    body = linked(recipe.compiled_as or function)
    inner = compiled_inner(body, allocates=recipe.allocates, into_caller=recipe.into_caller)
    return cast(F, inner)


def linked(function: Callable[..., Any]) -> Any:
    """Return a copy of a function, not yet compiled, that calls compiled twins."""

    def twin_of(value: Any) -> Any:
        return machine_code(value) if hasattr(value, "__recipe__") else value

    names = {name: twin_of(value) for name, value in _named(function).items()}
    return _copied(
        function, names, tuple(CellType(twin_of(value)) for value in _enclosed(function))
    )


def rewired(function: Callable[..., Any], **replaced: Callable[..., Any]) -> Any:
    """Return a copy of a function, not yet compiled, with some globals replaced."""
    return _copied(function, replaced, getattr(function, "__closure__", None) or ())


def _copied(
    function: Callable[..., Any], names: dict[str, Any], closure: tuple[CellType, ...]
) -> Any:
    assert isinstance(function, FunctionType)
    copy = FunctionType(
        function.__code__,
        function.__globals__ | names,
        function.__name__,
        function.__defaults__,
        closure,
    )
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    return copy


def _named(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the globals that a function names."""
    assert isinstance(function, FunctionType)
    # Not `co_names`: that includes attributes, which may have the name of a function.
    code = get_instructions(function)
    names = {str(each.argval) for each in code if each.opname == "LOAD_GLOBAL"}
    return {name: value for name in names if (value := function.__globals__.get(name)) is not None}


def _enclosed(function: Callable[..., Any]) -> list[Any]:
    """Return the variables of enclosing functions that a function uses."""
    return [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
