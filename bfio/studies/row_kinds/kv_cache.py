"""Rows that simulate one algorithm on one worker with a KV cache."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from bfio.common.metrics import Metric
from bfio.kvcache.instance import PUBLISHED, CacheInstance, arrival_rate, rounds_problem
from bfio.kvcache.replay import violations
from bfio.kvcache.run import METRICS, TIME, CacheLimits, CacheRun, CacheVerdict
from bfio.kvcache.simulation import serve
from bfio.studies.row import MAX_POINTS, RowContext, RowResult, Value
from bfio.studies.row_kind import Described, Planned, descriptions, planned_kind
from bfio.studies.row_parts.arguments import (
    ALGORITHM_ARGUMENTS,
    Arguments,
    algorithm_digest,
    algorithm_of,
    convention_of,
    digest_of,
    generator,
    refused,
)
from bfio.studies.row_parts.workload_arguments import (
    WORKLOAD_ARGUMENTS,
    WorkloadChoice,
    chosen_workload,
    request_facts,
    workload_choice,
)
from bfio.workloads.arrivals import Poisson
from bfio.workloads.workload import Workload
from formulations.arrays import FloatArray, IntArray
from formulations.hindsight_latency import Convention
from formulations.scalars import exact_rational


def cache_series(run: CacheRun, seconds: int | None = None) -> dict[str, list[float]]:
    """Return the tokens in the cache and the number of waiting requests as means over time.

    Parameters
    ----------
    run : CacheRun
        A run with a clock that counts fractions of a second.
    seconds : int, optional
        Time that the series cover from 0, at most until the run ends; by default the whole run.

    Returns
    -------
    dict
        ``memory`` [tokens] and ``waiting`` [requests], one value for each of 400 intervals of
        equal length. Both are 0 between batches.
    """
    units = run.instance.batch_time.units_per_second or 1
    start, end = run.batches.start, run.batches.start + run.batches.duration
    last = int(end[-1]) if len(end) else 0
    duration = last if seconds is None else seconds * units
    edges = np.linspace(0, duration, MAX_POINTS + 1)
    # Drop a last interval that the run covers only in part: its mean would include idle time.
    edges = edges[: int(np.searchsorted(edges, last, side="right"))]
    return {
        "memory": time_means(start, end, run.batches.memory, edges),
        "waiting": time_means(start, end, run.batches.waiting, edges),
    }


def time_means(start: IntArray, end: IntArray, values: IntArray, edges: FloatArray) -> list[float]:
    """Return the mean per interval of a function that is 0 outside the given pieces.

    Parameters
    ----------
    start, end, values : IntArray
        Shape (K,): start, end and value of each piece; in order of time.
    edges : FloatArray
        Shape (I + 1,): the interval boundaries.
    """
    if len(edges) < 2 or len(start) == 0:
        return []
    areas = np.concatenate([[0.0], np.cumsum(values * (end - start).astype(np.float64))])
    times = np.stack([start, end], axis=1).ravel().astype(np.float64)
    integral = np.interp(edges, times, np.repeat(areas, 2)[1:-1])
    return [float(mean) for mean in np.diff(integral) / np.diff(edges)]


#: Separates the random stream of arrival times from those of requests and algorithms.
_STREAM = 0x6172726976616C73


@dataclass(frozen=True)
class Offer:
    """Arguments of the requests, the worker and the arrival process.

    Parameters
    ----------
    choice : WorkloadChoice
        The requests.
    memory : int
        ``M`` [tokens].
    convention : Convention
        Which batches a request occupies.
    arrivals : str
        ``poisson``: independent exponential gaps. ``trace``: times of the requests, rescaled.
    load : Fraction
        Offered load ``ρ``, see `bfio.kvcache.instance`. With 0 the times are not rescaled.
    seed : int
        Seed of the gaps.
    skip_oversized : bool
        Whether to leave out and count oversized requests. Otherwise they are an error.
    """

    choice: WorkloadChoice
    memory: int
    convention: Convention
    arrivals: str
    load: Fraction
    seed: int
    skip_oversized: bool


@lru_cache(maxsize=16)
def check_offer(offer: Offer) -> int:
    """Return the number of requests of an offer, without drawing their times.

    Raises
    ------
    InputError
        See `offered_instance`.
    """
    return len(offered_instance(offer) if offer.arrivals == "trace" else _fitting(offer))


@lru_cache(maxsize=16)
def offered_instance(offer: Offer) -> CacheInstance:
    """Return the requests with arrival times at the rate that gives the offered load.

    The same seed gives the same gaps at every load, up to a factor.

    Raises
    ------
    InputError
        If a request does not fit, none is left, or an arrival time is needed and missing.
    """
    if offer.arrivals == "trace":
        requests = chosen_workload(offer.choice)
        own = _at(requests, offer, Fraction(1))
        if not offer.load:
            return own
        span = int(own.arrival.max(initial=0)) - int(own.arrival.min(initial=0))
        if span == 0:
            what = "all requests arrive at once"
            raise refused("load", what, 'use arrivals = "poisson"')
        scale = arrival_rate(own, offer.load) * span / (len(own) - 1)
        return _at(requests, offer, scale)
    fitting = _fitting(offer)
    units = PUBLISHED.units_per_second
    assert units is not None
    rate = float(arrival_rate(fitting, offer.load) * units)
    times = Poisson(rate).sample(len(fitting), generator(offer.seed, _STREAM))
    # Whole microseconds are whole nanoseconds, so no time is rounded here.
    arrival = np.array([int(time * units) for time in times], dtype=np.int64)
    return replace(fitting, arrival=arrival)


def _fitting(offer: Offer) -> CacheInstance:
    """Return the requests that fit the memory, all with arrival time 0."""
    problem, left_out = rounds_problem(
        chosen_workload(offer.choice),
        offer.memory,
        convention=offer.convention,
        leave_out_oversized=offer.skip_oversized,
    )
    if problem.num_requests == 0:
        raise refused("memory", "no request fits", "raise it")
    columns = problem.arrival, problem.prompt, problem.output
    return CacheInstance(offer.memory, *columns, offer.convention, PUBLISHED, left_out)


def _at(requests: Workload, offer: Offer, rate_scale: Fraction) -> CacheInstance:
    return CacheInstance.in_seconds(
        requests,
        offer.memory,
        convention=offer.convention,
        rate_scale=rate_scale,
        leave_out_oversized=offer.skip_oversized,
    )


#: Memory of the worker in the paper: Llama2-70B on two A100 [tokens].
DEFAULT_MEMORY = 16_492
DEFAULT_BATCHES = 5_000_000
#: Request arguments except ``requests_per_slot``: a worker with a KV cache has no slots.
_OF_REQUESTS = tuple(name for name in WORKLOAD_ARGUMENTS if name != "requests_per_slot")
#: Arguments of a row.
ARGUMENTS = (
    *_OF_REQUESTS, *ALGORITHM_ARGUMENTS,
    "memory", "convention", "arrivals", "load", "first", "skip_oversized", "batches", "series_s",
)  # fmt: skip


def value_name(metric: Metric[CacheRun]) -> str:
    """Return the name of a metric in rows, where times are in seconds."""
    return f"{metric.name}_s" if metric.unit == TIME else metric.name


VALUES = [
    Described(value_name(metric), metric.unit.replace(TIME, "s"), metric.description)
    for metric in METRICS
] + descriptions(
    """
    verdict | | how the run ended
    is_finished | | whether every request completed
    is_loop | | whether the run ended because a state recurred without a completion
    is_stopped | | whether the run was stopped at a limit
    rate_per_s | 1/s | arrivals per second at the offered load
    peak_memory_share | share | tokens in the fullest batch / memory
    mean_memory_share | share | mean tokens in the cache while batches ran / memory
    memory | tokens | tokens in the cache, mean of each interval of time, a series
    waiting | requests | requests known but not running, mean of each interval of time, a series
    """
)


def plan(arguments: Mapping[str, Any], context: RowContext) -> Planned:
    """Return the planned computation of a row; see ``docs/row-kinds.md``."""
    given = Arguments(arguments, ARGUMENTS)
    offer, algorithm = offer_of(given, context), algorithm_of(given)
    first = given.optional_whole("first", minimum=1)
    limits = CacheLimits(batches=given.whole("batches", DEFAULT_BATCHES, minimum=1))
    seed = given.whole("seed", 0)
    series_s = given.optional_whole("series_s", minimum=1, maximum=10**9)
    available = check_offer(offer)
    if first is not None and first > available:
        what = f"{first} of {available} requests"
        raise refused("first", what, "raise `requests`, or lower `first`")

    def compute() -> RowResult:
        offered = offered_instance(offer)
        columns = {n: getattr(offered, n)[:first] for n in ("arrival", "prompt", "output")}
        instance = replace(offered, **columns)
        run = serve(instance, algorithm, seed=seed, limits=limits)
        return RowResult(
            values={**cache_values(run), "rate_per_s": rate_per_second(offered, offer.load)},
            series=cache_series(run, series_s),
            violations=violations(run),
        )

    facts = request_facts(offer.choice)
    return Planned(digest_of(f"{facts.digest}{algorithm_digest(algorithm)}"), compute)


def cache_values(run: CacheRun) -> dict[str, Value]:
    """Return the metrics of a run in seconds and tokens, their intervals, and the verdict.

    Latencies are given only if all requests completed. A mean over only the completed requests of
    a stopped run would be too low.
    """
    measured, memory = METRICS.measure(run), run.instance.memory
    mean = measured["mean_memory"]
    return {
        **{value_name(entry): _if_fair(run, entry, measured[entry.name]) for entry in METRICS},
        **{
            f"{value_name(METRICS[name])}.half_width": _if_fair(run, METRICS[name], width)
            for name, width in METRICS.half_widths(run).items()
        },
        "peak_memory_share": run.peak_memory / memory,
        "mean_memory_share": None if mean is None else mean / memory,
        "verdict": run.verdict.value,
        "is_finished": run.is_finished,
        "is_loop": run.verdict is CacheVerdict.LOOP,
        "is_stopped": run.verdict is CacheVerdict.STOPPED,
    }


def _if_fair(run: CacheRun, metric: Metric[CacheRun], value: Value) -> Value:
    is_fair = run.is_finished or metric.unit != TIME or metric.name == "busy"
    return value if is_fair else None


def rate_per_second(instance: CacheInstance, load: Fraction) -> float | None:
    """Return the arrivals per second that give an offered load; None without a load."""
    units = instance.batch_time.units_per_second
    return float(arrival_rate(instance, load) * units) if load and units else None


def offer_of(given: Arguments, context: RowContext) -> Offer:
    """Read the requests and their arrival process from the arguments.

    Raises
    ------
    InputError
        If the arguments are contradictory, incomplete or out of range.
    """
    if given.has("synthetic"):
        raise refused("synthetic", "its arrival times are for another machine", "give a trace")
    arrivals = given.choice("arrivals", ("poisson", "trace"))
    load = exact_rational(given.rational("load", "0"), "argument load")
    if given.has("load") and load == 0:
        raise refused("load", "0 is out of range", "use a number > 0")
    if arrivals == "poisson" and load == 0:
        raise refused("load", "missing", 'give one, or use arrivals = "trace"')
    return Offer(
        choice=workload_choice(given, 1, context),
        memory=given.whole("memory", DEFAULT_MEMORY, minimum=1, maximum=10**9),
        convention=convention_of(given),
        arrivals=arrivals,
        load=load,
        # The workload choice drops a seed that draws no requests. Arrivals still need the seed.
        seed=given.whole("seed", 0) if arrivals == "poisson" else 0,
        skip_oversized=given.flag("skip_oversized"),
    )


KIND = planned_kind(
    "kv-cache",
    "simulation of one algorithm on one worker with a KV cache, in real time",
    plan,
    VALUES,
)
