"""Define the result of a run of one engine: batches, stage events, request times, metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from bfio.common.kernel_groups import Engine
from bfio.common.metrics import Average, Column, MetricTable, Value
from bfio.wait.machine import (
    BATCH,
    COMPLETED,
    EVICTED,
    NONE,
    REVEALED,
    ROWS,
    Course,
    Presence,
    with_rows,
)
from bfio.wait.policy import StageInstance
from formulations.arrays import BoolArray, FloatArray, IntArray, frozen, frozen_columns
from formulations.results import fields_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class StageVerdict(StrEnum):
    """How a run ended."""

    #: All requests completed.
    FINISHED = "finished"
    #: The end of the observation was reached.
    HORIZON = "horizon"
    #: The policy formed no batch although no further request arrives.
    STUCK = "stuck"
    #: The limit on batches or on the clock was reached.
    STOPPED = "stopped"


#: The verdicts in words.
_REASONS = {
    StageVerdict.FINISHED: "",
    StageVerdict.HORIZON: "",
    StageVerdict.STUCK: "the policy serves none of the remaining requests, and no more arrive",
    StageVerdict.STOPPED: "the limit on batches or on the clock was reached",
}


@dataclass(frozen=True)
class StageBatches:
    """One row per batch, K in all.

    Parameters
    ----------
    start, duration : IntArray
        Shape (K,) [clock units].
    tokens : IntArray
        Shape (K,): tokens of the batch, which determine its duration.
    memory : IntArray
        Shape (K,): tokens of the batch and of paused requests.
    prompts : IntArray
        Shape (K,): requests in the batch.
    waiting : IntArray
        Shape (K,): requests that wait at its start: arrived, with no token in memory.
    """

    start: IntArray
    duration: IntArray
    tokens: IntArray
    memory: IntArray
    prompts: IntArray
    waiting: IntArray

    def __len__(self) -> int:
        return len(self.start)

    @property
    def end(self) -> IntArray:
        """End of each batch, shape (K,) [clock units]."""
        return self.start + self.duration


@dataclass(frozen=True)
class Events:
    """All stage events of a run: request i passed stage k in batch b.

    Parameters
    ----------
    batch, request, stage : IntArray
        Shape (E,), sorted by batch and then by request.
    """

    batch: IntArray
    request: IntArray
    stage: IntArray

    def __len__(self) -> int:
        return len(self.batch)

    @staticmethod
    def sorted(batch: IntArray, request: IntArray, stage: IntArray) -> "Events":
        """Return the events sorted by batch and then by request."""
        order = np.lexsort((request, batch))
        return Events(batch[order], request[order], stage[order])


@dataclass(frozen=True)
class SpanLog:
    """Spans of consecutive batches: the request passes one stage in each batch of its span.

    Parameters
    ----------
    request, first_batch, first_stage, count : IntArray
        Shape (J,).
    """

    request: IntArray
    first_batch: IntArray
    first_stage: IntArray
    count: IntArray

    def events(self) -> Events:
        """Return all stage events of the spans."""
        passed = counting(self.count)
        return Events.sorted(
            np.repeat(self.first_batch, self.count) + passed,
            np.repeat(self.request, self.count),
            np.repeat(self.first_stage, self.count) + passed,
        )


def counting(counts: IntArray) -> IntArray:
    """Return 0, ..., c−1 for each count c, concatenated."""
    before = np.cumsum(counts) - counts
    passed: IntArray = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(before, counts)
    return passed


@dataclass(frozen=True)
class Evictions:
    """Requests that lost their tokens and restarted at stage 0.

    Parameters
    ----------
    request : IntArray
        Shape (V,), in order of eviction.
    batch : IntArray
        Shape (V,): the eviction precedes this batch; K for evictions after the last batch.
    """

    request: IntArray
    batch: IntArray

    def __len__(self) -> int:
        return len(self.request)


class EventLog(Protocol):
    """A log from which all stage events of a run can be derived."""

    def events(self) -> Events:
        """Return all stage events of the run."""
        ...


@dataclass(frozen=True)
class StageRun:
    """One run of a policy over an instance.

    Parameters
    ----------
    instance : StageInstance
        Instance that was served.
    policy : str
        Name of the policy.
    verdict : StageVerdict
        How the run ended.
    duration : int or None
        End of the observation [clock units]: no batch starts then or later, and later completions
        do not count. None: the end of the last batch.
    batches : StageBatches
        Batches of the run.
    prefilled, first_token, completion : IntArray
        Shape (n,): end of stage 0, of stage 1 and of the last stage, each for the first time; -1
        if there is none. Without output, the prefill gives the first token.
    evictions : Evictions
        Evictions of requests.
    log : EventLog
        Log of the stage events.
    statistics : mapping
        Statistics that the policy reports.
    engine : str
        Engine that simulated the run.
    """

    instance: StageInstance
    policy: str
    verdict: StageVerdict
    duration: int | None
    batches: StageBatches
    prefilled: IntArray
    first_token: IntArray
    completion: IntArray
    evictions: Evictions
    log: EventLog
    statistics: Mapping[str, object] = field(default_factory=dict)
    engine: str = Engine.REFERENCE

    @property
    def reason(self) -> str:
        """The verdict in words; empty for ``finished`` and ``horizon``."""
        return _REASONS[self.verdict]

    @property
    def is_finished(self) -> bool:
        """Whether all requests completed."""
        return self.verdict is StageVerdict.FINISHED

    @property
    def observed(self) -> int:
        """Duration of the observation [clock units]."""
        if self.duration is not None:
            return self.duration
        last = int(self.batches.end.max(initial=0))
        if self.verdict is StageVerdict.STUCK:
            # The run ended after the last arrival, so it counts as observed.
            return max(last, int(self.instance.arrival[-1]) + 1)
        return last

    @cached_property
    def is_completed(self) -> BoolArray:
        """Whether each request completed within the observation, shape (n,)."""
        return self._in_time(self.completion)

    def _in_time(self, clock: IntArray) -> BoolArray:
        return np.asarray((clock >= 0) & (clock <= self.observed))

    @property
    def latencies(self) -> FloatArray:
        """Completion minus arrival of the completed requests [s]."""
        return self._delays(self.completion)

    def first_token_delays(self, stage: int = 1) -> FloatArray:
        """Return the time from arrival to the first token, for requests that received it [s].

        Parameters
        ----------
        stage : int
            1: the end of stage 1, as in the paper's first figure; 0: the end of the prefill.
        """
        return self._delays(self.first_token if stage else self.prefilled)

    def _delays(self, clock: IntArray) -> FloatArray:
        done = self._in_time(clock)
        delays = clock[done] - self.instance.arrival[done]
        return np.asarray(delays / self.instance.clock.units_per_second, dtype=np.float64)

    @property
    def arrived(self) -> BoolArray:
        """Whether each request arrived before the end of the observation, shape (n,)."""
        return np.asarray(self.instance.arrival < self.observed)

    def tokens(self, which: BoolArray, *, decode: bool = False) -> int:
        """Return the total stages, or output tokens, of the selected requests."""
        of_each = self.instance.output if decode else self.instance.iterations
        return int(of_each[which].sum())

    def throughput(self, *, decode: bool = False) -> float:
        """Return stages (or output tokens) of completed requests per second."""
        return self._per_second(self.tokens(self.is_completed, decode=decode))

    def gap(self, *, decode: bool = False) -> float:
        """Return the stages (or tokens) of requests that arrived but did not complete, per second.

        Its mean is ``Thr* − E[Thr]``, where ``Thr*`` is the mean rate of arriving work. Using the
        actual arrivals instead of their mean reduces the variance.
        """
        open_ = self.arrived & ~self.is_completed
        return self._per_second(self.tokens(open_, decode=decode))

    def _per_second(self, amount: int) -> float:
        seconds = self.instance.clock.seconds(self.observed)
        return amount / seconds if seconds else 0.0

    @property
    def peak_memory(self) -> int:
        """Maximum tokens held in a batch."""
        return int(self.batches.memory.max(initial=0))

    @property
    def overflows(self) -> int:
        """Number of batches that exceeded the memory."""
        return int(np.count_nonzero(self.batches.memory > self.instance.memory))

    def to_frame(self) -> Any:
        """Return the fields with one entry per request as a pandas data frame."""
        return fields_frame(self)

    def summary(self) -> dict[str, Any]:
        """Return the metrics of the run; times in seconds, None where a metric is undefined."""
        return {
            "policy": self.policy,
            "engine": self.engine,
            "verdict": self.verdict.value,
            "reason": self.reason,
            **METRICS.measure(self),
            "statistics": dict(self.statistics),
        }


def with_room(course: Course, there: Presence) -> tuple[Course, Presence]:
    """Return the tables with additional rows where `bfio.wait.machine.has_room` requires them."""
    counters = course.counters
    present = int(counters[REVEALED] - counters[COMPLETED])
    batches = with_rows(course.batches, int(counters[BATCH]) + 1)
    spans = with_rows(there.spans, int(counters[ROWS]) + present)
    evictions = with_rows(there.evictions, int(counters[EVICTED]) + present)
    return course._replace(batches=batches), there._replace(spans=spans, evictions=evictions)


def span_log(course: Course, there: Presence) -> SpanLog:
    """Return all spans, including those still open at the end of the run."""
    i = np.flatnonzero(there.last_batch != NONE)
    first, count = there.first_batch[i], there.last_batch[i] - there.first_batch[i] + 1
    still_open = np.column_stack((i, first, there.first_stage[i], count))
    closed = there.spans[: course.counters[ROWS]]
    return SpanLog(*frozen_columns(np.concatenate((closed, still_open))))


def finished_run(
    instance: StageInstance,
    policy: str,
    course: Course,
    ended: int,
    evictions: IntArray,
    log: EventLog,
    engine: Engine,
    statistics: Mapping[str, object] | None = None,
) -> StageRun:
    """Return the `StageRun` of a finished run, with read-only arrays."""
    verdict = list(StageVerdict)[ended - 1]
    duration = None if course.ending.duration == NONE else course.ending.duration
    if duration is not None and verdict is not StageVerdict.STOPPED:
        verdict = StageVerdict.HORIZON
    return StageRun(
        instance=instance,
        policy=policy,
        verdict=verdict,
        duration=duration,
        batches=StageBatches(*frozen_columns(course.batches[: course.counters[BATCH]])),
        prefilled=frozen(course.prefilled),
        first_token=frozen(course.first_token),
        completion=frozen(course.completion),
        evictions=Evictions(*frozen_columns(evictions[: course.counters[EVICTED]])),
        log=log,
        statistics=statistics or {},
        engine=engine,
    )


#: Metrics of runs, see `bfio.common.metrics`.
METRICS: MetricTable[StageRun] = MetricTable()


METRICS.metric("horizon_s", "s", "observed time")(
    lambda run: run.instance.clock.seconds(run.observed)
)
METRICS.metric("requests", "requests", "requests that arrived in the observed time")(
    lambda run: int(np.count_nonzero(run.arrived))
)
METRICS.metric("completed", "requests", "requests that completed in the observed time")(
    lambda run: int(np.count_nonzero(run.is_completed))
)
METRICS.metric(
    "throughput", "stages/s", "stages of completed requests per second", Column("stages/s")
)(lambda run: run.throughput())
METRICS.metric(
    "decode_throughput",
    "tokens/s",
    "output tokens of completed requests per second",
    Column("decode\ntokens/s"),
)(lambda run: run.throughput(decode=True))
METRICS.metric(
    "gap",
    "stages/s",
    "stages of requests that arrived and did not complete, per second",
    Column("gap\n[stages/s]"),
)(lambda run: run.gap())
METRICS.metric(
    "decode_gap",
    "tokens/s",
    "output tokens of requests that arrived and did not complete, per second",
)(lambda run: run.gap(decode=True))


METRICS.distribution(
    "latency",
    "s",
    "time from arrival to completion",
    ending="_s",
    shown={"mean": Column("latency\nmean [s]"), "p95": Column("p95")},
)(lambda run: run.latencies)
METRICS.distribution(
    "ttft",
    "s",
    "time from arrival to the first token",
    ending="_s",
    shown={"mean": Column("TTFT\nmean [s]"), "p95": Column("p95")},
)(lambda run: run.first_token_delays())
METRICS.distribution("prefill_delay", "s", "time from arrival to the end of stage 0", ending="_s")(
    lambda run: run.first_token_delays(0)
)
METRICS.metric("batches", "batches", "batches run")(lambda run: len(run.batches))
METRICS.metric(
    "stage_events", "stages", "stages passed by requests, including repetitions after evictions"
)(lambda run: int(run.batches.prompts.sum()))


@METRICS.metric("mean_batch_s", "s", "mean duration of a batch")
def _mean_batch(run: StageRun) -> Value:
    mean = Average(run.batches.duration).value
    return None if mean is None else run.instance.clock.seconds(mean)


@METRICS.metric("busy_share", "1", "share of the observed time in which a batch ran")
def _busy_share(run: StageRun) -> Value:
    batches = run.batches
    busy = int(np.minimum(batches.end, run.observed).sum() - batches.start.sum())
    return busy / run.observed if run.observed else 0.0


METRICS.metric("peak_memory", "tokens", "most tokens held in any batch", Column("peak\nmemory"))(
    lambda run: run.peak_memory
)
METRICS.average("mean_memory", "tokens", "mean over batches of the tokens held")(
    lambda run: Average(run.batches.memory)
)
METRICS.metric(
    "overflows", "batches", "batches that needed more than the memory", Column("over-\nflows")
)(lambda run: run.overflows)
METRICS.metric(
    "evictions",
    "requests",
    "number of times that a request lost its tokens (evictions)",
    Column("evic-\ntions"),
)(lambda run: len(run.evictions))


#: Maximum number of points per line; more are not visible.
_MAX_POINTS = 1000


def run_figure(runs: Sequence[StageRun]) -> "Figure":
    """Draw the memory of each batch, and the requests waiting for stage 0 at its start.

    While the engine is idle, the memory is drawn as 0 and the queue is not drawn.

    Parameters
    ----------
    runs : sequence of StageRun
        At least one run; all of the same instance, with one line each.
    """
    from bfio.common.figure_style import label_pair, styled

    with styled(8, 5, 2, 1, sharex=True) as (figure, (memory, queue)):
        for run in runs:
            _draw(memory, run, run.batches.memory, 0.0)
            _draw(queue, run, run.batches.waiting, np.nan)
        memory.axhline(runs[0].instance.memory, color="black", linestyle="--", linewidth=0.8)
        held = "memory of the batch and of paused requests; 0: engine idle; dashed: capacity"
        before = (
            "requests before stage 0 at the start of a batch, including its own; idle: no line"
        )
        labels = (held, "memory [tokens]"), (before, "before stage 0 [requests]")
        label_pair(figure, (memory, queue), "time [s]", *labels)
    return figure


def _draw(axes: "Axes", run: StageRun, values: IntArray, idle: float) -> None:
    seconds, drawn = thinned(*line_of(run, values, idle))
    axes.step(seconds, drawn, where="post", linewidth=0.9, label=run.policy)


def line_of(run: StageRun, values: IntArray, idle: float) -> tuple[FloatArray, FloatArray]:
    """Return the times of changes [s] and the values: of a batch while it runs, else ``idle``."""
    batches = run.batches
    # One value at each start and each end; if a batch starts at the end of another, its value
    # counts.
    clock = np.concatenate(([0], np.stack((batches.start, batches.end), axis=1).ravel()))
    levels = np.full(len(clock), idle)
    levels[1::2] = values
    clock = np.append(clock, max(int(clock[-1]), run.observed))
    last = np.append(np.diff(clock) > 0, True)
    return clock[last] / run.instance.clock.units_per_second, np.append(levels, idle)[last]


def thinned(seconds: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the maximum in each of equal time intervals, so that peaks stay visible."""
    if len(values) <= 2 * _MAX_POINTS:
        return seconds, values
    edges = np.linspace(seconds[0], seconds[-1], _MAX_POINTS, endpoint=False)
    # An interval starts with the value that holds at its left edge.
    held = values[np.searchsorted(seconds, edges, side="right") - 1]
    order = np.argsort(np.concatenate((edges, seconds)), kind="stable")
    first = np.flatnonzero(order < _MAX_POINTS)
    largest = np.fmax.reduceat(np.concatenate((held, values))[order], first)
    return np.append(edges, seconds[-1]), np.append(largest, values[-1])
