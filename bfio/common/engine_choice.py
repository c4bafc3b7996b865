"""Which of two engines runs: the readable one, or its compiled twin."""

import sys
from collections.abc import Callable
from enum import StrEnum

from bfio.common.kernel_groups import KernelGroup, groups
from formulations.errors import InputError
from formulations.problem_data import member


class Engine(StrEnum):
    """Which engine runs; both give the same run."""

    #: Compiled for long runs of built-in policies, the reference for all others.
    AUTO = "auto"
    COMPILED = "compiled"
    REFERENCE = "reference"


#: What loading Numba with the machine code of a group takes, and the code alone [s].
LOADING_S, CODE_S = 0.5, 0.1
#: What compiled runs would have saved this process so far, by kernels [s].
_saveable_s: dict[str, float] = {}


def is_worthwhile(
    kernels: str, saved_s: float, find: Callable[[], KernelGroup] | None = None
) -> bool:
    """Return whether a run is to be compiled: the one answer of all engines.

    Kernels are loaded, or compiled where they are not on disk, as soon as the runs of this process
    together would have saved what that takes. So many short runs load them as one long run does,
    and whatever follows, all of them wait at most twice as long as with the best choice
    beforehand (the rule of ski rental).

    Parameters
    ----------
    kernels : str
        Name of the kernels of the run.
    saved_s : float
        About what the compiled run saves, once they are loaded [s].
    find : callable, optional
        Returns their group; by default the group of that name. Called for worthwhile runs only,
        because listing groups imports the packages that hold them.
    """
    saveable = _saveable_s[kernels] = _saveable_s.get(kernels, 0.0) + saved_s
    if saveable <= (CODE_S if "numba" in sys.modules else LOADING_S):
        return False
    group = groups()[kernels] if find is None else find()
    return saveable > group.seconds or group.is_ready()


def takes_compiled(engine: Engine | str, *, able: bool, kernels: str, saved_s: float) -> bool:
    """Return whether the compiled engine runs.

    Parameters
    ----------
    engine : Engine or str
        What was asked for.
    able : bool
        Whether the policy is compiled.
    kernels, saved_s
        See `is_worthwhile`.

    Raises
    ------
    InputError
        If the engine is unknown, or the compiled one is asked for and the policy is not.
    """
    engine = member(Engine, engine, "engine")
    if engine is Engine.COMPILED and not able:
        raise InputError("engine", "only built-in policies are compiled", "use auto or reference")
    if engine is Engine.AUTO:
        return able and is_worthwhile(kernels, saved_s)
    return engine is Engine.COMPILED
