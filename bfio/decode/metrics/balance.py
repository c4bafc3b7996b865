"""Loads, how unequal they are, and what waits."""

import numpy as np

from bfio.common.metrics import Average, Column, Domain, MetricTable, Value, exact_sum, percentile
from bfio.decode.metrics.part import RunPart

#: Loads, how unequal they are, and what waits.
BALANCE: MetricTable[RunPart] = MetricTable()


@BALANCE.metric("work", "tokens", "sum of the loads of all workers and steps")
def _work(part: RunPart) -> Value:
    return exact_sum(part.run.total_load[part.steps])


@BALANCE.metric("total_time_s", "s", "step time and idle time")
def _total_time(part: RunPart) -> Value:
    return part.total_s


@BALANCE.metric("idle_time_s", "s", "time in which no request was active on any worker")
def _idle_time(part: RunPart) -> Value:
    return float(part.run.idle_before_s[part.steps].sum())


@BALANCE.average(
    "avg_imbalance",
    "tokens",
    "mean over steps of G·max load - total load (BF-IO eq. 7)",
    Column("AvgImbalance\n[tokens]"),
)
def _avg_imbalance(part: RunPart) -> Average:
    return Average(part.imbalance)


@BALANCE.average(
    "avg_gap",
    "tokens",
    "mean over steps of max load - min load (BalanceRoute's tables)",
    Column("AvgGap\n[tokens]"),
)
def _avg_gap(part: RunPart) -> Average:
    return Average((part.run.max_load - part.run.min_load)[part.steps])


@BALANCE.average(
    "idle_fraction",
    "1",
    "mean over steps of 1 - mean load / max load",
    Column("idle", is_share=True),
    Domain.SHARE,
)
def _idle_fraction(part: RunPart) -> Average:
    return Average(part.idle_fractions)


@BALANCE.metric(
    "idle_fraction_median",
    "1",
    "median over steps of 1 - mean load / max load",
    domain=Domain.SHARE,
)
def _idle_fraction_median(part: RunPart) -> Value:
    return percentile(part.idle_fractions, 50)


@BALANCE.metric(
    "barrier_loss",
    "1",
    "share of worker time in steps that is spent waiting at the barrier",
    Column("barrier", is_share=True),
    Domain.SHARE,
)
def _barrier_loss(part: RunPart) -> Value:
    if len(part.steps) == 0:
        return None
    run, whole = part.run, float(part.run.duration_s[part.steps].sum())
    if run.balanced_s is not None:
        return 1.0 - float(part.balanced_s.sum()) / whole
    # Worker g waits t_l·(max load - L_g) of each step: together t_l·imbalance.
    lost = float(run.cluster.worker_times()[1][0]) * exact_sum(part.imbalance)
    return lost / (run.cluster.workers * whole)


@BALANCE.metric(
    "barrier_loss_loads",
    "1",
    "that share if batches took no time for their tokens, of the same time of steps: what loads "
    "alone would cost",
    domain=Domain.SHARE,
)
def _barrier_loss_loads(part: RunPart) -> Value:
    run = part.run
    if run.chunks is None or run.loads is None:
        return None
    overhead_s, token_time_s = run.cluster.worker_times()
    return part.lost_share(overhead_s + token_time_s * run.loads)


@BALANCE.metric(
    "barrier_loss_batches",
    "1",
    "the same if steps lasted as their batches alone: what unequal numbers of tokens would cost",
    domain=Domain.SHARE,
)
def _barrier_loss_batches(part: RunPart) -> Value:
    batches = part.run.batch_tokens()
    return None if batches is None else part.lost_share(part.run.cluster.batch_times(batches))


@BALANCE.average(
    "avg_load",
    "tokens",
    "mean load of a worker over steps",
    Column("load\n[tokens]", by_default=False),
)
def _avg_load(part: RunPart) -> Average:
    workers = np.full(len(part.steps), float(part.run.cluster.workers))
    return Average(part.run.total_load[part.steps], workers)


@BALANCE.average(
    "load_balance_efficiency",
    "1",
    "share of step time left if all workers had the mean load: 1 - barrier loss",
    Column("balance", is_share=True, by_default=False),
    Domain.SHARE,
)
def _load_balance_efficiency(part: RunPart) -> Average:
    return Average(part.balanced_s, part.run.duration_s[part.steps])


@BALANCE.average(
    "balanced_throughput_tokens_per_s",
    "tokens/s",
    "throughput if all workers had the mean load: throughput over load balance efficiency",
    Column("balanced\n[tokens/s]", by_default=False),
)
def _balanced_throughput(part: RunPart) -> Average:
    return Average(part.run.active[part.steps], part.balanced_s)


@BALANCE.average(
    "started_prompt_mean",
    "tokens",
    "mean prompt of requests that started",
    Column("started\n[tokens]", by_default=False),
)
def _started_prompt_mean(part: RunPart) -> Average:
    return Average(part.run.prompt_tokens[part.started])


@BALANCE.average(
    "waiting_prompt_mean",
    "tokens",
    "mean prompt of requests left waiting after admission",
    Column("waiting\n[tokens]", by_default=False),
)
def _waiting_prompt_mean(part: RunPart) -> Average:
    return part.mean_waiting(part.run.prompt_tokens)


@BALANCE.average(
    "waiting_age_mean",
    "steps",
    "mean age, since the reveal, of requests left waiting after admission",
    Column("waiting\n[steps]", by_default=False),
)
def _waiting_age_mean(part: RunPart) -> Average:
    revealed = part.mean_waiting(part.run.reveal_step)
    assert revealed.denominator is not None
    steps = part.steps[part.run.waiting[part.steps] > 0]
    return Average(steps * revealed.denominator - revealed.numerator, revealed.denominator)


@BALANCE.metric("max_waiting", "requests", "most requests waiting after admission")
def _max_waiting(part: RunPart) -> Value:
    return int(part.run.waiting[part.steps].max()) if len(part.steps) else None
