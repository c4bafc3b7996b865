"""Marks of functions that run as Python and can be compiled to machine code.

`compilable` leaves a function unchanged, so that listing policies or a short run does not load
Numba.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

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
