"""Metrics of prefix caches."""

import numpy as np

from bfio.common.metrics import NOTHING, Average, Column, Domain, MetricTable, Value, exact_sum
from bfio.decode.run_part import RunPart
from formulations.arrays import FloatArray

METRICS: MetricTable[RunPart] = MetricTable()


def _started_again_tokens(part: RunPart) -> FloatArray:
    """Return prompts of those that start, or start again, at each step, shape (K,) [tokens]."""
    stints = part.stints
    which = stints.was_waiting
    prompts = part.run.prompt_tokens[stints.request[which]]
    totals = np.bincount(stints.start[which], weights=prompts, minlength=part.run.steps)
    return totals.astype(np.float64)


@METRICS.metric(
    "prefix_hit_tokens",
    "tokens",
    "prompt tokens whose prefill is saved: found in the prefix cache of the worker they start on",
)
def _prefix_hit_tokens(part: RunPart) -> Value:
    hits = part.run.prefix_hit_tokens
    return None if hits is None else exact_sum(hits[part.steps])


@METRICS.average(
    "prefix_hit_rate",
    "1",
    "their share of the prompts of the requests that start",
    Column("prefix\nhits", is_share=True, by_default=False),
    Domain.SHARE,
)
def _prefix_hit_rate(part: RunPart) -> Average:
    hits, prompts = part.run.prefix_hit_tokens, _started_again_tokens(part)[part.steps]
    if hits is None or not prompts.any():
        return NOTHING
    return Average(hits[part.steps], prompts)
