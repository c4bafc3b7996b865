"""What Numba makes, reads and loads early, done only where it is asked for after all.

That is half of the time of compiling and more than half of that of loading machine code. All here
is private to Numba; `bfio.common.kernels` uses it.
"""

from typing import Any


def generate_late() -> None:
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


def read_late() -> None:
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


def load_without_linear_algebra() -> None:
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


def ready_to_load(target: Any) -> None:
    """Give machine code from disk the addresses of the runtime that it refers to.

    ``target.refresh()`` does so and loads all that Numba can compile. Only who compiles needs it,
    and for him Numba does it.

    Parameters
    ----------
    target : numba.core.cpu.CPUContext
        Where the code is to run.
    """
    from numba.core.runtime import rtsys

    rtsys.initialize(target)
