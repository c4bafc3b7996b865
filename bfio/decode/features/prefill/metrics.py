"""Metrics of the prefill tier."""

import numpy as np

from bfio.common.metrics import NOTHING, Average, Column, MetricTable, Value, exact_sum
from bfio.decode.run_part import RunPart
from formulations.arrays import IntArray

METRICS: MetricTable[RunPart] = MetricTable()


def _dropped(part: RunPart) -> IntArray | None:
    """Return requests whose cache the pool dropped before these steps, as often as it did."""
    expiries = part.run.expiries
    return None if expiries is None else expiries[np.isin(expiries[:, 2], part.steps), 0]


@METRICS.metric(
    "expired",
    "requests",
    "times that the pool dropped the cache of a request that waited, which then went through "
    "prefill again",
)
def _expired(part: RunPart) -> Value:
    dropped = _dropped(part)
    return None if dropped is None else len(dropped)


@METRICS.metric("expired_tokens", "tokens", "prompts of those")
def _expired_tokens(part: RunPart) -> Value:
    dropped = _dropped(part)
    return None if dropped is None else exact_sum(part.run.prompt_tokens[dropped])


@METRICS.metric(
    "prefill_held_s",
    "s",
    "time that prefill workers held requests which started because the pool was full",
)
def _prefill_held(part: RunPart) -> Value:
    held_s = part.run.held_s
    return None if held_s is None else float(held_s[part.started].sum())


@METRICS.average(
    "ready_delay_mean_s",
    "s",
    "mean time from arrival until ready to be decoded: waiting for prefill, prefill, transfer",
    Column("ready\nmean [s]", by_default=False),
)
def _ready_delay_mean(part: RunPart) -> Average:
    ready_s, arrival_s = part.run.ready_s, part.run.arrival_s
    if ready_s is None or arrival_s is None:
        return NOTHING
    return Average((ready_s - arrival_s)[part.completed])
