"""Throughput and the times of requests."""

from bfio.common.metrics import Average, Column, MetricTable, Value, percentile
from bfio.decode.metrics.part import RunPart
from formulations.arrays import FloatArray

#: Throughput and the times of requests.
TIMES: MetricTable[RunPart] = MetricTable()


def _milliseconds(heading: str) -> Column:
    return Column(f"{heading}\n[ms]", factor=1e3)


def _seconds(heading: str, *, by_default: bool = False) -> Column:
    return Column(f"{heading} [s]", by_default=by_default)


@TIMES.average(
    "throughput_tokens_per_s",
    "tokens/s",
    "tokens over step time (BF-IO eq. 8)",
    Column("throughput\n[tokens/s]"),
)
def _throughput(part: RunPart) -> Average:
    return Average(part.run.active[part.steps], part.run.duration_s[part.steps])


@TIMES.distribution(
    "tpot",
    "s/token",
    "time per output token (BF-IO eq. 9)",
    ending="_s",
    shown={"mean": _milliseconds("TPOT mean"), "p95": _milliseconds("TPOT P95")},
)
def _time_per_token(part: RunPart) -> FloatArray:
    return part.times_per_token


@TIMES.metric(
    "tpot_p95_awake_s",
    "s/token",
    "95th percentile of the time per output token without the time at rest",
)
def _tpot_p95_awake(part: RunPart) -> Value:
    awake = part.awake_times_per_token
    return None if awake is None else percentile(awake, 95)


@TIMES.distribution(
    "queueing_delay",
    "s",
    "time from arrival or reveal to the first step",
    ending="_s",
    shown={
        "mean": _seconds("queueing\nmean"),
        "p95": _seconds("queueing\nP95"),
        "max": _seconds("queueing\nmax"),
    },
)
def _queueing_delay(part: RunPart) -> FloatArray:
    return part.delays


@TIMES.distribution(
    "ttft",
    "s",
    "time from arrival or reveal to the first token (TTFT)",
    ending="_s",
    shown={
        "mean": _seconds("TTFT\nmean"),
        "p95": _seconds("TTFT\nP95", by_default=True),
        "max": _seconds("TTFT\nmax", by_default=True),
    },
)
def _first_token(part: RunPart) -> FloatArray:
    return part.first_tokens


@TIMES.distribution(
    "latency",
    "s",
    "time from arrival or reveal to the last token",
    ending="_s",
    shown={"mean": _seconds("latency\nmean"), "p95": _seconds("latency\nP95")},
)
def _latency(part: RunPart) -> FloatArray:
    return part.latencies
