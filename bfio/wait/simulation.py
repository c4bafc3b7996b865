"""Serve an instance with a policy: `serve` is the entry point for users."""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import TypeAlias

from bfio.common.engine_choice import Engine, takes_compiled
from bfio.common.options import spelled_out
from bfio.common.users_code import call_check
from bfio.wait.chains import ThresholdPolicy
from bfio.wait.engine import run_reference
from bfio.wait.fcfs import FirstComeFirstServed
from bfio.wait.instance import MAX_CLOCK, StageInstance
from bfio.wait.machine import NONE, Ending
from bfio.wait.options import ServeOptions
from bfio.wait.policy import StagePolicy
from bfio.wait.run import StageRun
from formulations.errors import InputError

Runner: TypeAlias = Callable[[StageInstance, StagePolicy, str, Ending], StageRun]
#: Minimum time that a compiled engine saves per stage event [s].
_SAVED_S = 2e-6


@spelled_out(ServeOptions)
def serve(
    instance: StageInstance,
    policy: StagePolicy,
    *,
    name: str = "",
    engine: Engine | str = Engine.AUTO,
    tell: Callable[[int], None] | None = None,
    options: ServeOptions | None = None,
) -> StageRun:
    """Serve requests on one engine and return the run.

    Parameters
    ----------
    instance : StageInstance
        Instance to serve.
    policy : StagePolicy
        Policy from `bfio.wait.registry.build`, or any callable with a `StageState`.
    name : str
        Name in results; by default the name of the policy's type.
    engine : Engine
        Engine to use.
    tell : callable, optional
        Called before each decision with the number of completed requests; not by compiled engines.
    options : ServeOptions, optional
        End of the run. Each field can be given as a keyword instead.

    Raises
    ------
    InputError
        If a value is invalid, or the policy rejects the instance or returns an invalid answer.
    """
    name = name or type(policy).__name__
    call_check(policy, name, instance)
    asked = options or ServeOptions()
    duration = NONE if asked.end_s is None else _clock(instance, asked.end_s)
    ending = Ending(duration, asked.drains, asked.batches)
    run = _runner(engine, policy, instance, tell)
    return run(instance, policy, name, ending)


def _clock(instance: StageInstance, seconds: Fraction | int) -> int:
    units = instance.clock.units(seconds)
    if not 0 < units <= MAX_CLOCK:
        raise InputError("horizon", f"{float(seconds):.6g} s", "use a time > 0 within the clock")
    return units


def _runner(
    engine: Engine | str,
    policy: StagePolicy,
    instance: StageInstance,
    tell: Callable[[int], None] | None,
) -> Runner:
    # Subclasses are excluded, because they may decide differently.
    able = type(policy) in (ThresholdPolicy, FirstComeFirstServed)
    saved_s = int(instance.iterations.sum()) * _SAVED_S
    if not takes_compiled(engine, able=able, kernels="wait", saved_s=saved_s):
        return partial(run_reference, tell=tell)
    # Loading Numba takes longer than a short interpreted run.
    from bfio.wait.compiled import run_compiled

    return run_compiled
