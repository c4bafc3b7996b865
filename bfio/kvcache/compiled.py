"""Built-in policies on the compiled engine; other policies are left to the reference."""

import numpy as np

from bfio.common.engine_choice import Engine
from bfio.common.kernel_groups import ensure_compiled
from bfio.kvcache.engine import REASONS
from bfio.kvcache.instance import CacheInstance
from bfio.kvcache.kernel.loop import run_batches
from bfio.kvcache.kernel.state import (
    BATCHES_LIMIT,
    CLEARINGS_LIMIT,
    DRAWS,
    FINISHED,
    LOOP,
    OVERFLOWS,
    Requests,
    Rule,
)
from bfio.kvcache.look_ahead import LookAhead, Order, Scan
from bfio.kvcache.policy import CachePolicy, clearing_of
from bfio.kvcache.protection import Admission, Protection
from bfio.kvcache.run import CacheBatches, CacheLimits, CacheRun, CacheVerdict, Stays
from formulations.arrays import IntArray, frozen, frozen_columns
from formulations.hindsight_latency import Convention

_ENDS = {
    FINISHED: (CacheVerdict.FINISHED, ""),
    LOOP: (CacheVerdict.LOOP, REASONS["loop"]),
    CLEARINGS_LIMIT: (CacheVerdict.STOPPED, REASONS["clearings"]),
    BATCHES_LIMIT: (CacheVerdict.STOPPED, REASONS["batches"]),
}


def compile_kernel() -> None:
    """Compile the kernel, or load it from the cache on disk, before any clock runs."""
    one = np.ones(1, dtype=np.int64)
    instance = CacheInstance(2, one, one, one)
    run_compiled(instance, LookAhead(), "mc-sf", one, np.random.default_rng(0), CacheLimits())


def run_compiled(
    instance: CacheInstance,
    policy: CachePolicy,
    name: str,
    believed: IntArray,
    rng: np.random.Generator,
    limits: CacheLimits,
) -> CacheRun:
    """Serve the instance as `bfio.kvcache.engine.run_reference` does, with its arguments."""
    ensure_compiled("kv-cache")
    order: IntArray = np.argsort(instance.arrival, kind="stable")
    columns = (
        instance.arrival,
        instance.prompt,
        instance.first_need,
        instance.num_batches,
        believed,
    )
    # Fancy indexing copies: contiguous and writeable, so that one machine code serves all.
    requests = Requests(*(column[order] for column in columns))
    ended, work, batches, stays = run_batches(requests, _rule(instance, policy, limits), rng)
    verdict, reason = _ENDS[ended]
    request, *rest = frozen_columns(stays)
    return CacheRun(
        instance=instance,
        algorithm=name,
        verdict=verdict,
        reason=reason,
        start=_by_index(work.start, order),
        completion=_by_index(work.completion, order),
        batches=CacheBatches(*frozen_columns(batches)),
        stays=Stays(frozen(order[request]), *rest),
        overflows=int(work.counters[OVERFLOWS]),
        draws=int(work.counters[DRAWS]),
        engine=Engine.COMPILED,
    )


def _rule(instance: CacheInstance, policy: CachePolicy, limits: CacheLimits) -> Rule:
    time, clearing = instance.batch_time, clearing_of(policy)
    look_ahead = policy if isinstance(policy, LookAhead) else None
    protection = policy if isinstance(policy, Protection) else None
    return Rule(
        memory=instance.memory,
        limit=-1 if protection is None else protection.limit(instance.memory),
        once_per_batch=protection is not None and protection.admission is Admission.BATCH,
        cap=0 if protection is None else protection.cap,
        shortest=look_ahead is not None and look_ahead.order is Order.SHORTEST,
        keep_scanning=look_ahead is not None and look_ahead.scan is Scan.CONTINUE,
        chance=float(clearing.probability),
        pause=clearing.pause,
        completes_at_start=instance.convention is Convention.CLOSED,
        base=time.base,
        per_request=time.request,
        per_context=time.context,
        per_prompt=time.prompt,
        max_batches=limits.batches,
        max_clearings=limits.fruitless_clearings,
    )


def _by_index(values: IntArray, order: IntArray) -> IntArray:
    placed = np.empty_like(values)
    placed[order] = values
    return frozen(placed)
