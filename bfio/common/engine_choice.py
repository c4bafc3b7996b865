"""Which of two engines runs: the readable one, or its compiled twin."""

from enum import StrEnum

from formulations.errors import InputError


class Engine(StrEnum):
    """Which engine runs; both give the same run."""

    #: Compiled for long runs of built-in policies, the reference for all others.
    AUTO = "auto"
    COMPILED = "compiled"
    REFERENCE = "reference"


def takes_compiled(engine: Engine | str, *, able: bool, is_long: bool) -> bool:
    """Return whether the compiled engine runs.

    Parameters
    ----------
    engine : Engine or str
        What was asked for.
    able : bool
        Whether the policy is compiled.
    is_long : bool
        Whether the run is long enough: Numba takes longer to load than a short run takes.

    Raises
    ------
    InputError
        If the engine is unknown, or the compiled one is asked for and the policy is not.
    """
    try:
        engine = Engine(engine)
    except ValueError:
        raise InputError("engine", f"{engine!r} is unknown", f"use {', '.join(Engine)}") from None
    if engine is Engine.COMPILED and not able:
        raise InputError("engine", "only built-in policies are compiled", "use auto or reference")
    return engine is Engine.COMPILED or (engine is Engine.AUTO and able and is_long)
