"""Metrics of decode runs, each one small function in a table.

A metric looks at a `RunPart`: the whole run, or its steady steps. To add one, write a function
under ``@METRICS.metric``, or ``@METRICS.average`` if it averages over steps or requests and is to
have an interval; tables, JSON, studies and documentation read the table.

Request metrics count the requests that started in the part and completed.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bfio.common.metrics import Average, Column, Domain, MetricTable, Value, exact_sum
from bfio.decode.energy import EnergyAccount, EnergyReading, energy_account
from bfio.decode.energy_model import EnergyModel
from bfio.decode.run import Run
from bfio.decode.stints import Cause, Stints, cancelled_while_waiting, stints
from bfio.decode.stragglers import stragglers_of
from formulations.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class RunPart:
    """Some steps of a run and the requests that started in them.

    Parameters
    ----------
    run : Run
        The run.
    steps : IntArray
        Increasing step indices.
    energy_model : EnergyModel
        Constants of the energy metrics.
    """

    run: Run
    steps: IntArray
    energy_model: EnergyModel

    @cached_property
    def started(self) -> IntArray:
        """Requests that started in these steps."""
        member = np.zeros(self.run.steps, dtype=np.bool_)
        member[self.steps] = True
        start = self.run.start_step
        candidates = np.flatnonzero(start >= 0)
        return candidates[member[start[candidates]]]

    @cached_property
    def stints(self) -> Stints:
        """When and where each request of the run ran."""
        return stints(self.run)

    @cached_property
    def expired(self) -> IntArray | None:
        """Requests whose cache the pool dropped before these steps, as often as it did."""
        expiries = self.run.expiries
        return None if expiries is None else expiries[np.isin(expiries[:, 2], self.steps), 0]

    def interrupted_tokens(self, *causes: Cause) -> int:
        """Sum prompts and what was emitted of requests interrupted at these steps, for a cause."""
        which = np.isin(self.stints.cause, causes) & np.isin(self.stints.end, self.steps)
        prompts = self.run.prompt_tokens[self.stints.request[which]]
        return exact_sum(prompts + self.stints.emitted[which])

    @cached_property
    def started_again_tokens(self) -> FloatArray:
        """Prompts of those that start at each step of the run, or again, shape (K,) [tokens]."""
        stints = self.stints
        which = stints.was_waiting
        prompts = self.run.prompt_tokens[stints.request[which]]
        totals = np.bincount(stints.start[which], weights=prompts, minlength=self.run.steps)
        return totals.astype(np.float64)

    @cached_property
    def completed(self) -> IntArray:
        """Those of them that completed."""
        return self.started[self.run.finish_step[self.started] >= 0]

    @cached_property
    def imbalance(self) -> IntArray:
        """``G·max load - total load`` of each step (BF-IO eq. 2) [tokens]."""
        run = self.run
        whole: IntArray = run.cluster.workers * run.max_load - run.total_load
        return whole[self.steps]

    @cached_property
    def balanced_s(self) -> FloatArray:
        """Time that each step would take if all workers had the mean load [s]."""
        run = self.run
        if run.balanced_s is not None:
            return run.balanced_s[self.steps]
        waited = run.cluster.worker_times()[1][0] / run.cluster.workers * self.imbalance
        balanced: FloatArray = run.duration_s[self.steps] - waited
        return balanced

    def mean_waiting(self, values: IntArray) -> Average:
        """Average a value of each request over those left waiting after admission, over steps.

        Parameters
        ----------
        values : IntArray
            Shape (n,).
        """
        run, change = self.run, np.zeros(self.run.steps + 1, dtype=np.int64)
        revealed, stints = np.flatnonzero(run.reveal_step >= 0), self.stints
        np.add.at(change, run.reveal_step[revealed], values[revealed])
        for steps, which, sign in (
            (stints.start, stints.was_waiting, -1),
            (stints.end, stints.waits_again, 1),
        ):
            np.add.at(change, steps[which], sign * values[stints.request[which]])
        gone = np.flatnonzero(cancelled_while_waiting(run, stints))
        np.add.at(change, run.cancel_step[gone], -values[gone])
        if run.expiries is not None:
            who, ready, lost = run.expiries.T
            np.add.at(change, ready, values[who])
            np.add.at(change, lost, -values[who])
        some = self.steps[run.waiting[self.steps] > 0]
        return Average(np.cumsum(change)[some], run.waiting[some].astype(np.float64))

    @cached_property
    def idle_fractions(self) -> FloatArray:
        """``1 - mean load / max load`` of each step."""
        return self.run.idle_fractions()[self.steps]

    @cached_property
    def times_per_token(self) -> FloatArray:
        """``(finish - start)/o_i`` of each completed request (BF-IO eq. 9) [s].

        With token budgets from the first step after its prompt is computed.
        """
        run, ids = self.run, self.completed
        spent = self._finish_s - run.start_s[run.decode_step()[ids]]
        return spent / run.emitted_tokens[ids]

    @cached_property
    def awake_times_per_token(self) -> FloatArray | None:
        """The same without the time at rest; None of runs in which nobody may rest [s]."""
        run, ids = self.run, self.completed
        if run.rests is None:
            return None
        who, first, end = run.rests.T
        # While its prompt is computed a request rests, too, which is no part of its times.
        first = np.maximum(first, run.decode_step()[who])
        lasts = first < end
        who, first, end = who[lasts], first[lasts], end[lasts]
        spent = run.end_s()[end - 1] - run.start_s[first]
        at_rest = np.bincount(who, weights=spent, minlength=run.num_requests)
        awake: FloatArray = self.times_per_token - at_rest[ids] / run.emitted_tokens[ids]
        return awake

    @cached_property
    def delays(self) -> FloatArray:
        """Time each completed request waited, from arrival or reveal to its first step [s]."""
        return self.run.start_s[self.run.start_step[self.completed]] - self._origin_s

    @cached_property
    def first_tokens(self) -> FloatArray:
        """Time from arrival or reveal to the first token of each completed request [s]."""
        run, ids = self.run, self.completed
        return run.end_s()[run.first_token_step()[ids]] - self._origin_s

    @cached_property
    def prefill_times(self) -> FloatArray:
        """Time from the first step of each completed request until its prompt is computed [s]."""
        run, ids = self.run, self.completed
        if run.chunks is None:
            return np.zeros(0)
        return run.end_s()[run.decode_step()[ids] - 1] - run.start_s[run.start_step[ids]]

    @cached_property
    def prefill_tokens(self) -> IntArray | None:
        """Prompt tokens computed at each step of the run, shape (K,); None without budgets."""
        run = self.run
        if run.chunks is None:
            return None
        tokens = np.zeros(run.steps, dtype=np.int64)
        np.add.at(tokens, run.chunks[:, 0], run.chunks[:, 2])
        return tokens

    def lost_share(self, own_s: FloatArray) -> float | None:
        """Return the share of worker time that workers would wait for the slowest of them.

        Parameters
        ----------
        own_s : FloatArray
            Shape (K, G): how long each worker would take at its own pace [s].
        """
        run = self.run
        whole = float(run.duration_s[self.steps].sum())
        schedule = stragglers_of(run.options.stragglers, run.cluster.workers, run.options.seed)
        own_s = (schedule.factors(run.start_s, run.cluster.workers) * own_s)[self.steps]
        waited = float((own_s.max(axis=1) - own_s.mean(axis=1)).sum())
        return waited / whole if whole else None

    @cached_property
    def latencies(self) -> FloatArray:
        """Time from arrival or reveal to the last token of each completed request [s]."""
        return self._finish_s - self._origin_s

    @cached_property
    def met(self) -> BoolArray | None:
        """Which completed requests met the service level; None if the run states none."""
        limits = self.run.options.slo
        return None if limits is None else limits.met(self.first_tokens, self.times_per_token)

    @cached_property
    def total_s(self) -> float:
        """Time of the steps and of the idle time before them [s]."""
        run = self.run
        return float(run.duration_s[self.steps].sum() + run.idle_before_s[self.steps].sum())

    @cached_property
    def energy(self) -> EnergyAccount | None:
        """Energy and power in the two-phase reading; None without trajectory."""
        return energy_account(
            self.run, self.energy_model, EnergyReading.TWO_PHASE, steps=self.steps
        )

    @property
    def _finish_s(self) -> FloatArray:
        return self.run.end_s()[self.run.finish_step[self.completed]]

    @property
    def _origin_s(self) -> FloatArray:
        run = self.run
        return (run.reveal_s if run.arrival_s is None else run.arrival_s)[self.completed]


#: Metrics of parts of runs, see `bfio.common.metrics`.
METRICS: MetricTable[RunPart] = MetricTable()


def measure(
    run: Run,
    energy_model: EnergyModel | None = None,
    table: MetricTable[RunPart] = METRICS,
) -> dict[str, Value]:
    """Return every metric over the whole run, by name."""
    return table.measure(_part(run, np.arange(run.steps), energy_model))


def measure_steady(
    run: Run,
    energy_model: EnergyModel | None = None,
    warm_up: int = 0,
    table: MetricTable[RunPart] = METRICS,
) -> dict[str, Value] | None:
    """Return every metric over the steady steps (`Run.steady_mask`), or None without any."""
    return measure_steps(run, run.steady_mask(warm_up), energy_model, table)


def measure_steps(
    run: Run,
    which: BoolArray | None,
    energy_model: EnergyModel | None = None,
    table: MetricTable[RunPart] = METRICS,
) -> dict[str, Value] | None:
    """Return every metric over some steps, shape (K,), or None without any."""
    if which is None:
        return None
    return table.measure(_part(run, np.flatnonzero(which), energy_model))


def half_widths(run: Run, which: BoolArray | None) -> dict[str, float | None]:
    """Return half the widths of the 95 % intervals of those metrics that are averages.

    Parameters
    ----------
    run : Run
        The run.
    which : BoolArray, optional
        Shape (K,): the steps that count, such as `Run.steady_mask`.

    Returns
    -------
    dict
        By name of the metric, in its unit; None if there are no or few such steps.
    """
    steps = np.zeros(0, dtype=np.int64) if which is None else np.flatnonzero(which)
    return METRICS.half_widths(_part(run, steps, None))


def _part(run: Run, steps: IntArray, energy_model: EnergyModel | None) -> RunPart:
    return RunPart(run, steps, energy_model or EnergyModel())


def jain_index(shares: FloatArray) -> float:
    """Return ``(Σx)² / (n·Σx²)`` of what each of n >= 1 got: from 1/n (one got all) to 1.

    R. Jain, D. Chiu, W. Hawe, "A quantitative measure of fairness and discrimination for resource
    allocation in shared computer systems", DEC-TR-301, 1984.

    Parameters
    ----------
    shares : FloatArray
        Shape (n,), >= 0 and not all 0, of one unit.
    """
    relative = shares / shares.max()
    # At most 1 by Cauchy and Schwarz; minimum() only removes the last bit of rounding.
    return min(1.0, float(relative.sum()) ** 2 / (len(shares) * float((relative**2).sum())))


def _percentile(values: FloatArray, percent: float) -> float | None:
    """Return a percentile with linear interpolation between order statistics."""
    return float(np.percentile(values, percent)) if len(values) else None


@METRICS.metric("steps", "steps", "decode steps executed", Column("steps", place=1))
def _steps(part: RunPart) -> Value:
    return len(part.steps)


@METRICS.metric("tokens", "tokens", "output tokens emitted")
def _tokens(part: RunPart) -> Value:
    return exact_sum(part.run.active[part.steps])


@METRICS.metric("completed", "requests", "requests that emitted all their tokens")
def _completed(part: RunPart) -> Value:
    return len(part.completed)


@METRICS.metric("partial", "requests", "requests that started but did not complete")
def _partial(part: RunPart) -> Value:
    return len(part.started) - len(part.completed)


@METRICS.metric("interruptions", "requests", "times that a request left its worker undone")
def _interruptions(part: RunPart) -> Value:
    return int(np.isin(part.run.interruptions[:, 3], part.steps).sum())


@METRICS.metric(
    "recomputed_tokens",
    "tokens",
    "prompts and emitted tokens of interrupted requests whose cache was lost",
)
def _recomputed_tokens(part: RunPart) -> Value:
    return part.interrupted_tokens(Cause.RECOMPUTATION, Cause.FAILURE)


@METRICS.metric(
    "swapped_tokens", "tokens", "prompts and emitted tokens of requests moved to the host"
)
def _swapped_tokens(part: RunPart) -> Value:
    return part.interrupted_tokens(Cause.SWAP)


@METRICS.metric("cancelled", "requests", "requests whose client gave up before they were done")
def _cancelled(part: RunPart) -> Value:
    return int(np.isin(part.run.cancel_step, part.steps).sum())


@METRICS.metric("cancelled_tokens", "tokens", "tokens emitted for clients that then gave up")
def _cancelled_tokens(part: RunPart) -> Value:
    run = part.run
    return exact_sum(run.emitted_tokens[np.isin(run.cancel_step, part.steps)])


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
    hits, prompts = part.run.prefix_hit_tokens, part.started_again_tokens[part.steps]
    if hits is None or not prompts.any():
        return Average(np.zeros(0, dtype=np.int64))
    return Average(hits[part.steps], prompts)


@METRICS.metric(
    "expired",
    "requests",
    "times that the pool dropped the cache of a request that waited, which then went through "
    "prefill again",
)
def _expired(part: RunPart) -> Value:
    return None if part.expired is None else len(part.expired)


@METRICS.metric("expired_tokens", "tokens", "prompts of those")
def _expired_tokens(part: RunPart) -> Value:
    return None if part.expired is None else exact_sum(part.run.prompt_tokens[part.expired])


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
        return Average(np.zeros(0, dtype=np.int64))
    return Average((ready_s - arrival_s)[part.completed])


@METRICS.metric(
    "refused",
    "requests",
    "decisions that found no memory on their worker, of which reports told otherwise",
)
def _refused(part: RunPart) -> Value:
    refused = part.run.refused
    return None if refused is None else int(refused[part.steps].sum())


@METRICS.metric("rests", "requests", "requests at rest, summed over steps")
def _rests(part: RunPart) -> Value:
    return None if part.run.rests is None else int(part.run.resting()[part.steps].sum())


@METRICS.average(
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


@METRICS.metric("longest_rest", "steps", "longest rest that began at these steps")
def _longest_rest(part: RunPart) -> Value:
    rests = part.run.rests
    if rests is None:
        return None
    began = rests[np.isin(rests[:, 1], part.steps)]
    return int((began[:, 2] - began[:, 1]).max(initial=0))


@METRICS.metric(
    "prefill_tokens", "tokens", "prompt tokens computed on the workers that decode, in chunks"
)
def _prefill_tokens(part: RunPart) -> Value:
    tokens = part.prefill_tokens
    return None if tokens is None else exact_sum(tokens[part.steps])


@METRICS.average(
    "prefill_mean_s",
    "s",
    "mean time from the first step of a request until its prompt is computed",
    Column("prefill\nmean [s]", by_default=False),
)
def _prefill_mean(part: RunPart) -> Average:
    return Average(part.prefill_times)


@METRICS.average(
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


@METRICS.metric("work", "tokens", "sum of the loads of all workers and steps")
def _work(part: RunPart) -> Value:
    return exact_sum(part.run.total_load[part.steps])


@METRICS.metric("total_time_s", "s", "step time and idle time")
def _total_time(part: RunPart) -> Value:
    return part.total_s


@METRICS.metric("idle_time_s", "s", "time in which no request was active on any worker")
def _idle_time(part: RunPart) -> Value:
    return float(part.run.idle_before_s[part.steps].sum())


@METRICS.average(
    "avg_imbalance",
    "tokens",
    "mean over steps of G·max load - total load (BF-IO eq. 7)",
    Column("AvgImbalance\n[tokens]"),
)
def _avg_imbalance(part: RunPart) -> Average:
    return Average(part.imbalance)


@METRICS.average(
    "avg_gap",
    "tokens",
    "mean over steps of max load - min load (BalanceRoute's tables)",
    Column("AvgGap\n[tokens]"),
)
def _avg_gap(part: RunPart) -> Average:
    return Average((part.run.max_load - part.run.min_load)[part.steps])


@METRICS.average(
    "idle_fraction",
    "1",
    "mean over steps of 1 - mean load / max load",
    Column("idle", is_share=True),
    Domain.SHARE,
)
def _idle_fraction(part: RunPart) -> Average:
    return Average(part.idle_fractions)


@METRICS.metric(
    "idle_fraction_median",
    "1",
    "median over steps of 1 - mean load / max load",
    domain=Domain.SHARE,
)
def _idle_fraction_median(part: RunPart) -> Value:
    return _percentile(part.idle_fractions, 50)


@METRICS.metric(
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


@METRICS.metric(
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


@METRICS.metric(
    "barrier_loss_batches",
    "1",
    "the same if steps lasted as their batches alone: what unequal numbers of tokens would cost",
    domain=Domain.SHARE,
)
def _barrier_loss_batches(part: RunPart) -> Value:
    batches = part.run.batch_tokens()
    return None if batches is None else part.lost_share(part.run.cluster.batch_times(batches))


@METRICS.average(
    "avg_load",
    "tokens",
    "mean load of a worker over steps",
    Column("load\n[tokens]", by_default=False),
)
def _avg_load(part: RunPart) -> Average:
    workers = np.full(len(part.steps), float(part.run.cluster.workers))
    return Average(part.run.total_load[part.steps], workers)


@METRICS.average(
    "load_balance_efficiency",
    "1",
    "share of step time left if all workers had the mean load: 1 - barrier loss",
    Column("balance", is_share=True, by_default=False),
    Domain.SHARE,
)
def _load_balance_efficiency(part: RunPart) -> Average:
    return Average(part.balanced_s, part.run.duration_s[part.steps])


@METRICS.average(
    "balanced_throughput_tokens_per_s",
    "tokens/s",
    "throughput if all workers had the mean load: throughput over load balance efficiency",
    Column("balanced\n[tokens/s]", by_default=False),
)
def _balanced_throughput(part: RunPart) -> Average:
    return Average(part.run.active[part.steps], part.balanced_s)


@METRICS.average(
    "started_prompt_mean",
    "tokens",
    "mean prompt of requests that started",
    Column("started\n[tokens]", by_default=False),
)
def _started_prompt_mean(part: RunPart) -> Average:
    return Average(part.run.prompt_tokens[part.started])


@METRICS.average(
    "waiting_prompt_mean",
    "tokens",
    "mean prompt of requests left waiting after admission",
    Column("waiting\n[tokens]", by_default=False),
)
def _waiting_prompt_mean(part: RunPart) -> Average:
    return part.mean_waiting(part.run.prompt_tokens)


@METRICS.average(
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


@METRICS.metric("max_waiting", "requests", "most requests waiting after admission")
def _max_waiting(part: RunPart) -> Value:
    return int(part.run.waiting[part.steps].max()) if len(part.steps) else None


@METRICS.average(
    "throughput_tokens_per_s",
    "tokens/s",
    "tokens over step time (BF-IO eq. 8)",
    Column("throughput\n[tokens/s]"),
)
def _throughput(part: RunPart) -> Average:
    return Average(part.run.active[part.steps], part.run.duration_s[part.steps])


@METRICS.average(
    "tpot_mean_s",
    "s/token",
    "mean time per output token (BF-IO eq. 9)",
    Column("TPOT mean\n[ms]", factor=1e3),
)
def _tpot_mean(part: RunPart) -> Average:
    return Average(part.times_per_token)


@METRICS.metric("tpot_p50_s", "s/token", "median time per output token")
def _tpot_p50(part: RunPart) -> Value:
    return _percentile(part.times_per_token, 50)


@METRICS.metric(
    "tpot_p95_s",
    "s/token",
    "95th percentile of the time per output token",
    Column("TPOT P95\n[ms]", factor=1e3),
)
def _tpot_p95(part: RunPart) -> Value:
    return _percentile(part.times_per_token, 95)


@METRICS.metric(
    "tpot_p95_awake_s",
    "s/token",
    "95th percentile of the time per output token without the time at rest",
)
def _tpot_p95_awake(part: RunPart) -> Value:
    awake = part.awake_times_per_token
    return None if awake is None else _percentile(awake, 95)


@METRICS.metric("tpot_p99_s", "s/token", "99th percentile of the time per output token")
def _tpot_p99(part: RunPart) -> Value:
    return _percentile(part.times_per_token, 99)


@METRICS.average(
    "queueing_delay_mean_s",
    "s",
    "mean time from arrival or reveal to the first step",
    Column("queueing\nmean [s]", by_default=False),
)
def _delay_mean(part: RunPart) -> Average:
    return Average(part.delays)


@METRICS.metric("queueing_delay_p50_s", "s", "median of that time")
def _delay_p50(part: RunPart) -> Value:
    return _percentile(part.delays, 50)


@METRICS.metric(
    "queueing_delay_p95_s",
    "s",
    "95th percentile of that time",
    Column("queueing\nP95 [s]", by_default=False),
)
def _delay_p95(part: RunPart) -> Value:
    return _percentile(part.delays, 95)


@METRICS.metric("queueing_delay_p99_s", "s", "99th percentile of that time")
def _delay_p99(part: RunPart) -> Value:
    return _percentile(part.delays, 99)


@METRICS.metric(
    "queueing_delay_max_s",
    "s",
    "longest such time",
    Column("queueing\nmax [s]", by_default=False),
)
def _delay_max(part: RunPart) -> Value:
    return _percentile(part.delays, 100)


@METRICS.average(
    "ttft_mean_s",
    "s",
    "mean time from arrival or reveal to the first token (TTFT)",
    Column("TTFT\nmean [s]", by_default=False),
)
def _first_token_mean(part: RunPart) -> Average:
    return Average(part.first_tokens)


@METRICS.metric(
    "ttft_p95_s",
    "s",
    "95th percentile of that time",
    Column("TTFT\nP95 [s]", by_default=False),
)
def _first_token_p95(part: RunPart) -> Value:
    return _percentile(part.first_tokens, 95)


@METRICS.average(
    "latency_mean_s",
    "s",
    "mean time from arrival or reveal to the last token",
    Column("latency\nmean [s]", by_default=False),
)
def _latency_mean(part: RunPart) -> Average:
    return Average(part.latencies)


@METRICS.metric(
    "latency_p95_s",
    "s",
    "95th percentile of that time",
    Column("latency\nP95 [s]", by_default=False),
)
def _latency_p95(part: RunPart) -> Value:
    return _percentile(part.latencies, 95)


@METRICS.metric(
    "slo_share",
    "1",
    "share of the requests that started which completed within both limits of --slo",
    Column("in limits", is_share=True, by_default=False),
    Domain.SHARE,
)
def _slo_share(part: RunPart) -> Value:
    if part.met is None or len(part.started) == 0:
        return None
    return int(part.met.sum()) / len(part.started)


@METRICS.metric(
    "goodput_requests_per_s",
    "requests/s",
    "requests that completed within both limits of --slo, over step and idle time",
    Column("goodput\n[requests/s]", by_default=False),
)
def _goodput_requests(part: RunPart) -> Value:
    if part.met is None or part.total_s == 0:
        return None
    return int(part.met.sum()) / part.total_s


@METRICS.metric(
    "goodput_tokens_per_s",
    "tokens/s",
    "tokens of such requests, over step and idle time",
    Column("goodput\n[tokens/s]", by_default=False),
)
def _goodput_tokens(part: RunPart) -> Value:
    if part.met is None or part.total_s == 0:
        return None
    return exact_sum(part.run.emitted_tokens[part.completed[part.met]]) / part.total_s


@METRICS.metric(
    "fairness_jain",
    "1",
    "Jain's index of the tokens per second that each request got, from arrival or reveal to its "
    "end: 1 if all got the same",
    Column("Jain", by_default=False),
    Domain.SHARE,
)
def _fairness(part: RunPart) -> Value:
    # Steps that take no time serve all alike at once, at no rate.
    if len(part.completed) == 0 or not part.latencies.all():
        return None
    return jain_index(part.run.emitted_tokens[part.completed] / part.latencies)


@METRICS.metric(
    "energy_j",
    "J",
    "energy, two-phase reading (BF-IO eqs. 10-11)",
    Column("energy\n[kJ]", factor=1e-3),
)
def _energy(part: RunPart) -> Value:
    return None if part.energy is None else part.energy.energy_j


@METRICS.metric(
    "energy_averaged_j", "J", "energy, averaged reading", Column("averaged\n[kJ]", factor=1e-3)
)
def _energy_averaged(part: RunPart) -> Value:
    account = energy_account(part.run, part.energy_model, EnergyReading.AVERAGED, steps=part.steps)
    return None if account is None else account.energy_j


@METRICS.metric(
    "power_mean_w",
    "W",
    "mean power of all workers over step and idle time, two-phase reading (BF-IO, fig. 7)",
    Column("power\n[W]", by_default=False),
)
def _power_mean(part: RunPart) -> Value:
    if part.energy is None or part.total_s == 0:
        return None
    return part.energy.energy_j / part.total_s


@METRICS.metric(
    "power_max_w",
    "W",
    "highest power of all workers in a step, two-phase reading",
    Column("power max\n[W]", by_default=False),
)
def _power_max(part: RunPart) -> Value:
    return None if part.energy is None or len(part.steps) == 0 else part.energy.peak_power_w
