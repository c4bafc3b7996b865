"""All that is private to Numba and used here, and what is done without it.

Numba's private parts are used to compile and to load machine code in less than half of the time,
and to keep it on disk under a key of our own. They may change with every minor version, so they
are used with the versions in `TESTED` only, and never if ``BFIO_PLAIN_NUMBA`` is set. Otherwise
Numba compiles with its documented interface: the same answers, but every process compiles what it
calls, and nothing is kept on disk.
"""

import itertools
import os
import pickle
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from typing import Any, Protocol

#: Minor versions of Numba with which the tests run; pyproject.toml allows no others.
TESTED = ("0.68",)
#: The environment variable that turns all private parts off.
PLAIN = "BFIO_PLAIN_NUMBA"


class Kept(Protocol):
    """Where the machine code of one entry point is kept."""

    def read(self, types: str) -> bytes | None:
        """Return what is kept for types of arguments, or None."""

    def write(self, types: str, payload: bytes) -> None:
        """Keep it, if that is possible."""


@cache
def uses_private_parts() -> bool:
    """Whether Numba's private parts are used; Numba itself is not loaded."""
    minor = ".".join(version("numba").split(".")[:2])
    return minor in TESTED and os.environ.get(PLAIN, "") in ("", "0")


def compiled_inner(function: Any, *, allocates: bool, into_caller: bool) -> Any:
    """Return a function that machine code may call.

    Parameters
    ----------
    function : callable
        Plain Python whose globals are compiled.
    allocates : bool
        Whether it makes arrays. Of one that does not, no array has its references counted, which
        takes several times as long to compile and to run as a small function itself.
    into_caller : bool
        Whether it is written into its caller whatever its size.
    """
    if not uses_private_parts():
        return _njit()(function)
    # Stated for every function: it would otherwise take over what its first caller says. Wrappers
    # for callers other than machine code take long to compile.
    options = {"_nrt": allocates, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    if into_caller:
        options["forceinline"] = True
    return _typed_alike(_njit()(**options)(function))


def compiled_entry(function: Any, linked: Callable[[Any], Any], kept: Kept | None) -> Any:
    """Return a function that Python calls as machine code, without the interpreter's lock.

    Parameters
    ----------
    function : callable
        Plain Python.
    linked : callable
        From the function to the same with compiled globals; called if it has to be compiled.
    kept : Kept or None
        Where its machine code is kept on disk; None if it is not.
    """
    if not uses_private_parts():
        return _njit()(nogil=True)(linked(function))
    entry = _njit()(nogil=True, no_cfunc_wrapper=True)(function)
    if not hasattr(entry, "py_func"):
        # NUMBA_DISABLE_JIT is set.
        return linked(function)
    if kept is None:
        _let_compile(entry, linked(function))
    else:
        entry._cache = _DiskCache(entry, linked, kept)  # noqa: SLF001
    return _typed_alike(entry)


def _let_compile(entry: Any, function: Any) -> None:
    """Let Numba compile this in the place of the function that it was given."""
    entry._compiler.py_func = function  # noqa: SLF001


def _typed_alike(machine_code: Any) -> Any:
    """Let Numba compile for types only: else it would for every number that a caller writes."""
    if hasattr(machine_code, "py_func"):
        from numba.types import unliteral

        template = machine_code.get_call_template
        machine_code.get_call_template = lambda args, named: template(
            [unliteral(kind) for kind in args],
            {name: unliteral(kind) for name, kind in named.items()},
        )
    return machine_code


@cache
def _njit() -> Any:
    """Return Numba's decorator, set up for our kernels."""
    from numba import njit

    if uses_private_parts():
        _generate_late()
        _read_late()
        _load_without_linear_algebra()
        _number_apart()
        os.register_at_fork(after_in_child=_number_apart)
    return njit


class _DiskCache:
    """What Numba asks for machine code before it compiles, and gives it to afterwards."""

    #: Numba shows it in statistics.
    cache_path = ""

    def __init__(self, entry: Any, linked: Callable[[Any], Any], kept: Kept) -> None:
        self._entry, self._linked, self._kept = entry, linked, kept
        self._is_linked = False

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return compiled code for types of arguments, or None."""
        from numba.core.compiler import CompileResult
        from numba.core.runtime import rtsys

        # Gives machine code the addresses of the runtime that it refers to. `target.refresh()`
        # does so and loads all that Numba can compile, which Numba does before it compiles.
        rtsys.initialize(target)
        payload = self._kept.read(_types_text(signature, target.codegen()))
        if payload is not None:
            return CompileResult._rebuild(target, *pickle.loads(payload))  # noqa: SLF001
        if not self._is_linked:
            _let_compile(self._entry, self._linked(self._entry.py_func))
            self._is_linked = True
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep compiled code; what cannot be kept is compiled again in the next process.

        Inner functions, generated late, find their environments in it only now.
        """
        from numba.core.serialize import dumps

        for environment in result._find_referenced_environments():  # noqa: SLF001
            result.codegen.set_env(environment.env_name, environment)
        types = _types_text(signature, result.codegen)
        # A function that is an argument has an address for a type.
        if not (result.lifted or result.library.has_dynamic_globals or " at 0x" in types):
            self._kept.write(types, dumps(result._reduce()))  # noqa: SLF001

    def flush(self) -> None:
        """Forget nothing: what is kept is valid."""


def _types_text(signature: Any, codegen: Any) -> str:
    types = [_type_text(kind) for kind in getattr(signature, "args", signature)]
    return f"{types} {codegen.magic_tuple()!r}"


def _type_text(kind: Any) -> str:
    """Return what tells a type; the name of a named tuple's does not tell its fields."""
    fields = getattr(kind, "fields", ())
    inner = getattr(kind, "types", ()) if fields else ()
    return f"{kind!r} {fields} {[_type_text(one) for one in inner]}"


def _generate_late() -> None:
    """Let Numba optimize and generate code for a function only where it is called from Python.

    It does so for every function, though one that only other kernels call is taken into each of
    them as intermediate code and optimized there again: half of the time of compiling. If its own
    code is asked for after all, it is generated then.
    """
    from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
    from numba.core.targetconfig import ConfigStack

    optimize = JITCodeLibrary._optimize_final_module  # noqa: SLF001
    finalize = JITCodeLibrary._finalize_final_module  # noqa: SLF001
    pointer = JITCodeLibrary.get_pointer_to_function
    set_environment = JITCPUCodegen.set_env

    def optimize_late(library: Any) -> None:
        flags = ConfigStack().top_or_none()
        library.is_late = flags is not None and flags.no_cpython_wrapper
        if not library.is_late:
            optimize(library)

    def finalize_late(library: Any) -> None:
        if library.is_late:
            library._finalize_dynamic_globals()  # noqa: SLF001
            library._finalized = True  # noqa: SLF001
        else:
            finalize(library)

    def pointer_late(library: Any, name: str) -> Any:
        library._ensure_finalized()  # noqa: SLF001
        if library.is_late:
            functions = library._final_module.functions  # noqa: SLF001
            if all(function.is_declaration for function in functions if function.name == name):
                return 0
            library.is_late = False
            optimize(library)
            finalize(library)
        return pointer(library, name)

    def set_environment_late(codegen: Any, name: str, environment: Any) -> None:
        # Code that is not there has no place for its environment yet.
        if codegen._engine.get_global_value_address(name):  # noqa: SLF001
            set_environment(codegen, name, environment)

    JITCodeLibrary.is_late = False
    JITCodeLibrary._optimize_final_module = optimize_late  # noqa: SLF001
    JITCodeLibrary._finalize_final_module = finalize_late  # noqa: SLF001
    JITCodeLibrary.get_pointer_to_function = pointer_late
    JITCPUCodegen.set_env = set_environment_late


def _read_late() -> None:
    """Let Numba read the intermediate code of a kernel from disk only if another one calls it.

    Beside machine code, which runs, a file holds the intermediate code that callers compile into
    themselves. Reading it takes most of the time of loading, and callers are on disk as well.
    """
    from llvmlite.binding import parse_bitcode
    from numba.core.codegen import JITCodeLibrary

    read = JITCodeLibrary._unserialize  # noqa: SLF001
    for_linking = JITCodeLibrary._get_module_for_linking  # noqa: SLF001
    pointer = JITCodeLibrary.get_pointer_to_function

    def read_machine_code(codegen: Any, state: Any) -> Any:
        name, kind, data = state
        if kind != "object":
            return read(codegen, state)
        library = codegen.create_library(name)
        machine_code, library.unread = data
        library.enable_object_caching()
        library._set_compiled_object(machine_code)  # noqa: SLF001
        library._finalize_final_module()  # noqa: SLF001
        return library

    def pointer_to_machine_code(library: Any, name: str) -> Any:
        # Numba looks for names in intermediate code first.
        if library.unread is None:
            return pointer(library, name)
        return library.codegen._engine.get_function_address(name)  # noqa: SLF001

    def for_linking_late(library: Any) -> Any:
        if library.unread is not None:
            module = library._shared_module = parse_bitcode(library.unread)  # noqa: SLF001
            library.codegen._engine._load_defined_symbols(module)  # noqa: SLF001
            library.unread = None
        return for_linking(library)

    JITCodeLibrary.unread = None
    JITCodeLibrary._unserialize = staticmethod(read_machine_code)  # noqa: SLF001
    JITCodeLibrary._get_module_for_linking = for_linking_late  # noqa: SLF001
    JITCodeLibrary.get_pointer_to_function = pointer_to_machine_code


def _load_without_linear_algebra() -> None:
    """Load what Numba knows of arrays and hashes of texts without scipy's linear algebra.

    Machine code from disk refers to these. Numba loads linear algebra only to see whether it is
    there, which takes half as long as all of Numba. It is there, a dependency of this project,
    and is loaded where a kernel does call it.
    """
    from numba.np import linalg

    look = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        linalg.ensure_blas = look


def _number_apart() -> None:
    """Let Numba number functions from where no other process is likely to.

    A symbol in machine code is the name of its function and such a number, and of two symbols that
    are equal the linker takes one. Numba's sorts of values and of positions have one name: two
    kernels that two processes had kept on disk gave each other's.
    """
    from numba.core.bytecode import FunctionIdentity

    # No number is used up to where 2**32 functions lead.
    FunctionIdentity._unique_ids = itertools.count(int.from_bytes(os.urandom(7)) << 32)  # noqa: SLF001
