"""Generate the arrivals at an engine: Poisson, evenly spaced, or from a trace."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import floor

import numpy as np

from bfio.common.memory import require_memory
from bfio.wait.policy import MAX_CLOCK, StageClock, StageInstance
from bfio.workloads.workload import Workload
from formulations.arrays import FloatArray, IntArray, integer
from formulations.errors import InputError, check_kind
from formulations.fluid import FluidProblem, FluidWorker, VaryingRates
from formulations.scalars import exact_number
from formulations.words import counted

#: Maximum number of requests of an instance.
_MAX_REQUESTS = 2 * 10**8
#: Memory per request for drawing, sorting and serving [bytes].
_REQUEST_BYTES = 160


def poisson_instance(problem: FluidProblem, duration: object, seed: int = 0) -> StageInstance:
    """Draw independent Poisson arrivals for each class over ``[0, T]``.

    Each class has its own random stream, so an additional class does not change the others. If
    rates are multiplied by ζ, and d0, d1 and T divided by ζ, the same seed gives the same requests
    at 1/ζ of the times: the scaling of theorem 1 for each sample path.

    Parameters
    ----------
    problem : FluidProblem
        Classes and one worker.
    duration : int, float, str or Fraction
        ``T > 0`` [s].
    seed : int
        Seed of all draws.

    Raises
    ------
    InputError
        If a value is invalid or there would be too many requests.
    """
    rates = _rates(problem)
    seconds, units = _horizon(problem, duration, rates)
    integer(seed, "seed")
    times = []
    for j, rate in enumerate(rates):
        rng = np.random.default_rng([seed, j])
        count = rng.poisson(float(rate * seconds))
        times.append(_rounded_up(rng.random(count) * units))
    return _of_classes(problem, times)


def even_instance(problem: FluidProblem, duration: object) -> StageInstance:
    """Return requests of class j at every ``1/λ_j`` seconds, from ``1/λ_j`` up to time T.

    Times are exact and rounded up to the clock. An error of one unit could move a request to a
    later batch.
    """
    rates = _rates(problem)
    seconds, _ = _horizon(problem, duration, rates)
    clock = StageClock.of(problem.single_worker())
    times = []
    for rate in rates:
        units, per = (clock.units_per_second / rate).as_integer_ratio()
        multiples = (-(-k * units // per) for k in range(1, floor(rate * seconds) + 1))
        times.append(np.fromiter(multiples, dtype=np.int64))
    return _of_classes(problem, times)


def varying_instance(
    problem: FluidProblem, profile: VaryingRates, duration: object, seed: int = 0
) -> StageInstance:
    """Draw Poisson arrivals whose rates vary with time, by thinning.

    Parameters
    ----------
    problem : FluidProblem
        Lengths of the classes, and one worker; the rates of the problem are not used.
    profile : VaryingRates
        Rates of these classes over time.
    duration : int, float, str or Fraction
        ``T > 0`` [s].
    seed : int
        Seed of all draws.

    Raises
    ------
    InputError
        If the profile has another number of classes, or a value is invalid.
    """
    integer(seed, "seed")
    largest = profile.largest_rates
    if len(largest) != (classes := len(_rates(problem))):
        raise InputError(
            "profile",
            f"{counted(len(largest), 'rate')} for {classes} classes",
            "give one rate per class",
        )
    seconds, units = _horizon(problem, duration, largest)
    times = []
    for j, rate in enumerate(largest):
        rng = np.random.default_rng([seed, j])
        drawn = rng.random(rng.poisson(float(rate * seconds)))
        rates = [float(profile.rates_at(t)[j]) for t in (drawn * float(seconds)).tolist()]
        kept = rng.random(len(drawn)) * float(rate) < np.array(rates)
        times.append(_rounded_up(drawn[kept] * units))
    return _of_classes(problem, times)


def workload_instance(
    workload: Workload,
    worker: FluidWorker,
    *,
    rate: object = None,
    seed: int = 0,
    rate_scale: Fraction | int = 1,
) -> StageInstance:
    """Return the requests of a workload, at their own times or at Poisson times.

    Parameters
    ----------
    workload : Workload
        Prompts and outputs; an output of o tokens takes stages 0 to o.
    worker : FluidWorker
        Batch times and memory.
    rate : int, float, str or Fraction, optional
        Rate of Poisson arrivals [1/s], which replace the times of the workload.
    seed : int
        Seed of all draws.
    rate_scale : Fraction or int
        Factor on the arrival rate of the workload.

    Raises
    ------
    InputError
        If the workload has no times, or a value is invalid.
    """
    clock = StageClock.of(worker)
    if rate is not None:
        mean = 1 / exact_number(rate, "rate", positive=True)
        rng = np.random.default_rng(integer(seed, "seed"))
        seconds = np.cumsum(rng.exponential(float(mean), len(workload)))
        _refuse_late(seconds[-1:].sum() * clock.units_per_second)
        arrival = _rounded_up(seconds * clock.units_per_second)
    else:
        times = workload.exact_arrivals("give a Poisson rate")
        scale = Fraction(rate_scale)
        if scale <= 0:
            raise InputError("rate_scale", f"{scale} is out of range", "use a number > 0")
        arrival = times.rounded_up(clock.units_per_second / scale)
        _refuse_late(max(arrival, default=0))
    return StageInstance(
        worker.memory, clock, arrival, workload.prompt_tokens, workload.output_tokens
    )


def scaled(problem: FluidProblem, factor: object) -> FluidProblem:
    """Return the problem in heavy traffic: rates times ζ, d0 and d1 divided by ζ, equal memory."""
    zeta = exact_number(factor, "factor", positive=True)
    return FluidProblem(
        tuple(replace(kind, rate=kind.rate * zeta) for kind in problem.classes),
        tuple(FluidWorker(w.d0 / zeta, w.d1 / zeta, w.memory) for w in problem.workers),
    )


def _rates(problem: FluidProblem) -> list[Fraction]:
    check_kind(problem, FluidProblem, "problem", "FluidProblem(...)")
    return [kind.rate for kind in problem.classes]


def _horizon(
    problem: FluidProblem, duration: object, rates: Sequence[Fraction]
) -> tuple[Fraction, float]:
    """Return the duration in seconds and in clock units; check the expected number of arrivals."""
    seconds = exact_number(duration, "horizon", positive=True)
    units = seconds * StageClock.of(problem.single_worker()).units_per_second
    if units >= MAX_CLOCK:
        raise InputError("horizon", "is too long for the clock", "use a shorter duration")
    most = seconds * sum(rates)
    size = f"about {float(most):.3g} requests"
    if most > _MAX_REQUESTS:
        remedy = f"use a shorter time: at most {_MAX_REQUESTS:.0e} requests are possible"
        raise InputError("horizon", f"{size} would arrive", remedy)
    require_memory(_REQUEST_BYTES * floor(most), "horizon", size, "shorten the duration")
    return seconds, float(units)


def _of_classes(problem: FluidProblem, times: Sequence[IntArray]) -> StageInstance:
    """Return the instance of all classes, given their arrival times [clock units]."""
    worker = problem.single_worker()
    arrival = np.concatenate(times)
    kind = np.repeat(np.arange(len(times)), [len(own) for own in times])
    # Ties are broken by class; the order within a class does not matter.
    order = np.lexsort((kind, arrival))
    prompt = np.array([k.prompt for k in problem.classes], dtype=np.int64)
    output = np.array([k.output for k in problem.classes], dtype=np.int64)
    return StageInstance(
        worker.memory,
        StageClock.of(worker),
        arrival[order],
        prompt[kind[order]],
        output[kind[order]],
    )


def _rounded_up(units: FloatArray) -> IntArray:
    return np.ceil(units).astype(np.int64)


def _refuse_late(units: float) -> None:
    if units >= MAX_CLOCK:
        raise InputError(
            "arrivals", "the last arrival is too late for the clock", "raise the rate"
        )
