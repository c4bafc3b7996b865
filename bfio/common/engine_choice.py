"""Choice between the reference engine (Python) and the compiled engine."""

import sys
from collections.abc import Callable
from enum import StrEnum

from bfio.common.kernel_groups import KernelGroup, groups
from formulations.errors import InputError
from formulations.problem_data import member


class Engine(StrEnum):
    """The engine of a run. Both engines give the same run."""

    #: Compiled for long runs of built-in policies, otherwise the reference.
    AUTO = "auto"
    COMPILED = "compiled"
    REFERENCE = "reference"


#: Time to load Numba with the machine code of a group, and the code alone [s].
LOADING_S, CODE_S = 0.5, 0.1
#: Time that compiled runs would have saved in this process so far, by group of kernels [s].
_saveable_s: dict[str, float] = {}


def is_worthwhile(
    kernels: str, saved_s: float, find: Callable[[], KernelGroup] | None = None
) -> bool:
    """Return whether to compile a run; all engines use this rule.

    Kernels are loaded, or compiled if not on disk, as soon as the runs of this process together
    would have saved the time for loading. So many short runs load the kernels just as one long run
    does. Whatever runs follow, the total time is at most twice that of the best choice in
    hindsight (the ski-rental rule).

    Parameters
    ----------
    kernels : str
        Name of the kernels of the run.
    saved_s : float
        Approximate time that the compiled run saves once kernels are loaded [s].
    find : callable, optional
        Returns the group of these kernels; by default the group of that name. Called only where
        the answer depends on the group, because listing groups imports the packages that define
        them.
    """
    saveable = _saveable_s[kernels] = _saveable_s.get(kernels, 0.0) + saved_s
    if saveable <= (CODE_S if "numba" in sys.modules else LOADING_S):
        return False
    group = groups()[kernels] if find is None else find()
    return saveable > group.seconds or group.is_ready()


def takes_compiled(engine: Engine | str, *, able: bool, kernels: str, saved_s: float) -> bool:
    """Return whether to use the compiled engine.

    Parameters
    ----------
    engine : Engine or str
        The requested engine.
    able : bool
        Whether the policy can be compiled.
    kernels, saved_s
        See `is_worthwhile`.

    Raises
    ------
    InputError
        If the engine is unknown, or the compiled engine is requested for a policy that cannot be
        compiled.
    """
    engine = member(Engine, engine, "engine")
    if engine is Engine.COMPILED and not able:
        raise InputError(
            "engine",
            "'compiled' does not support this policy, only built-in ones",
            "use auto or reference",
        )
    if engine is Engine.AUTO:
        return able and is_worthwhile(kernels, saved_s)
    return engine is Engine.COMPILED
