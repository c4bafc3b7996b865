"""Requests that arrive at an engine: drawn for classes, evenly spaced, or those of a trace."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import floor

import numpy as np

from bfio.common.memory import require_memory
from bfio.wait.instance import MAX_CLOCK, StageClock, StageInstance
from bfio.workloads.workload import Workload
from formulations.arrays import FloatArray, IntArray, integer
from formulations.errors import InputError
from formulations.fluid import FluidProblem, FluidWorker, VaryingRates
from formulations.rationals import exact_number

#: Most requests that are drawn in one go.
_MAX_REQUESTS = 2 * 10**8
#: Memory of a request while it is drawn, sorted and served [bytes].
_REQUEST_BYTES = 160


def poisson_instance(problem: FluidProblem, duration: object, seed: int = 0) -> StageInstance:
    """Draw independent Poisson arrivals for each class over ``[0, T]``.

    Class j draws from a stream of its own, so that one more class does not change the others.
    With rates times ζ, times d0, d1 and T over ζ, and the same seed, the same requests come at
    1/ζ of the time: the scaling of theorem 1, path by path.

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
        If a value breaks its rule or there would be too many requests.
    """
    seconds = exact_number(duration, "horizon", positive=True)
    integer(seed, "seed")
    units = _units(problem, seconds)
    times = []
    _refuse_too_many(seconds * sum(kind.rate for kind in problem.classes))
    for j, kind in enumerate(problem.classes):
        expected = kind.rate * seconds
        rng = np.random.default_rng([seed, j])
        count = rng.poisson(float(expected))
        times.append(_rounded_up(rng.random(count) * units))
    return _of_classes(problem, times)


def even_instance(problem: FluidProblem, duration: object) -> StageInstance:
    """Let each class arrive every ``1/λ_j`` seconds, first after one such time, up to T.

    Times are exact, rounded up to the clock: a unit late could make a batch miss them.
    """
    seconds = exact_number(duration, "horizon", positive=True)
    _units(problem, seconds)
    clock = StageClock.of(problem.single_worker())
    times = []
    _refuse_too_many(seconds * sum(kind.rate for kind in problem.classes))
    for kind in problem.classes:
        expected = kind.rate * seconds
        units, per = (clock.units_per_second / kind.rate).as_integer_ratio()
        multiples = (-(-k * units // per) for k in range(1, floor(expected) + 1))
        times.append(np.fromiter(multiples, dtype=np.int64))
    return _of_classes(problem, times)


def varying_instance(
    problem: FluidProblem, profile: VaryingRates, duration: object, seed: int = 0
) -> StageInstance:
    """Draw Poisson arrivals whose rates vary with time, by thinning.

    Parameters
    ----------
    problem : FluidProblem
        Lengths of the classes and one worker; its rates are not used.
    profile : VaryingRates
        Rates of these classes over time.
    duration : int, float, str or Fraction
        ``T > 0`` [s].
    seed : int
        Seed of all draws.

    Raises
    ------
    InputError
        If the profile has another number of classes, or a value breaks its rule.
    """
    seconds = exact_number(duration, "horizon", positive=True)
    integer(seed, "seed")
    largest = profile.largest_rates
    if len(largest) != len(problem.classes):
        raise InputError(
            "profile", f"{len(largest)} classes for {len(problem.classes)}", "give one for each"
        )
    units = _units(problem, seconds)
    times = []
    _refuse_too_many(seconds * sum(largest))
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
        Times and memory.
    rate : int, float, str or Fraction, optional
        Draw Poisson times of this rate [1/s] instead of the workload's own.
    seed : int
        Seed of the draws.
    rate_scale : Fraction or int
        Multiplies the rate of the workload's own times.

    Raises
    ------
    InputError
        If the workload has no times, or a value breaks its rule.
    """
    clock = StageClock.of(worker)
    if rate is not None:
        mean = 1 / exact_number(rate, "rate", positive=True)
        rng = np.random.default_rng(integer(seed, "seed"))
        seconds = np.cumsum(rng.exponential(float(mean), len(workload)))
        _refuse_late(seconds[-1:].sum() * clock.units_per_second)
        arrival = _rounded_up(seconds * clock.units_per_second)
    else:
        times = workload.exact_arrivals("give a rate")
        scale = Fraction(rate_scale)
        if scale <= 0:
            raise InputError("rate_scale", f"{scale} is out of range", "use a number > 0")
        arrival = times.rounded_up(clock.units_per_second / scale)
        _refuse_late(max(arrival, default=0))
    return StageInstance(
        worker.memory, clock, arrival, workload.prompt_tokens, workload.output_tokens
    )


def scaled(problem: FluidProblem, factor: object) -> FluidProblem:
    """Return the problem in heavy traffic: rates times ζ, times d0 and d1 over ζ, same memory."""
    zeta = exact_number(factor, "factor", positive=True)
    return FluidProblem(
        tuple(replace(kind, rate=kind.rate * zeta) for kind in problem.classes),
        tuple(FluidWorker(w.d0 / zeta, w.d1 / zeta, w.memory) for w in problem.workers),
    )


def _units(problem: FluidProblem, seconds: Fraction) -> float:
    """Return the duration [clock units]."""
    units = seconds * StageClock.of(problem.single_worker()).units_per_second
    if units >= MAX_CLOCK:
        raise InputError("horizon", "too long for the clock", "use a shorter one")
    return float(units)


def _of_classes(problem: FluidProblem, times: Sequence[IntArray]) -> StageInstance:
    """Return the instance of all classes, given the clock values at which each arrives."""
    worker = problem.single_worker()
    arrival = np.concatenate(times)
    kind = np.repeat(np.arange(len(times)), [len(own) for own in times])
    # Among equal times the lower class comes first; within a class order means nothing.
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
        raise InputError("arrivals", "the last is too late for the clock", "raise the rate")


def _refuse_too_many(expected: Fraction | int) -> None:
    if expected > _MAX_REQUESTS:
        raise InputError(
            "horizon",
            f"about {float(expected):.3g} requests",
            f"shorten it: {_MAX_REQUESTS:.0e} are the most",
        )
    size = f"about {float(expected):.3g} requests"
    require_memory(_REQUEST_BYTES * floor(expected), "horizon", size, "shorten it")
