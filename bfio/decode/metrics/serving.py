"""What clusters add as they are served: prefixes, prefill tier, reports, rests, budgets."""

import numpy as np

from bfio.common.metrics import Average, Column, Domain, MetricTable, Value, exact_sum
from bfio.decode.metrics.part import RunPart

#: What clusters add as they are served: prefixes, prefill tier, reports, rests, budgets.
SERVING: MetricTable[RunPart] = MetricTable()


@SERVING.metric(
    "prefix_hit_tokens",
    "tokens",
    "prompt tokens whose prefill is saved: found in the prefix cache of the worker they start on",
)
def _prefix_hit_tokens(part: RunPart) -> Value:
    hits = part.run.prefix_hit_tokens
    return None if hits is None else exact_sum(hits[part.steps])


@SERVING.average(
    "prefix_hit_rate",
    "1",
    "their share of the prompts of the requests that start",
    Column("prefix\nhits", is_share=True, by_default=False),
    Domain.SHARE,
)
def _prefix_hit_rate(part: RunPart) -> Average:
    hits, prompts = part.run.prefix_hit_tokens, part.started_again_tokens[part.steps]
    if hits is None or not prompts.any():
        return Average(np.zeros(0, dtype=np.int64))
    return Average(hits[part.steps], prompts)


@SERVING.metric(
    "expired",
    "requests",
    "times that the pool dropped the cache of a request that waited, which then went through "
    "prefill again",
)
def _expired(part: RunPart) -> Value:
    return None if part.expired is None else len(part.expired)


@SERVING.metric("expired_tokens", "tokens", "prompts of those")
def _expired_tokens(part: RunPart) -> Value:
    return None if part.expired is None else exact_sum(part.run.prompt_tokens[part.expired])


@SERVING.metric(
    "prefill_held_s",
    "s",
    "time that prefill workers held requests which started because the pool was full",
)
def _prefill_held(part: RunPart) -> Value:
    held_s = part.run.held_s
    return None if held_s is None else float(held_s[part.started].sum())


@SERVING.average(
    "ready_delay_mean_s",
    "s",
    "mean time from arrival until ready to be decoded: waiting for prefill, prefill, transfer",
    Column("ready\nmean [s]", by_default=False),
)
def _ready_delay_mean(part: RunPart) -> Average:
    ready_s, arrival_s = part.run.ready_s, part.run.arrival_s
    if ready_s is None or arrival_s is None:
        return Average(np.zeros(0, dtype=np.int64))
    return Average((ready_s - arrival_s)[part.completed])


@SERVING.metric(
    "refused",
    "requests",
    "decisions that found no memory on their worker, of which reports told otherwise",
)
def _refused(part: RunPart) -> Value:
    refused = part.run.refused
    return None if refused is None else int(refused[part.steps].sum())


@SERVING.metric("rests", "requests", "requests at rest, summed over steps")
def _rests(part: RunPart) -> Value:
    return None if part.run.rests is None else int(part.run.resting()[part.steps].sum())


@SERVING.average(
    "rest_share",
    "1",
    "share of active requests that rest, over steps",
    Column("at rest", is_share=True, by_default=False),
    Domain.SHARE,
)
def _rest_share(part: RunPart) -> Average:
    if part.run.rests is None:
        return Average(np.zeros(0, dtype=np.int64))
    resting = part.run.resting()[part.steps]
    return Average(resting, (resting + part.run.active[part.steps]).astype(np.float64))


@SERVING.metric("longest_rest", "steps", "longest rest that began at these steps")
def _longest_rest(part: RunPart) -> Value:
    rests = part.run.rests
    if rests is None:
        return None
    began = rests[np.isin(rests[:, 1], part.steps)]
    return int((began[:, 2] - began[:, 1]).max(initial=0))


@SERVING.metric(
    "prefill_tokens", "tokens", "prompt tokens computed on the workers that decode, in chunks"
)
def _prefill_tokens(part: RunPart) -> Value:
    tokens = part.prefill_tokens
    return None if tokens is None else exact_sum(tokens[part.steps])


@SERVING.average(
    "prefill_mean_s",
    "s",
    "mean time from the first step of a request until its prompt is computed",
    Column("prefill\nmean [s]", by_default=False),
)
def _prefill_mean(part: RunPart) -> Average:
    return Average(part.prefill_times)


@SERVING.average(
    "budget_share",
    "1",
    "share of the token budgets that is used",
    Column("budget", is_share=True, by_default=False),
    Domain.SHARE,
)
def _budget_share(part: RunPart) -> Average:
    tokens = part.prefill_tokens
    if tokens is None:
        return Average(np.zeros(0, dtype=np.int64))
    used = (tokens + part.run.active)[part.steps]
    return Average(used, np.full(len(used), float(part.run.cluster.worker_budgets().sum())))
