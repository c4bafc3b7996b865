"""Requests with arrival times that offer a given load to one worker with a KV cache."""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from bfio.kvcache.instance import PUBLISHED, CacheInstance, arrival_rate, rounds_problem
from bfio.studies.row_parts.workload_arguments import WorkloadChoice, chosen_workload
from bfio.workloads.arrivals import Poisson
from bfio.workloads.workload import Workload
from formulations.errors import InputError
from formulations.hindsight_latency import Convention

#: Sets the stream that draws arrival times apart from those of requests and algorithms.
_STREAM = 0x6172726976616C73


@dataclass(frozen=True)
class Offer:
    """Requests, the worker, and how the requests arrive.

    Parameters
    ----------
    choice : WorkloadChoice
        The requests.
    memory : int
        ``M`` [tokens].
    convention : Convention
        Which batches are occupied.
    arrivals : str
        ``poisson``: independent exponential gaps; ``trace``: times of the requests, rescaled.
    load : Fraction
        Offered load ``ρ``, see `bfio.kvcache.instance`; 0: times are taken as they are.
    seed : int
        Seed of the gaps.
    skip_oversized : bool
        Leave out and count requests that exceed the memory alone; otherwise they are an error.
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
    """Return how many requests an offer has, without drawing their times.

    Raises
    ------
    InputError
        See `offered_instance`.
    """
    return len(offered_instance(offer) if offer.arrivals == "trace" else _fitting(offer))


@lru_cache(maxsize=16)
def offered_instance(offer: Offer) -> CacheInstance:
    """Return the instance; the rate is that of all its requests together.

    The same seed gives the same gaps at every load but for their length.

    Raises
    ------
    InputError
        If a request does not fit, none is left, or one has no arrival time where it is asked for.
    """
    if offer.arrivals == "trace":
        requests = chosen_workload(offer.choice)
        own = _at(requests, offer, Fraction(1))
        if not offer.load:
            return own
        span = int(own.arrival.max(initial=0)) - int(own.arrival.min(initial=0))
        if span == 0:
            what = "all requests arrive at once"
            raise InputError("argument load", what, 'use arrivals = "poisson"')
        scale = arrival_rate(own, offer.load) * span / (len(own) - 1)
        return _at(requests, offer, scale)
    fitting = _fitting(offer)
    rng = np.random.default_rng(np.random.SeedSequence(offer.seed, spawn_key=(_STREAM,)))
    units = PUBLISHED.units_per_second
    assert units is not None
    rate = float(arrival_rate(fitting, offer.load) * units)
    times = Poisson(rate).sample(len(fitting), rng)
    # Whole microseconds are whole nanoseconds: nothing is rounded here.
    arrival = np.array([int(time * units) for time in times], dtype=np.int64)
    return replace(fitting, arrival=arrival)


def _fitting(offer: Offer) -> CacheInstance:
    """Return the requests that fit, all at 0."""
    problem, left_out = rounds_problem(
        chosen_workload(offer.choice),
        offer.memory,
        convention=offer.convention,
        leave_out_oversized=offer.skip_oversized,
    )
    if problem.num_requests == 0:
        raise InputError("argument memory", "no request fits", "raise it")
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
