"""All uses of private parts of Numba, and the fallbacks without them.

With private parts of Numba, machine code compiles and loads in less than half of the time, and is
stored on disk under our own key. These parts may change with every minor version. So they are used
only with the versions in `TESTED`, and never if ``BFIO_PLAIN_NUMBA`` is set. Otherwise Numba
compiles through its documented interface. Results are then the same, but every process compiles
the kernels that it calls, and no machine code is stored on disk.
"""

import itertools
import os
import pickle
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from hashlib import sha256
from importlib.metadata import version
from typing import Any, Protocol

#: Minor versions of Numba covered by the tests. pyproject.toml allows no others.
TESTED = ("0.68",)
#: The environment variable that disables all private parts.
PLAIN = "BFIO_PLAIN_NUMBA"
#: Numba's name of the library of its runtime.
_RUNTIME = "nrt"


class Kept(Protocol):
    """Storage for the machine code of one function."""

    name: str  #: ``module:function``.

    @property
    def digest(self) -> str:
        """A text that identifies the sources and options."""

    def read(self, types: str) -> bytes | None:
        """Return the stored code for argument types, or None."""

    def write(self, types: str, payload: bytes) -> None:
        """Store the code if possible."""

    def machine_code_of(self, name: str) -> Any:
        """Return the compiled twin of another stored function."""


@cache
def uses_private_parts() -> bool:
    """Return whether Numba's private parts are used, without loading Numba."""
    minor = ".".join(version("numba").split(".")[:2])
    return minor in TESTED and os.environ.get(PLAIN, "") in ("", "0")


def compiled_inner(function: Any, *, allocates: bool, into_caller: bool) -> Any:
    """Return a function that other machine code may call; its callers include it.

    Parameters
    ----------
    function : callable
        A Python function with compiled globals.
    allocates : bool
        Whether the function creates arrays. If not, reference counting of arrays is disabled,
        because it multiplies the compile time and the run time of a small function.
    into_caller : bool
        Whether to inline the function into its caller regardless of size.
    """
    if not uses_private_parts():
        return _njit()(function)
    # Set for every function, because it would otherwise inherit the options of its first caller.
    # Wrappers for other callers than machine code are slow to compile.
    options = {"_nrt": allocates, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    if into_caller:
        options["forceinline"] = True
    return _typed_alike(_njit()(**options)(function))


def compiled_apart(
    function: Any, linked: Callable[[Any], Any], kept: Kept | None, *, allocates: bool
) -> Any:
    """Return a function that other machine code calls by its symbol.

    The function is compiled once, whatever the number of its callers. Parameters as in
    `compiled_entry` and `compiled_inner`.
    """
    if not uses_private_parts():
        return compiled_inner(linked(function), allocates=allocates, into_caller=False)
    inner = compiled_inner(function, allocates=allocates, into_caller=False)
    return _with_storage(inner, function, linked, kept)


def compiled_entry(function: Any, linked: Callable[[Any], Any], kept: Kept | None) -> Any:
    """Return a function that Python calls as machine code, without the interpreter lock.

    Parameters
    ----------
    function : callable
        The Python function.
    linked : callable
        Returns a copy that calls compiled functions; called only if no code is stored.
    kept : Kept or None
        Storage for the machine code; None if it is not stored.
    """
    if not uses_private_parts():
        return _njit()(nogil=True)(linked(function))
    entry = _typed_alike(_njit()(nogil=True, no_cfunc_wrapper=True)(function))
    return _with_storage(entry, function, linked, kept)


def _with_storage(
    compiled: Any, function: Any, linked: Callable[[Any], Any], kept: Kept | None
) -> Any:
    """Let a function of Numba link only if no code is stored, and store what it compiles."""
    if not hasattr(compiled, "py_func"):
        # NUMBA_DISABLE_JIT is set.
        return linked(function)
    if kept is None:
        _let_compile(compiled, linked(function))
    else:
        compiled._cache = _DiskCache(compiled, linked, kept)  # noqa: SLF001
    return compiled


def _let_compile(entry: Any, function: Any) -> None:
    """Let Numba compile ``function`` instead of the function given to ``entry``."""
    entry._compiler.py_func = function  # noqa: SLF001


def _typed_alike(machine_code: Any) -> Any:
    """Let Numba compile once per argument type, not per literal number in a call."""
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
    """Return Numba's decorator with the settings of our kernels."""
    from numba import njit

    if uses_private_parts():
        _compile_runtime_late()
        _generate_late()
        _call_by_symbol()
        _keep_machine_code_alone()
        _load_without_linear_algebra()
        _number_apart()
        os.register_at_fork(after_in_child=_number_apart)
    return njit


class _DiskCache:
    """The cache that Numba queries before compiling and fills afterwards.

    Stored code calls other stored functions by their symbols. So the names, types and symbols of
    these functions are stored with it.
    """

    #: Shown by Numba in statistics.
    cache_path = ""

    def __init__(self, function: Any, linked: Callable[[Any], Any], kept: Kept) -> None:
        self._function, self._linked, self._kept = function, linked, kept
        self._is_linked = False

    def load_overload(self, signature: Any, target: Any) -> Any:
        """Return the compiled code for argument types, or None."""
        from numba.core.bytecode import FunctionIdentity
        from numba.core.compiler import CompileResult
        from numba.core.runtime import rtsys

        # Registers the addresses of the runtime that machine code refers to. `target.refresh()`
        # does so too, but also loads everything that Numba can compile, which is needed only
        # before compiling.
        rtsys.initialize(target)
        types = _types_text(signature, target.codegen())
        payload = self._kept.read(types)
        if payload is not None:
            # Stored code may name a module that no longer exists; then compile again.
            with suppress(ModuleNotFoundError, AttributeError):
                callees, parts = pickle.loads(payload)
                if all(self._is_current(*callee) for callee in callees):
                    result = CompileResult._rebuild(target, *parts)  # noqa: SLF001
                    self._name(signature, result)
                    return result
        if not self._is_linked:
            _let_compile(self._function, self._linked(self._function.py_func))
            self._is_linked = True
        # Part of the symbol, so that it is the same in all processes that compile the function.
        number = int(sha256(f"{self._kept.digest} {types}".encode()).hexdigest()[:15], 16)
        FunctionIdentity._unique_ids.reserved.append(number)  # noqa: SLF001
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Store compiled code. Code that cannot be stored is compiled again in the next process.

        Inner functions are generated late, so their environments can be set only here.
        """
        from numba.core.serialize import dumps

        # Generates the code of a function that Python cannot call.
        result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
        for environment in result._find_referenced_environments():  # noqa: SLF001
            result.codegen.set_env(environment.env_name, environment)
        self._name(signature, result)
        types = _types_text(signature, result.codegen)
        # The type of a function argument contains an address.
        if not (result.lifted or result.library.has_dynamic_globals or " at 0x" in types):
            callees = tuple(dict.fromkeys(result.library.callees))
            self._kept.write(types, dumps((callees, result._reduce())))  # noqa: SLF001

    def _is_current(self, name: str, arguments: tuple[Any, ...], symbol: str) -> bool:
        """Load or compile a called function; return whether it has the expected symbol."""
        callee = self._kept.machine_code_of(name)
        callee.compile(arguments)
        return bool(callee.overloads[arguments].fndesc.llvm_func_name == symbol)

    def _name(self, signature: Any, result: Any) -> None:
        """Let callers use the symbol of this function."""
        arguments = tuple(getattr(signature, "args", signature))
        result.library.callee = self._kept.name, arguments, result.fndesc.llvm_func_name

    def flush(self) -> None:
        """Do nothing: stored code stays valid."""


def _types_text(signature: Any, codegen: Any) -> str:
    types = [type_text(kind) for kind in getattr(signature, "args", signature)]
    return f"{types} {codegen.magic_tuple()!r}"


def type_text(kind: Any) -> str:
    """Return a text that identifies a type; for a named tuple it includes the fields."""
    fields = getattr(kind, "fields", ())
    inner = getattr(kind, "types", ()) if fields else ()
    return f"{kind!r} {fields} {[type_text(one) for one in inner]}"


def _compile_runtime_late() -> None:
    """Let Numba compile its runtime only before it compiles something else.

    By default Numba compiles it even if all functions are loaded, which takes 20 MB. Stored code
    contains what it needs of the runtime.
    """
    from numba.core.runtime import nrtdynmod, rtsys

    make = nrtdynmod.compile_nrt_functions

    def library_late(runtime: Any) -> Any:
        runtime._init_guard()  # noqa: SLF001
        if isinstance(runtime._library, partial):  # noqa: SLF001
            runtime._library = runtime._library()  # noqa: SLF001
        return runtime._library  # noqa: SLF001

    nrtdynmod.compile_nrt_functions = partial(partial, make)
    type(rtsys).library = property(library_late)


def _generate_late() -> None:
    """Let Numba generate code for a function only if Python calls it.

    By default Numba generates code for every function. A function called only by kernels is
    included in each kernel as intermediate code and optimized again there, which takes half of the
    compile time. If Python later calls such a function, its code is generated then.
    """
    from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
    from numba.core.targetconfig import ConfigStack

    optimize = JITCodeLibrary._optimize_final_module  # noqa: SLF001
    finalize = JITCodeLibrary._finalize_final_module  # noqa: SLF001
    pointer = JITCodeLibrary.get_pointer_to_function
    set_environment = JITCPUCodegen.set_env

    def optimize_late(library: Any) -> None:
        flags = ConfigStack().top_or_none()
        is_inner = flags is not None and flags.no_cpython_wrapper
        library.is_late = is_inner and library.name != _RUNTIME
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
        # Code that has not been generated has no place for its environment yet.
        if codegen._engine.get_global_value_address(name):  # noqa: SLF001
            set_environment(codegen, name, environment)

    JITCodeLibrary.is_late = False
    JITCodeLibrary._optimize_final_module = optimize_late  # noqa: SLF001
    JITCodeLibrary._finalize_final_module = finalize_late  # noqa: SLF001
    JITCodeLibrary.get_pointer_to_function = pointer_late
    JITCPUCodegen.set_env = set_environment_late


def _call_by_symbol() -> None:
    """Let machine code call a stored function by its symbol.

    By default Numba includes a copy of every called function, and optimizes it again in each
    caller.
    """
    from numba.core.codegen import JITCodeLibrary

    link = JITCodeLibrary.add_linking_library

    def link_or_name(library: Any, other: Any) -> None:
        if other.callee is None:
            link(library, other)
            library.callees += other.callees
        else:
            library.callees += (other.callee,)

    JITCodeLibrary.callee = None
    JITCodeLibrary.callees = ()
    JITCodeLibrary.add_linking_library = link_or_name


def _keep_machine_code_alone() -> None:
    """Let Numba store and read only the machine code of a stored function of ours.

    By default it also stores the intermediate code, for callers that include a copy. Reading this
    code takes most of the load time.
    """
    from numba.core.codegen import JITCodeLibrary

    read = JITCodeLibrary._unserialize  # noqa: SLF001
    write = JITCodeLibrary.serialize_using_object_code
    pointer = JITCodeLibrary.get_pointer_to_function

    def written(library: Any) -> Any:
        if library.callee is None:
            return write(library)
        return library.name, "machine code", library._get_compiled_object()  # noqa: SLF001

    def read_machine_code(codegen: Any, state: Any) -> Any:
        name, kind, data = state
        if kind != "machine code":
            return read(codegen, state)
        library = codegen.create_library(name)
        library.enable_object_caching()
        library._set_compiled_object(data)  # noqa: SLF001
        library._finalize_final_module()  # noqa: SLF001
        library.is_read = True
        return library

    def pointer_to_machine_code(library: Any, name: str) -> Any:
        # Numba would look for names in the intermediate code first.
        if not library.is_read:
            return pointer(library, name)
        return library.codegen._engine.get_function_address(name)  # noqa: SLF001

    JITCodeLibrary.is_read = False
    JITCodeLibrary.serialize_using_object_code = written
    JITCodeLibrary._unserialize = staticmethod(read_machine_code)  # noqa: SLF001
    JITCodeLibrary.get_pointer_to_function = pointer_to_machine_code


def _load_without_linear_algebra() -> None:
    """Load Numba's support of arrays and text hashes without scipy's linear algebra.

    Machine code from disk refers to this support. Numba loads scipy's linear algebra only to check
    that it is available, which takes half as long as loading Numba. scipy is a dependency of this
    project, so the check is not needed.
    """
    from numba.np import linalg

    look = linalg.ensure_blas
    linalg.ensure_blas = lambda: None
    try:
        import numba.np.arraymath  # noqa: F401
    finally:
        linalg.ensure_blas = look


def _number_apart() -> None:
    """Let Numba number functions from a start value that no other process is likely to use.

    A symbol in machine code consists of the function's name and this number. If two symbols are
    equal, the linker uses only one of them. Numba's sorts of values and of positions have the same
    name. So two kernels stored by two processes once called each other's sort.
    """
    from numba.core.bytecode import FunctionIdentity

    FunctionIdentity._unique_ids = _Numbers()  # noqa: SLF001


class _Numbers:
    """Numbers of functions: reserved ones first."""

    def __init__(self) -> None:
        self.reserved: list[int] = []
        # The start is a random multiple of 2**32, so the numbers of two processes do not meet in
        # practice.
        self._others = itertools.count(int.from_bytes(os.urandom(7)) << 32)

    def __next__(self) -> int:
        return self.reserved.pop() if self.reserved else next(self._others)
