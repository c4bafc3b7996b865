"""From the state and record in which an engine ends to the run."""

from collections.abc import Mapping

from bfio.common.engine_choice import Engine
from bfio.kvcache.instance import CacheInstance
from bfio.kvcache.machine.state import (
    BATCH,
    BATCHES_LIMIT,
    CLEARINGS_LIMIT,
    DRAWS,
    GOES_ON,
    IDLE_LIMIT,
    LOOP,
    OVERFLOWS,
    STAYS,
    CacheRecord,
    MachineState,
    order_of,
)
from bfio.kvcache.run import CacheBatches, CacheRun, CacheVerdict, Stays
from formulations.arrays import IntArray, frozen, frozen_columns

#: What is said of each way to end.
_ENDS = {
    GOES_ON: (CacheVerdict.FINISHED, ""),
    LOOP: (CacheVerdict.LOOP, "the state came back after an overflow without a completion"),
    CLEARINGS_LIMIT: (
        CacheVerdict.STOPPED,
        "too many overflows in a row without a completion",
    ),
    BATCHES_LIMIT: (CacheVerdict.STOPPED, "the limit of batches was reached"),
    IDLE_LIMIT: (
        CacheVerdict.STOPPED,
        "the policy started nothing on an empty worker for too long",
    ),
}


def finished_run(
    instance: CacheInstance,
    name: str,
    state: MachineState,
    record: CacheRecord,
    ended: int,
    *,
    engine: Engine,
    statistics: Mapping[str, object] | None = None,
) -> CacheRun:
    """Return the run, with requests by their index again.

    Parameters
    ----------
    instance, name
        What was served, and by which algorithm.
    state, record
        Of the machine, at the end.
    ended : int
        How it ended, see `bfio.kvcache.machine.state`.
    engine, statistics
        See `CacheRun`.
    """
    order, counters = order_of(instance), state.counters
    verdict, reason = _ENDS[ended]
    request, *rest = frozen_columns(record.stays[: counters[STAYS]])
    return CacheRun(
        instance=instance,
        algorithm=name,
        verdict=verdict,
        reason=reason,
        start=_by_index(state.requests.start, order),
        completion=_by_index(state.requests.completion, order),
        batches=CacheBatches(*frozen_columns(record.batches[: counters[BATCH]])),
        stays=Stays(frozen(order[request]), *rest),
        overflows=int(counters[OVERFLOWS]),
        draws=int(counters[DRAWS]),
        statistics=statistics or {},
        engine=engine,
    )


def _by_index(values: IntArray, order: IntArray) -> IntArray:
    placed = values.copy()
    placed[order] = values
    return frozen(placed)
