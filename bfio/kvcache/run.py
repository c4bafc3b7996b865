"""Define the result of a run: batches, stays in the cache, request times, and verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

import numpy as np

from bfio.common.kernel_groups import Engine
from bfio.common.metrics import MetricTable, Value
from bfio.kvcache.instance import CacheInstance
from formulations.arrays import IntArray
from formulations.results import fields_frame


class CacheVerdict(StrEnum):
    """How a run ended."""

    #: All requests completed.
    FINISHED = "finished"
    #: The state recurred without a completion, so no request will ever complete.
    LOOP = "loop"
    #: A limit was reached; the run could have continued.
    STOPPED = "stopped"


class StayEnd(IntEnum):
    """How a request's stay in the cache ended."""

    COMPLETED = 0
    CLEARED = 1
    #: The run ended during the stay.
    OPEN = 2


@dataclass(frozen=True)
class CacheLimits:
    """Limits of a run; a run that reaches one ends with the verdict ``stopped``.

    Parameters
    ----------
    batches : int
        Maximum number of batches.
    fruitless_clearings : int
        Maximum number of consecutive overflows without a completion.
    idle : int
        Maximum consecutive decisions to start no request on an empty worker while requests wait.
    """

    batches: int = 2 * 10**7
    fruitless_clearings: int = 1000
    idle: int = 10**6


@dataclass(frozen=True)
class CacheBatches:
    """Batches of a run, one row each, K in all.

    Parameters
    ----------
    start, duration : IntArray
        Shape (K,) [clock units].
    memory : IntArray
        Shape (K,): tokens in the cache, at most M.
    active : IntArray
        Shape (K,): number of requests in the batch.
    waiting : IntArray
        Shape (K,): arrived requests that are not in the batch.
    """

    start: IntArray
    duration: IntArray
    memory: IntArray
    active: IntArray
    waiting: IntArray

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class Stays:
    """Stays of requests in the cache, one row each, in order of their ends.

    Parameters
    ----------
    request : IntArray
        Shape (J,): index of the request.
    first_batch : IntArray
        Shape (J,): batch of its start.
    num_batches : IntArray
        Shape (J,): number of batches of the stay.
    end : IntArray
        Shape (J,): a `StayEnd`.
    """

    request: IntArray
    first_batch: IntArray
    num_batches: IntArray
    end: IntArray

    def __len__(self) -> int:
        return len(self.request)


@dataclass(frozen=True)
class CacheRun:
    """One run of an algorithm over an instance.

    Parameters
    ----------
    instance : CacheInstance
        Instance that was served.
    algorithm : str
        Name of the algorithm.
    verdict : CacheVerdict
        How the run ended.
    reason : str
        The verdict in words; empty if finished.
    start, completion : IntArray
        Shape (n,): clock values of the last start and of the completion; -1 if there is none.
    batches : CacheBatches
        Batches of the run.
    stays : Stays
        Stays of requests in the cache.
    overflows : int
        How often the running requests exceeded the memory.
    draws : int
        Total rounds of clearing over all overflows.
    statistics : mapping
        Statistics that the policy reports.
    engine : str
        Engine that simulated the run.
    """

    instance: CacheInstance
    algorithm: str
    verdict: CacheVerdict
    reason: str
    start: IntArray
    completion: IntArray
    batches: CacheBatches
    stays: Stays
    overflows: int
    draws: int
    statistics: Mapping[str, object] = field(default_factory=dict)
    engine: str = Engine.REFERENCE

    @property
    def is_finished(self) -> bool:
        """Whether all requests completed."""
        return self.verdict is CacheVerdict.FINISHED

    @property
    def completed(self) -> IntArray:
        """Indices of the requests that completed."""
        return np.flatnonzero(self.completion >= 0)

    @property
    def latencies(self) -> IntArray:
        """Completion minus arrival of the completed requests [clock units]."""
        done = self.completed
        return self.completion[done] - self.instance.arrival[done]

    @property
    def total_latency(self) -> int | None:
        """``TEL`` [clock units]; None unless all requests completed."""
        return int(self.latencies.sum()) if self.is_finished else None

    @property
    def peak_memory(self) -> int:
        """Maximum tokens in the cache in a batch."""
        return int(self.batches.memory.max(initial=0))

    @property
    def cleared(self) -> int:
        """Number of clearings of requests."""
        return int(np.count_nonzero(self.stays.end == StayEnd.CLEARED))

    def shown(self, clock: float) -> float:
        """Convert a clock value to the unit of results: rounds or seconds."""
        return self.instance.batch_time.shown(clock)

    def to_frame(self) -> Any:
        """Return start and completion of each request (clock values) as a pandas data frame."""
        return fields_frame(self)

    def summary(self) -> dict[str, Any]:
        """Return the metrics of the run; times in rounds or seconds, None where undefined."""
        return {
            "algorithm": self.algorithm,
            "engine": self.engine,
            "verdict": self.verdict.value,
            "reason": self.reason,
            "unit": self.instance.batch_time.unit,
            **METRICS.measure(self),
            "statistics": dict(self.statistics),
        }


#: Metrics of runs, see `bfio.common.metrics`.
METRICS: MetricTable[CacheRun] = MetricTable()
#: Unit of the times of runs, see `BatchTime.shown`.
TIME = "rounds or s"


METRICS.metric("requests", "requests", "number of requests")(lambda run: len(run.instance))
METRICS.metric(
    "left_out", "requests", "requests left out because a single one exceeds the memory"
)(lambda run: run.instance.left_out)
METRICS.metric("completed", "requests", "requests that completed")(lambda run: len(run.completed))
METRICS.metric("latency_total", TIME, "sum of completion minus arrival, if all completed")(
    lambda run: None if run.total_latency is None else run.shown(run.total_latency)
)


METRICS.distribution("latency", TIME, "time from arrival to completion")(
    lambda run: run.latencies / (run.instance.batch_time.units_per_second or 1)
)


METRICS.metric("makespan", TIME, "time of the last completion")(
    lambda run: run.shown(int(run.completion.max(initial=0)))
)
METRICS.metric("batches", "batches", "batches run")(lambda run: len(run.batches))
METRICS.metric("busy", TIME, "time in which a batch ran")(
    lambda run: run.shown(int(run.batches.duration.sum()))
)
METRICS.metric("peak_memory", "tokens", "most tokens in the cache in any batch")(
    lambda run: run.peak_memory
)


@METRICS.metric("mean_memory", "tokens", "mean tokens in the cache while the worker is busy")
def _mean_memory(run: CacheRun) -> Value:
    batches = run.batches
    busy = int(batches.duration.sum())
    return float(batches.memory @ (batches.duration / busy)) if busy else None


METRICS.metric(
    "overflows", "overflows", "number of times that the running requests exceeded the memory"
)(lambda run: run.overflows)
METRICS.metric("draws", "draws", "rounds of clearing in all overflows")(lambda run: run.draws)
METRICS.metric("cleared", "requests", "number of times that a request was cleared")(
    lambda run: run.cleared
)
METRICS.metric("wasted_tokens", "tokens", "output tokens of stays that were cleared")(
    lambda run: int(run.stays.num_batches[run.stays.end == StayEnd.CLEARED].sum())
)
