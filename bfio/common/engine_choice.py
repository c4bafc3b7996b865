"""Which of two engines runs: the readable one, or its compiled twin."""

from enum import StrEnum

from bfio.common.kernel_groups import groups
from formulations.errors import InputError
from formulations.problem_data import member


class Engine(StrEnum):
    """Which engine runs; both give the same run."""

    #: Compiled for long runs of built-in policies, the reference for all others.
    AUTO = "auto"
    COMPILED = "compiled"
    REFERENCE = "reference"


#: A run that is so many times longer than one worth loading kernels for is worth compiling them.
_COMPILING = 100


def is_worthwhile(group: str, size: int, long_run: int) -> bool:
    """Return whether a compiled run saves time.

    Parameters
    ----------
    group : str
        Name of the group of kernels (`bfio.common.kernel_groups`).
    size : int
        What the run's time grows with.
    long_run : int
        Size from which on loading the kernels takes less time than they save.
    """
    if size < long_run:
        return False
    return size >= _COMPILING * long_run or groups()[group].is_ready()


def takes_compiled(engine: Engine | str, *, able: bool, is_long: bool) -> bool:
    """Return whether the compiled engine runs.

    Parameters
    ----------
    engine : Engine or str
        What was asked for.
    able : bool
        Whether the policy is compiled.
    is_long : bool
        Whether the run is long enough, see `is_worthwhile`.

    Raises
    ------
    InputError
        If the engine is unknown, or the compiled one is asked for and the policy is not.
    """
    engine = member(Engine, engine, "engine")
    if engine is Engine.COMPILED and not able:
        raise InputError("engine", "only built-in policies are compiled", "use auto or reference")
    return engine is Engine.COMPILED or (engine is Engine.AUTO and able and is_long)
