"""Metrics of decode runs: one function per metric, registered in one table.

A metric is computed on a `RunPart`: the whole run, or its measured part (`bfio.decode.measured`).
To add a metric, write a function and decorate it: with ``.metric`` for a single value, with
``.average`` for an average over steps or requests that has a confidence interval, with
``.distribution`` for one value per request. Metrics of a feature of the machine are defined in the
folder of the feature. Tables, JSON, studies and documentation list the metrics in the order of
this table.

Metrics of requests use the requests of the part that have completed.

User-defined metrics are functions of a part of a run, in addition to the built-in ones.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from typing import Any, TypeAlias, cast

import numpy as np

from bfio.common.metrics import (
    Average,
    Column,
    Metric,
    MetricTable,
    Value,
    exact_sum,
    percentile,
)
from bfio.decode.energy import EnergyReading, energy_account
from bfio.decode.energy_model import EnergyModel
from bfio.decode.features.registry import FEATURES
from bfio.decode.options import ArrivalMode
from bfio.decode.run import Run, RunPart
from bfio.decode.stints import Cause
from formulations.arrays import BoolArray, FloatArray, IntArray
from formulations.errors import InputError, check_kind, kind_of
from formulations.named_objects import check_call, is_users, load_object, users_code

__all__ = [
    "METRICS",
    "RunPart",
    "half_widths",
    "jain_index",
    "measure",
    "measure_steady",
    "measured_of",
]

#: Metrics of parts of runs, in the order in which they are shown, see `bfio.common.metrics`.
METRICS: MetricTable[RunPart] = MetricTable()

# Counts: steps, tokens, requests and their outcomes.


METRICS.metric("steps", "steps", "decode steps executed", Column("steps", place=1))(
    lambda part: len(part.steps)
)
METRICS.metric("tokens", "tokens", "output tokens emitted")(
    lambda part: exact_sum(part.run.active[part.steps])
)
METRICS.metric("completed", "requests", "requests that emitted all their tokens")(
    lambda part: len(part.completed)
)
METRICS.metric("partial", "requests", "requests that started but did not complete")(
    lambda part: len(part.started) - len(part.completed)
)
METRICS.metric("interruptions", "requests", "times that a request left its worker unfinished")(
    lambda part: int(np.isin(part.run.interruptions[:, 3], part.moments).sum())
)
METRICS.metric(
    "recomputed_tokens",
    "tokens",
    "prompts and emitted tokens of interrupted requests whose cache was lost",
)(lambda part: part.interrupted_tokens(Cause.RECOMPUTATION, Cause.FAILURE))
METRICS.metric(
    "swapped_tokens", "tokens", "prompts and emitted tokens of requests moved to the host"
)(lambda part: part.interrupted_tokens(Cause.SWAP))
METRICS.metric("cancelled", "requests", "requests whose client gave up before they were done")(
    lambda part: int(np.isin(part.run.cancel_step, part.moments).sum())
)


@METRICS.metric("cancelled_tokens", "tokens", "tokens emitted for clients that then gave up")
def _cancelled_tokens(part: RunPart) -> Value:
    run = part.run
    return exact_sum(run.emitted_tokens[np.isin(run.cancel_step, part.moments)])


# Metrics that features of the machine add, in the order of `FEATURES`.
METRICS = METRICS.extended(metric for feature in FEATURES for metric in feature.metrics)

# Loads, their imbalance, and waiting requests.


METRICS.metric("work", "tokens", "sum of the loads of all workers and steps")(
    lambda part: exact_sum(part.run.total_load[part.steps])
)
METRICS.metric("total_time_s", "s", "step time and idle time")(lambda part: part.total_s)
METRICS.metric("idle_time_s", "s", "time in which no request was active on any worker")(
    lambda part: float(part.run.idle_before_s[part.steps].sum())
)
METRICS.average(
    "avg_imbalance",
    "tokens",
    "mean over steps of G·max load - total load (BF-IO eq. 7)",
    Column("AvgImbalance\n[tokens]"),
)(lambda part: Average(part.imbalance))
METRICS.average(
    "avg_gap",
    "tokens",
    "mean over steps of max load - min load (BalanceRoute's tables)",
    Column("AvgGap\n[tokens]"),
)(lambda part: Average((part.run.max_load - part.run.min_load)[part.steps]))
METRICS.average(
    "idle_fraction",
    "1",
    "mean over steps of 1 - mean load / max load",
    Column("idle", is_share=True),
)(lambda part: Average(part.idle_fractions))
METRICS.metric(
    "idle_fraction_median",
    "1",
    "median over steps of 1 - mean load / max load",
)(lambda part: percentile(part.idle_fractions, 50))


@METRICS.metric(
    "barrier_loss",
    "1",
    "share of worker time in steps that is spent waiting at the barrier",
    Column("barrier", is_share=True),
)
def _barrier_loss(part: RunPart) -> Value:
    if len(part.steps) == 0:
        return None
    run, whole = part.run, float(part.run.duration_s[part.steps].sum())
    if run.balanced_s is not None:
        return 1.0 - float(part.balanced_s.sum()) / whole
    # Worker g waits t_l·(max load - L_g) in each step. The sum over workers is t_l·imbalance.
    lost = float(run.cluster.worker_times()[1][0]) * exact_sum(part.imbalance)
    return lost / (run.cluster.workers * whole)


@METRICS.metric(
    "barrier_loss_loads",
    "1",
    "share of worker time in steps lost to unequal loads alone: waiting time if the tokens of a "
    "batch took no time, over the same time of steps",
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
    "share of worker time in steps lost to unequal batches alone: waiting time if only the tokens "
    "of a batch took time, over the same time of steps",
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


METRICS.average(
    "load_balance_efficiency",
    "1",
    "share of step time left if all workers had the mean load: 1 - barrier loss",
    Column("balance", is_share=True, by_default=False),
)(lambda part: Average(part.balanced_s, part.run.duration_s[part.steps]))
METRICS.average(
    "balanced_throughput_tokens_per_s",
    "tokens/s",
    "throughput if all workers had the mean load: throughput over load balance efficiency",
    Column("balanced\n[tokens/s]", by_default=False),
)(lambda part: Average(part.run.active[part.steps], part.balanced_s))
METRICS.average(
    "started_prompt_mean",
    "tokens",
    "mean prompt of requests that started",
    Column("started\n[tokens]", by_default=False),
)(lambda part: Average(part.run.prompt_tokens[part.started]))
METRICS.average(
    "waiting_prompt_mean",
    "tokens",
    "mean prompt of requests left waiting after admission",
    Column("waiting\n[tokens]", by_default=False),
)(lambda part: part.mean_waiting("prompt_tokens"))


@METRICS.average(
    "waiting_age_mean",
    "steps",
    "mean age, since the reveal, of requests left waiting after admission",
    Column("waiting\n[steps]", by_default=False),
)
def _waiting_age_mean(part: RunPart) -> Average:
    revealed = part.mean_waiting("reveal_step")
    assert revealed.denominator is not None
    steps = part.steps[part.run.waiting[part.steps] > 0]
    return Average(steps * revealed.denominator - revealed.numerator, revealed.denominator)


METRICS.metric("max_waiting", "requests", "most requests waiting after admission")(
    lambda part: int(part.run.waiting[part.steps].max()) if len(part.steps) else None
)


# Throughput and the times of requests.


def _milliseconds(heading: str) -> Column:
    return Column(f"{heading}\n[ms]", factor=1e3)


def _seconds(heading: str, *, by_default: bool = False) -> Column:
    return Column(f"{heading} [s]", by_default=by_default)


METRICS.average(
    "throughput_tokens_per_s",
    "tokens/s",
    "tokens over step time (BF-IO eq. 8)",
    Column("throughput\n[tokens/s]"),
)(lambda part: Average(part.run.active[part.steps], part.run.duration_s[part.steps]))
METRICS.distribution(
    "tpot",
    "s/token",
    "time per output token (BF-IO eq. 9)",
    ending="_s",
    shown={"mean": _milliseconds("TPOT mean"), "p95": _milliseconds("TPOT P95")},
)(lambda part: part.times_per_token)


@METRICS.metric(
    "tpot_p95_awake_s",
    "s/token",
    "95th percentile of the time per output token without the time at rest",
)
def _tpot_p95_awake(part: RunPart) -> Value:
    awake = part.awake_times_per_token
    return None if awake is None else percentile(awake, 95)


METRICS.distribution(
    "queueing_delay",
    "s",
    "time from arrival or reveal to the first step",
    ending="_s",
    shown={
        "mean": _seconds("queueing\nmean"),
        "p95": _seconds("queueing\nP95"),
        "max": _seconds("queueing\nmax"),
    },
)(lambda part: part.delays)
METRICS.distribution(
    "ttft",
    "s",
    "time from arrival or reveal to the first token (TTFT)",
    ending="_s",
    shown={
        "mean": _seconds("TTFT\nmean"),
        "p95": _seconds("TTFT\nP95", by_default=True),
        "max": _seconds("TTFT\nmax", by_default=True),
    },
)(lambda part: part.first_tokens)
METRICS.distribution(
    "latency",
    "s",
    "time from arrival or reveal to the last token",
    ending="_s",
    shown={"mean": _seconds("latency\nmean"), "p95": _seconds("latency\nP95")},
)(lambda part: part.latencies)


# Service levels and fairness.


def _over(amount: float, whole: float) -> float | None:
    """Return a ratio; None if undefined."""
    return amount / whole if whole else None


def jain_index(shares: FloatArray) -> float:
    """Return Jain's index ``(Σx)² / (n·Σx²)`` of n >= 1 shares: from 1/n (one has all) to 1.

    R. Jain, D. Chiu, W. Hawe, "A quantitative measure of fairness and discrimination for resource
    allocation in shared computer systems", DEC-TR-301, 1984.

    Parameters
    ----------
    shares : FloatArray
        Shares in the same unit, shape (n,), >= 0 and not all 0.
    """
    relative = shares / shares.max()
    # At most 1 by Cauchy and Schwarz; minimum() only removes the last bit of rounding.
    return min(1.0, float(relative.sum()) ** 2 / (len(shares) * float((relative**2).sum())))


METRICS.metric(
    "slo_share",
    "1",
    "share of the started requests that completed within both limits of --slo",
    Column("in limits", is_share=True, by_default=False),
)(lambda part: None if part.met is None else _over(int(part.met.sum()), len(part.started)))
METRICS.metric(
    "goodput_requests_per_s",
    "requests/s",
    "requests that completed within both limits of --slo, over step and idle time",
    Column("goodput\n[requests/s]", by_default=False),
)(lambda part: None if part.met is None else _over(int(part.met.sum()), part.total_s))


@METRICS.metric(
    "goodput_tokens_per_s",
    "tokens/s",
    "tokens of requests that completed within both limits of --slo, over step and idle time",
    Column("goodput\n[tokens/s]", by_default=False),
)
def _goodput_tokens(part: RunPart) -> Value:
    if part.met is None:
        return None
    return _over(exact_sum(part.run.emitted_tokens[part.completed[part.met]]), part.total_s)


@METRICS.metric(
    "fairness_jain",
    "1",
    "Jain's index of the tokens per second that each request got, from arrival or reveal to its "
    "end: 1 if all got the same",
    Column("Jain", by_default=False),
)
def _fairness(part: RunPart) -> Value:
    # If steps take no time, all requests are served at once and have no rate.
    latencies = part.latencies
    if len(latencies) == 0 or not latencies.all():
        return None
    return jain_index(part.run.emitted_tokens[part.completed] / latencies)


# Energy and power.


METRICS.metric(
    "energy_j",
    "J",
    "energy, two-phase reading (BF-IO eqs. 10-11)",
    Column("energy\n[kJ]", factor=1e-3, by_default=False),
)(lambda part: None if part.energy is None else part.energy.energy_j)


@METRICS.metric(
    "energy_per_token_j",
    "J/token",
    "energy over tokens, two-phase reading: policies that serve less use less, but not per token",
    Column("energy\n[J/token]"),
)
def _energy_per_token(part: RunPart) -> Value:
    tokens = exact_sum(part.run.active[part.steps])
    return None if part.energy is None else _over(part.energy.energy_j, tokens)


@METRICS.metric(
    "energy_averaged_j",
    "J",
    "energy, averaged reading",
    Column("averaged\n[kJ]", factor=1e-3, by_default=False),
)
def _energy_averaged(part: RunPart) -> Value:
    account = energy_account(part.run, part.energy_model, EnergyReading.AVERAGED, steps=part.steps)
    return None if account is None else account.energy_j


METRICS.metric(
    "power_mean_w",
    "W",
    "mean power of all workers over step and idle time, two-phase reading (BF-IO, fig. 7)",
    Column("power\n[W]", by_default=False),
)(lambda part: None if part.energy is None else _over(part.energy.energy_j, part.total_s))
METRICS.metric(
    "power_max_w",
    "W",
    "highest power of all workers in a step, two-phase reading",
    Column("power max\n[W]", by_default=False),
)(lambda part: None if part.energy is None or len(part.steps) == 0 else part.energy.peak_power_w)


def measure(
    run: Run, energy_model: EnergyModel | None = None, table: MetricTable[RunPart] = METRICS
) -> dict[str, Value]:
    """Return every metric over the whole run, by name of the metric."""
    check_kind(run, Run, "run", "measure(simulate(...))")
    return table.measure(_part(run, np.arange(run.steps), energy_model))


def measured_of(run: Run, energy_model: EnergyModel | None = None) -> RunPart | None:
    """Return the measured part of a run (`bfio.decode.measured`), or None.

    Energy is that of ``energy_model``, by default of `EnergyModel()`.
    """
    check_kind(run, Run, "run", "measured_of(simulate(...))")
    part, steps = run.measured, run.measured_steps
    if part is None or steps is None:
        return None
    return replace(_part(run, steps, energy_model), requests=np.arange(part.first, part.last))


def measure_steady(
    run: Run,
    energy_model: EnergyModel | None = None,
    warm_up: int = 0,
    table: MetricTable[RunPart] = METRICS,
) -> dict[str, Value] | None:
    """Return every metric over the steady steps (`Run.steady_mask`); None without such steps."""
    check_kind(run, Run, "run", "measure_steady(simulate(...))")
    which = run.steady_mask(warm_up)
    if which is None:
        return None
    return table.measure(_part(run, np.flatnonzero(which), energy_model))


def half_widths(run: Run, which: BoolArray | None) -> dict[str, float | None]:
    """Return half the widths of the 95 % confidence intervals of the metrics that are averages.

    Parameters
    ----------
    run : Run
        The run.
    which : BoolArray, optional
        Shape (K,): the steps that count, such as `Run.steady_mask`; None for no step.

    Returns
    -------
    dict
        Half-width by name of the metric, in its unit; None if there are too few steps.
    """
    steps = np.zeros(0, dtype=np.int64) if which is None else np.flatnonzero(which)
    return METRICS.half_widths(_part(run, steps, None))


def _part(run: Run, steps: IntArray, energy_model: EnergyModel | None) -> RunPart:
    if energy_model is not None:
        check_kind(energy_model, EnergyModel, "energy_model", "EnergyModel(...)")
    return RunPart(run, steps, energy_model or EnergyModel())


#: The name of a metric, or a function of `RunPart`.
ChosenMetric: TypeAlias = str | Callable[[RunPart], Value] | Metric[RunPart]
#: Additional columns of a table for timed arrivals.
_TIMED = ("latency_mean_s", "latency_p95_s", "ttft_mean_s", "queueing_delay_mean_s")
#: Additional columns of a table for runs with latency limits.
_LIMITED = ("slo_share", "goodput_requests_per_s", "goodput_tokens_per_s")


@dataclass(frozen=True)
class MetricChoice:
    """The metrics to compute, and those that a table shows."""

    table: MetricTable[RunPart] = METRICS  #: The built-in and the user-defined metrics.
    #: Metrics that a table shows; None for those with a default column.
    shown: tuple[str, ...] | None = None


def chosen_metrics(
    chosen: ChosenMetric | Sequence[ChosenMetric] | None,
    arrivals: ArrivalMode,
    *,
    has_limits: bool = False,
) -> MetricChoice:
    """Return the metrics that a user has chosen; by default those that suit the run.

    A metric is chosen by name, as ``module:NAME`` or ``FILE.py:NAME``, or as a function of
    `RunPart`; anything else raises InputError. By default, timed arrivals add latency, TTFT and
    queueing delay, and limits (`bfio.decode.features.service_levels`) add goodput.
    """
    if chosen is None:
        timed = _TIMED if arrivals is ArrivalMode.TIMED else ()
        more = (*timed, *(_LIMITED if has_limits else ()))
        names = tuple(name for name, _ in METRICS.columns(more)) if more else None
        return MetricChoice(shown=names)
    if not isinstance(chosen, str | Metric | Iterable) and not callable(chosen):
        remedy = "give names of metrics, or functions of a part of a run"
        raise InputError("metrics", f"{kind_of(chosen)} is not a metric", remedy)
    each = [chosen] if isinstance(chosen, str | Metric) or callable(chosen) else list(chosen)
    if not each:
        raise InputError("metrics", "no metric is given", "name at least one, e.g. avg_imbalance")
    own = {str(entry): metric for entry in each if (metric := _own(entry)) is not None}
    names = tuple(own[str(entry)].name if str(entry) in own else str(entry) for entry in each)
    return MetricChoice(extended(own.values()), tuple(dict.fromkeys(names)))


def named_metrics(text: str | None) -> list[str] | None:
    """Split a comma-separated list of names; None for None."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def extended(own: Iterable[Metric[RunPart]]) -> MetricTable[RunPart]:
    """Return the table of built-in metrics extended by user-defined ones.

    Raises InputError if a name is already taken.
    """
    added = list(own)
    known = {metric.name for metric in METRICS}
    for metric in added:
        if metric.name in known:
            raise InputError(
                f"metric {metric.name}", "a metric of that name exists", "rename your metric"
            )
        known.add(metric.name)
    return METRICS.extended(added) if added else METRICS


_NUMBERS = (int, float, Fraction, Decimal)


def own_metric(name: str, function: Callable[[RunPart], Value]) -> Metric[RunPart]:
    """Return a metric made from a user's function, with checks of its values.

    The function's attributes ``unit`` and ``description`` are used; the description defaults to
    the docstring.
    """

    def compute(part: RunPart) -> Value:
        where = f"metric {name}"
        with users_code(where, remedy="correct the metric"):
            value = function(part)
        plain = value.item() if isinstance(value, np.generic) else value
        is_number = isinstance(plain, _NUMBERS) and not isinstance(plain, bool)
        remedy = "return a number, or None if undefined"
        try:
            is_finite = is_number and isfinite(cast(Any, plain))
        except OverflowError:
            raise InputError(where, "returned a number beyond floats", remedy) from None
        if plain is not None and not is_finite:
            raise InputError(where, f"returned {value!r:.40}", remedy)
        return float(plain) if isinstance(plain, Fraction | Decimal) else plain

    lines = (getattr(function, "__doc__", None) or "a user's own").strip().splitlines()
    description = getattr(function, "description", lines[0])
    return Metric(name, str(getattr(function, "unit", "")), str(description), compute)


def _own(chosen: ChosenMetric) -> Metric[RunPart] | None:
    """Return the user-defined metric of a choice, or None for the name of a built-in metric."""
    if isinstance(chosen, str) and not is_users(chosen):
        METRICS.column(chosen)  # Raises for an unknown metric.
        return None
    where = chosen if isinstance(chosen, str) else "metrics"
    found = load_object(chosen, "metric") if isinstance(chosen, str) else chosen
    if isinstance(found, Metric):
        return found
    check_call(found, where, "part")
    given = getattr(found, "__name__", type(found).__name__)
    name = chosen.rpartition(":")[2] if isinstance(chosen, str) else given
    return own_metric(name, cast("Callable[[RunPart], Value]", found))
