"""What arrives at the engine of a row: classes of a file at drawn or even times, or a trace."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from bfio.common.options import (
    POSITIVE,
    TEXT,
    CheckedOptions,
    from_mapping,
    names_of,
    option,
    whole,
)
from bfio.studies.row import RowContext
from bfio.studies.row_parts.arguments import MAX_WHOLE, Arguments
from bfio.studies.row_parts.wait_classes import (
    CLASS_ARGUMENTS,
    ClassOptions,
    WantedRate,
    fluid_of,
    multiplied,
    spread,
)
from bfio.studies.row_parts.wait_trace import (
    TRACE_ARGUMENTS,
    TraceSplit,
    drawn,
    split_of,
    trace_digest,
    trace_parts,
    without_bins,
)
from bfio.wait.arrivals import even_instance, poisson_instance, scaled, workload_instance
from bfio.wait.instance import StageClock, StageInstance
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray
from formulations.errors import InputError
from formulations.fluid import FluidProblem, FluidWorker, work_rate


@dataclass(frozen=True)
class OfferOptions(CheckedOptions):
    """How requests arrive.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    arrivals: str = option(
        "poisson",
        TEXT,
        "MODE",
        "`poisson` (default); `even`: class j every 1/λ_j seconds; of a trace `poisson` or "
        "`trace`, its own times at one pace",
    )
    requests: int | None = option(
        None,
        whole(1, 10**7),
        "N",
        "of a trace: how many are drawn with replacement from the rest; without it all, in their "
        "order",
    )
    scale: Fraction = option(
        Fraction(1), POSITIVE, "ZETA", "ζ: rates times ζ, d0 and d1 over ζ (1)"
    )
    seed: int = option(
        0,
        whole(0, MAX_WHOLE),
        "N",
        "of arrivals and of drawn requests; two streams that do not touch",
    )


OFFER_ARGUMENTS = (*CLASS_ARGUMENTS, *TRACE_ARGUMENTS, *names_of(OfferOptions))


@dataclass(frozen=True)
class StageOffer:
    """What arrives, and what a policy may know of it.

    Parameters
    ----------
    known : FluidProblem
        The classes a policy knows, at the rates that are offered.
    offered : callable
        Returns the classes that arrive; the same unless outputs are spread or those of a trace.
    scale : Fraction
        ``ζ``: both have rates times ζ, and d0 and d1 over ζ.
    left_out : int
        Requests of a trace that exceed the memory alone.
    digest : str
        Tells the data behind the arguments apart from others.
    draw : callable
        Returns the requests.
    samples : callable
        Returns requests of all lengths that may arrive, all at 0, for checks of policies.
    """

    known: FluidProblem
    offered: Callable[[], FluidProblem]
    scale: Fraction
    left_out: int
    digest: str
    draw: Callable[[], StageInstance]
    samples: Callable[[], StageInstance]


def stage_offer(given: Arguments, context: RowContext) -> StageOffer:
    """Read the arguments that say what arrives.

    Raises
    ------
    InputError
        If they are contradictory, incomplete or out of range.
    """
    given.exclude("fluid", "trace")
    if given.has("trace"):
        return _of_trace(given, context)
    for name in TRACE_ARGUMENTS:
        if given.has(name):
            raise InputError(f"argument {name}", "it needs a trace", "remove it, or give a trace")
    return _of_classes(given, context)


def probability_of(given: Arguments) -> Fraction | None:
    """Return ``δ``, the chance to exceed a memory once; None if it is not given."""
    probability = given.exact("probability")
    if probability is not None and not 0 < probability < 1:
        what = f"{probability} is out of range"
        raise InputError("argument probability", what, "use 0 < p < 1")
    return probability


def needed_horizon(given: Arguments, remedy: str) -> Fraction:
    """Return the end of the observation [s], which must be given."""
    duration = given.exact("horizon_s", positive=True)
    if duration is None:
        raise InputError("argument horizon_s", "missing", remedy)
    return duration


def _of_classes(given: Arguments, context: RowContext) -> StageOffer:
    classes = from_mapping(ClassOptions, given.given)
    arrival = from_mapping(OfferOptions, given.given)
    file = fluid_of(classes, context)
    duration = needed_horizon(given, "say how long classes arrive")
    what = given.choice("spread", ("none", "requests", "classes"))
    wanted = from_mapping(WantedRate, given.given)
    known, offered = _class_problems(file, what, wanted, arrival.scale)
    is_even = given.choice("arrivals", ("poisson", "even")) == "even"

    def draw() -> StageInstance:
        if is_even:
            return even_instance(offered, duration)
        return poisson_instance(offered, duration, arrival.seed)

    lengths = np.array([(kind.prompt, kind.output) for kind in offered.classes]).T
    return StageOffer(
        known=known,
        offered=lambda: offered,
        scale=arrival.scale,
        left_out=0,
        digest=json.dumps(file.to_mapping()),
        draw=draw,
        samples=lambda: _at_once(offered.single_worker(), *lengths),
    )


# Many rows share these, and their policies.
@lru_cache(maxsize=256)
def _class_problems(
    file: FluidProblem, what: str, wanted: WantedRate, scale: Fraction
) -> tuple[FluidProblem, FluidProblem]:
    """Return what is known and what is offered, at the rates that are wanted."""
    offered = file if what == "none" else spread(file)
    known = offered if what == "classes" else file
    factor = wanted.met_by(offered)
    known, offered = (scaled(multiplied(p, factor), scale) for p in (known, offered))
    return known, offered


def _of_trace(given: Arguments, context: RowContext) -> StageOffer:
    classes = from_mapping(ClassOptions, given.given)
    wanted = from_mapping(WantedRate, given.given)
    arrival = from_mapping(OfferOptions, given.given)
    if classes.spread is not None:
        raise InputError("argument spread", "a trace has lengths of its own", "remove it")
    worker = classes.worker()
    split = split_of(given, worker.memory, context)
    parts = trace_parts(split)
    is_drawn = given.choice("arrivals", ("poisson", "trace")) == "poisson"
    is_own = wanted == WantedRate()
    if is_drawn and is_own:
        raise InputError("argument load", "missing", 'give load or rate, or arrivals = "trace"')
    # Shares add up to a rate of 1; a trace that keeps its pace has its own.
    load = _mean_work(without_bins(split)) / worker.capacity
    factor = own_rate(parts.rest) if is_own else wanted.factor(Fraction(1), load)
    known = scaled(multiplied(FluidProblem(parts.bins, (worker,)), factor), arrival.scale)
    if arrival.requests is not None and not is_drawn:
        raise InputError("argument requests", "drawn ones have no times", 'use "poisson"')
    own = Fraction(1) if is_drawn else own_rate(parts.rest)
    scale, seed, engine = arrival.scale, arrival.seed, known.single_worker()
    rate = factor * scale

    def draw() -> StageInstance:
        requests = drawn(parts.rest, arrival.requests, seed)
        if is_drawn:
            return workload_instance(requests, engine, rate=rate, seed=seed)
        return workload_instance(requests, engine, rate_scale=rate / own)

    return StageOffer(
        known=known,
        offered=lambda: _rest_problem(without_bins(split), worker, factor, scale),
        scale=scale,
        left_out=parts.left_out,
        digest=trace_digest(split),
        draw=draw,
        samples=lambda: _rest_at_once(without_bins(split), engine),
    )


# Fractions of thousands of different requests are slow, and many rows share them.
@lru_cache(maxsize=16)
def _mean_work(split: TraceSplit) -> Fraction:
    return work_rate(trace_parts(split).kinds)


@lru_cache(maxsize=64)
def _rest_problem(
    split: TraceSplit, worker: FluidWorker, factor: Fraction, scale: Fraction
) -> FluidProblem:
    problem = FluidProblem(trace_parts(split).kinds, (worker,))
    return scaled(multiplied(problem, factor), scale)


@lru_cache(maxsize=64)
def _rest_at_once(split: TraceSplit, worker: FluidWorker) -> StageInstance:
    rest = trace_parts(split).rest
    return _at_once(worker, rest.prompt_tokens, rest.output_tokens)


def _at_once(worker: FluidWorker, prompt: IntArray, output: IntArray) -> StageInstance:
    arrival = np.zeros(len(prompt), dtype=np.int64)
    return StageInstance(worker.memory, StageClock.of(worker), arrival, prompt, output)


def own_rate(rest: Workload) -> Fraction:
    """Return the mean rate of a workload's own times [1/s].

    Raises
    ------
    InputError
        If it has none.
    """
    if rest.arrival_times is None:
        raise InputError(
            "argument arrivals", "the requests have no arrival times", 'use "poisson"'
        )
    if not rest.arrival_times[-1]:
        raise InputError("argument arrivals", "all requests arrive at once", 'use "poisson"')
    return (len(rest) - 1) / rest.arrival_times[-1]
