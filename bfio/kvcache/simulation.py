"""Serve an instance with an algorithm: the one call that users make."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from bfio.common.engine_choice import Engine, takes_compiled
from bfio.common.users_code import call_check
from bfio.kvcache.engine import run_reference
from bfio.kvcache.instance import CacheInstance
from bfio.kvcache.policy import BetaClearing, CachePolicy, LookAhead, Protection, delta_of
from bfio.kvcache.registry import build
from bfio.kvcache.run import CacheLimits, CacheRun
from formulations.arrays import IntArray, frozen, integer, integer_vector
from formulations.errors import InputError
from formulations.hindsight_latency import LatencyProblem

#: An engine: instance, policy, its name, believed batches, generator, limits.
Runner: TypeAlias = Callable[
    [CacheInstance, CachePolicy, str, IntArray, np.random.Generator, CacheLimits], CacheRun
]
#: What the compiled engine saves per batch that a request occupies [s].
_SAVED_S = 1.5e-5
#: Policies that the kernel knows.
_COMPILED = (LookAhead, Protection, BetaClearing)
#: The kernel's sort keys are length · n + number; beyond this they could leave 64-bit integers.
_MAX_KEY = 2**62


def serve(
    instance: CacheInstance | LatencyProblem,
    algorithm: str | CachePolicy,
    *,
    predicted: IntArray | None = None,
    seed: int = 0,
    engine: Engine | str = Engine.AUTO,
    limits: CacheLimits | None = None,
) -> CacheRun:
    """Serve all requests on one worker and return the run.

    Parameters
    ----------
    instance : CacheInstance or LatencyProblem
        What to serve; a problem runs in unit rounds.
    algorithm : str or CachePolicy
        A name such as ``"mc-sf"``, ``"beta-clearing:alpha=0.2:beta=0.1"`` or ``module:function``,
        or a policy made for this run.
    predicted : IntArray, optional
        Shape (n,), predicted outputs [tokens], >= 1; exact lengths by default. An outlived
        prediction grows with the request, also for later starts.
    seed : int
        Seed of all random draws.
    engine : Engine
        Which engine runs.
    limits : CacheLimits, optional
        When to give up.

    Raises
    ------
    InputError
        If a value breaks its rule, the policy answers wrongly, or cannot be compiled on request.
    """
    if isinstance(instance, LatencyProblem):
        instance = CacheInstance.in_rounds(instance)
    name = algorithm if isinstance(algorithm, str) else _name(algorithm)
    policy = build(algorithm) if isinstance(algorithm, str) else algorithm
    call_check(policy, name, instance)
    believed = believed_batches(instance, predicted, delta_of(policy))
    rng = np.random.default_rng(integer(seed, "seed"))
    run = _runner(engine, policy, instance)
    return run(instance, policy, name, believed, rng, limits or CacheLimits())


def believed_batches(instance: CacheInstance, predicted: IntArray | None, delta: int) -> IntArray:
    """Return the batches that a policy is to believe each request occupies.

    ``ô + δ``, but never more than fits into the memory alone: every request is known to fit.
    Exact lengths need no margin and get none.
    """
    if predicted is None:
        return instance.num_batches
    hoped = integer_vector(predicted, "predicted", minimum=1, maximum=10**9)
    if len(hoped) != len(instance):
        raise InputError(
            "predicted", f"{len(hoped)} entries for {len(instance)} requests", "give one each"
        )
    fitting = instance.memory + 1 - instance.first_need
    return frozen(np.minimum(instance.batches(hoped + delta), fitting))


def _name(policy: CachePolicy) -> str:
    return str(getattr(policy, "__name__", type(policy).__name__))


def _runner(engine: Engine | str, policy: CachePolicy, instance: CacheInstance) -> Runner:
    saved_s = int(instance.num_batches.sum()) * _SAVED_S
    if not takes_compiled(
        engine, able=_is_compiled(policy, instance), kernels="kv-cache", saved_s=saved_s
    ):
        return run_reference
    # Numba takes longer to load than a short run takes in Python.
    from bfio.kvcache.compiled import run_compiled

    return run_compiled


def _is_compiled(policy: CachePolicy, instance: CacheInstance) -> bool:
    """Whether the kernel knows this policy (no subclass of it) and can hold its sort keys."""
    longest = int(instance.num_batches.max(initial=1)) + instance.memory
    return type(policy) in _COMPILED and longest * len(instance) < _MAX_KEY
