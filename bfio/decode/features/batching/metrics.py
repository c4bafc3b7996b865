"""Metrics of token budgets."""

import numpy as np

from bfio.common.metrics import NOTHING, Average, Column, Domain, MetricTable, Value, exact_sum
from bfio.decode.run_part import RunPart
from formulations.arrays import FloatArray, IntArray

METRICS: MetricTable[RunPart] = MetricTable()


def _computed(part: RunPart) -> IntArray | None:
    """Return prompt tokens computed at each step of the run, shape (K,); None without budgets."""
    run = part.run
    if run.chunks is None:
        return None
    tokens = np.zeros(run.steps, dtype=np.int64)
    np.add.at(tokens, run.chunks[:, 0], run.chunks[:, 2])
    return tokens


def _prefill_times(part: RunPart) -> FloatArray:
    """Return times from the first steps of completed requests until prompts are computed [s]."""
    run, ids = part.run, part.completed
    if run.chunks is None:
        return np.zeros(0)
    return run.end_s()[run.decode_step()[ids] - 1] - run.start_s[run.start_step[ids]]


@METRICS.metric(
    "prefill_tokens", "tokens", "prompt tokens computed on the workers that decode, in chunks"
)
def _prefill_tokens(part: RunPart) -> Value:
    tokens = _computed(part)
    return None if tokens is None else exact_sum(tokens[part.steps])


@METRICS.average(
    "prefill_mean_s",
    "s",
    "mean time from the first step of a request until its prompt is computed",
    Column("prefill\nmean [s]", by_default=False),
)
def _prefill_mean(part: RunPart) -> Average:
    return Average(_prefill_times(part))


@METRICS.average(
    "budget_share",
    "1",
    "share of the token budgets that is used",
    Column("budget", is_share=True, by_default=False),
    Domain.SHARE,
)
def _budget_share(part: RunPart) -> Average:
    tokens = _computed(part)
    if tokens is None:
        return NOTHING
    used = (tokens + part.run.active)[part.steps]
    return Average(used, np.full(len(used), float(part.run.cluster.worker_budgets().sum())))
