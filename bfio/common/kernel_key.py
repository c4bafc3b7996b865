"""The sources that determine the machine code of a function, and their digest.

Numba compiles a function together with all compilable functions that it names. The values of all
other names are constants of the machine code. The digest covers exactly these: byte code,
constants and compile options of each function. It does not cover comments, docstrings, annotations
or other functions in the same files. So an edit elsewhere does not invalidate stored machine code.
"""

import hashlib
from collections.abc import Callable, Iterator
from dis import get_instructions
from enum import Enum
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from bfio.common.import_closure import closure_digest, import_closure

#: Packages covered by their version in every key, and modules written in C.
_KNOWN_BY_VERSION = ("numpy", "numba", "math", "builtins")
_PLAIN = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), np.generic)


class Made(NamedTuple):
    """The sources of machine code.

    Parameters
    ----------
    digest : str or None
        Digest of all sources; None if it cannot be determined, so that nothing may be stored.
    modules : frozenset of str
        The modules of the functions.
    """

    digest: str | None
    modules: frozenset[str]


def made_of(function: Callable[..., Any], without: frozenset[str] = frozenset()) -> Made:
    """Collect the sources of the machine code of a function.

    Parameters
    ----------
    function : callable
        A Python function, which may name compilable functions and entry points.
    without : frozenset of str
        Features that are left out, see `bfio.common.compilable`.
    """
    walk = _Walk(without)
    text = "\n".join(walk.lines(function))
    digest = hashlib.sha256(text.encode()).hexdigest() if walk.is_told else None
    return Made(digest, frozenset(walk.modules))


class _Walk:
    """A walk over functions that call each other. Each is described once, then named by number."""

    def __init__(self, without: frozenset[str]) -> None:
        self._without = without
        self._waiting: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self.is_told = True
        self.modules: set[str] = set()

    def lines(self, function: Callable[..., Any]) -> Iterator[str]:
        """Yield the descriptions of a function and of all that it calls, in the order of calls."""
        self._number(function)
        while self._waiting:
            yield self._function(self._waiting.pop())

    def _number(self, function: Any) -> str:
        if function not in self._numbers:
            self._numbers[function] = len(self._numbers)
            self._waiting.append(function)
        return f"function {self._numbers[function]}"

    def _function(self, function: Any) -> str:
        """Return the description of one function. The functions that it calls follow later."""
        recipe = getattr(function, "__recipe__", None)
        how = ""
        if recipe is not None:
            how = f"{recipe.allocates} {recipe.into_caller}"
            if recipe.part_of in self._without:
                names = function.__code__.co_varnames[: function.__code__.co_argcount]
                return f"absent {how} {names} {self._value(recipe.otherwise, ())}"
            if recipe.written_by is not None:
                home = recipe.written_by.__module__
                self.modules |= import_closure(home).keys()
                return f"written {function.__qualname__} {closure_digest(home)}"
            function = recipe.compiled_as or function
        # Code created at run time has no module.
        self.modules |= {function.__module__} - {None}
        code = function.__code__
        enclosed = [cell.cell_contents for cell in function.__closure__ or ()]
        values = [
            f"{name} {self._value(function.__globals__[name], code.co_names)}"
            for name in _global_names(code)
            if name in function.__globals__
        ]
        others = (*enclosed, function.__defaults__, function.__kwdefaults__)
        values += [self._value(value, code.co_names) for value in others]
        return "\n".join([how, _code_text(code, bool(function.__doc__)), *values])

    def _value(self, value: Any, names: tuple[str, ...]) -> str:
        """Return the description of a value in a function that reads these attributes of it."""
        if isinstance(value, _PLAIN) or value is NotImplemented:
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, Enum):
            return f"{type(value).__qualname__} {value!r}"
        if isinstance(value, tuple | list | frozenset):
            inner = [self._value(one, names) for one in value]
            return f"{type(value).__qualname__} {inner}"
        if isinstance(value, dict):
            return str([(key, self._value(one, names)) for key, one in value.items()])
        if isinstance(value, np.ndarray):
            return f"array {value.dtype} {value.shape} {value.tobytes().hex()}"
        if isinstance(value, ModuleType):
            return f"module {value.__name__} {self._attributes(value, names)}"
        return self._callable(value)

    def _attributes(self, module: ModuleType, names: tuple[str, ...]) -> list[str]:
        """Return the descriptions of the attributes of a module that a function may read."""
        if _is_known_by_version(module.__name__):
            return []
        held = vars(module)
        return [f"{name} {self._value(held[name], names)}" for name in names if name in held]

    def _callable(self, value: Any) -> str:
        # An entry point, or a function compiled by Numba, is described by its Python function.
        value = getattr(value, "entry", value) if isinstance(value, FunctionType) else value
        value = getattr(value, "py_func", value)
        if hasattr(value, "__recipe__"):
            return self._number(value)
        home = str(getattr(value, "__module__", ""))
        if _is_known_by_version(home) or isinstance(value, np.ufunc):
            name = getattr(value, "__qualname__", getattr(value, "__name__", repr(value)))
            self.is_told &= " at 0x" not in name
            return f"{home} {name}"
        if isinstance(value, type):
            # Machine code depends on the fields or members of a class.
            fields = getattr(value, "_fields", ())
            members = [repr(member) for member in value] if issubclass(value, Enum) else []
            defaults = self._value(getattr(value, "_field_defaults", {}), ())
            return f"class {home} {value.__qualname__} {fields} {defaults} {members}"
        if isinstance(value, FunctionType):
            return self._number(value)
        self.is_told = False
        return ""


def _is_known_by_version(module: str) -> bool:
    return module.partition(".")[0] in _KNOWN_BY_VERSION


@cache
def _global_names(code: CodeType) -> tuple[str, ...]:
    """Return the globals that a function names, in order of occurrence."""
    inner = [name for one in code.co_consts if isinstance(one, CodeType) for name in one.co_names]
    read = (str(one.argval) for one in get_instructions(code) if one.opname == "LOAD_GLOBAL")
    return tuple(dict.fromkeys([*read, *inner]))


@cache
def _code_text(code: CodeType, has_docstring: bool = False) -> str:
    """Return a text that identifies the byte code of a function, independent of its location."""
    constants = [_constant_text(one) for one in code.co_consts[has_docstring:]]
    return repr(
        (
            code.co_code,
            constants,
            code.co_names,
            code.co_varnames,
            code.co_freevars,
            code.co_cellvars,
            code.co_argcount,
            code.co_posonlyargcount,
            code.co_kwonlyargcount,
            code.co_flags,
            code.co_exceptiontable,
        )
    )


def _constant_text(constant: object) -> str:
    if isinstance(constant, CodeType):
        return _code_text(constant)
    # The order of a set of strings differs between processes.
    return str(sorted(map(repr, constant))) if isinstance(constant, frozenset) else repr(constant)
