"""Build the arrivals at an engine whose requests pass stages: classes of a file, or a trace."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import numpy as np

from bfio.common.options import (
    FLAG,
    POSITIVE,
    RATIONAL,
    TEXT,
    CheckedOptions,
    checked,
    from_mapping,
    names_of,
    one_of,
    option,
    whole,
)
from bfio.studies.row import RowContext
from bfio.studies.row_parts.arguments import MAX_WHOLE, Arguments, generator, refused
from bfio.studies.row_parts.workload_arguments import (
    WorkloadChoice,
    chosen_workload,
    request_facts,
    workload_choice,
)
from bfio.wait.arrivals import even_instance, poisson_instance, scaled, workload_instance
from bfio.wait.policy import StageClock, StageInstance
from bfio.workloads.generators import resample
from bfio.workloads.workload import Workload, training_share
from formulations.arrays import IntArray
from formulations.errors import InputError, naming
from formulations.fluid import FluidProblem, FluidWorker, RequestClass, work_rate
from formulations.scalars import MAX_TOKENS, exact_number
from formulations.thresholds.problem import prompt_groups

_EXACT = checked(RATIONAL, exact_number)


@dataclass(frozen=True)
class ClassOptions(CheckedOptions):
    """Arguments of the class file, the worker, and the spread of outputs within a class.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    fluid: str | None = option(
        None, TEXT, "FILE", "the file, relative to the study's `data` folder"
    )
    d0: Fraction | None = option(None, POSITIVE, "S", "replaces the value in the file [s]")
    d1: Fraction | None = option(None, _EXACT, "S", "replaces the value in the file [s]")
    memory: int | None = option(
        None, whole(1, MAX_TOKENS), "C", "replaces the value in the file [tokens]"
    )
    spread: str | None = option(
        None,
        TEXT,
        "HOW",
        "`none`; `classes`: a class is a bin with outputs uniform on l'_{j−1}+1 .. l'_j; "
        "`requests` (`wait` only): the same, but the policy knows the bins only",
    )

    def worker(self, default: FluidWorker | None = None) -> FluidWorker:
        """Return the worker given by ``d0``, ``d1`` and ``memory``.

        Parameters
        ----------
        default : FluidWorker, optional
            Values for the arguments that are not given. Without it all three are required.

        Raises
        ------
        InputError
            If a value is missing.
        """
        values = {}
        for name in ("d0", "d1", "memory"):
            value = getattr(self, name)
            if value is None and default is None:
                what = "add it, as a trace does not define the worker"
                raise refused(name, "missing", what)
            values[name] = getattr(default, name) if value is None else value
        return FluidWorker(**values)


def fluid_of(options: ClassOptions, context: RowContext) -> FluidProblem:
    """Read the class file and replace its worker by the given options.

    Raises
    ------
    InputError
        If the file cannot be read, has several workers, or a value breaks its rule.
    """
    if options.fluid is None:
        raise refused("fluid", "missing", "name an input file of bfio fluid")
    with naming(options.fluid):
        found = FluidProblem.from_json(_text(context.folder / options.fluid))
        worker = found.single_worker()
    return replace(found, workers=(options.worker(worker),))


@dataclass(frozen=True)
class WantedRate(CheckedOptions):
    """The target of the arrival rates; without load and rate, rates stay unchanged.

    The *load* is the work rate A divided by ``K = C/(d0 + d1·C)``. At load 1 the equilibrium of
    all arriving requests just fits the memory. With finite memory this load is below ``d1·A = 1``.

    Parameters
    ----------
    load : Fraction, optional
        Total load of all classes.
    rate : Fraction, optional
        Total rate of all classes [1/s].

    Raises
    ------
    InputError
        If both are given or one is 0.
    """

    load: Fraction | None = option(
        None, POSITIVE, "LOAD", "total load; all rates are multiplied by a common factor"
    )
    rate: Fraction | None = option(
        None,
        POSITIVE,
        "R",
        "total arrival rate [1/s]; all rates are multiplied by a common factor",
    )

    def __post_init__(self) -> None:
        """Validate, and convert numbers to exact fractions."""
        if self.load is not None and self.rate is not None:
            raise InputError("load", "rate is given as well", "remove one of the two")
        super().__post_init__()

    def factor(self, rate: Fraction, load: Fraction) -> Fraction:
        """Return the factor that brings rates of this total rate and load to the target."""
        if self.load is not None:
            return self.load / load
        return Fraction(1) if self.rate is None else self.rate / rate

    def met_by(self, offered: FluidProblem) -> Fraction:
        """Return the factor that brings the rates of the arriving classes to the target."""
        return self.factor(total_rate(offered), offered_load(offered))


CLASS_ARGUMENTS = names_of(ClassOptions, WantedRate)


def offered_load(problem: FluidProblem) -> Fraction:
    """Return ``A/K`` of one worker, see `WantedRate`."""
    return work_rate(problem.classes) / problem.single_worker().capacity


def total_rate(problem: FluidProblem) -> Fraction:
    """Return the rate of all classes together [1/s]."""
    return sum((kind.rate for kind in problem.classes), Fraction(0))


def multiplied(problem: FluidProblem, factor: Fraction) -> FluidProblem:
    """Return the problem with all rates multiplied by a factor."""
    classes = (replace(kind, rate=kind.rate * factor) for kind in problem.classes)
    return replace(problem, classes=tuple(classes))


def spread(problem: FluidProblem) -> FluidProblem:
    """Replace each class by a bin: outputs of bin j are uniform on ``l'_{j−1} + 1 .. l'_j``.

    The bins of each prompt length cover the outputs from 1 on without gaps. A first class without
    output stays unchanged.

    Raises
    ------
    InputError
        If outputs of equal prompts do not increase.
    """
    classes = []
    for group in prompt_groups(problem.classes):
        starts = (0, *group.outputs)
        for start, end, rate in zip(starts, group.outputs, group.rates, strict=False):
            outputs = range(min(start + 1, end), end + 1)
            classes += [RequestClass(rate / len(outputs), group.prompt, o) for o in outputs]
    return replace(problem, classes=tuple(classes))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError("file", f"cannot be read ({error.strerror})", "check its name") from None
    except UnicodeDecodeError:
        raise InputError("file", "not UTF-8 text", "give a JSON text file") from None


_OF_THE_FILE = ("trace", "columns", "skip_bad_rows")
#: Separates the random stream that draws requests from the stream of arrival times.
_STREAM = 0x77616974


@dataclass(frozen=True)
class TraceSplit(CheckedOptions):
    """Arguments that split a trace into training requests and served requests.

    Parameters
    ----------
    choice : WorkloadChoice
        The trace and how it is read.
    memory : int
        Memory of the worker [tokens]. A request that needs more even when alone is oversized.
    training : Fraction
        Share of the requests, from the first on, used to build the bins, in (0, 1).
    bins : int
        Largest number of bins. A bin without a training request is merged into the next one.
    binning : str
        What is equal for all bins: ``width``, or the ``count`` of training requests.
    skip_oversized : bool
        Whether to leave out oversized requests. Otherwise they are an error.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    choice: WorkloadChoice
    memory: int
    training: Fraction = option(
        Fraction(1, 2),
        checked(RATIONAL, training_share),
        "SHARE",
        "share of the requests used to build the bins, from the first (default 1/2)",
    )
    bins: int = option(
        10,
        whole(1, 1000),
        "N",
        "number of output bins (default 10); empty ones are merged into the next",
    )
    binning: str = option(
        "width",
        one_of("width", "count"),
        "HOW",
        "of equal `width` (default), or of an equal `count` of training requests",
    )
    skip_oversized: bool = option(
        False,
        FLAG,
        "",
        "leave out and count requests that alone exceed the memory (default: error)",
    )


TRACE_ARGUMENTS = (*_OF_THE_FILE, *names_of(TraceSplit), "requests")


@dataclass(frozen=True)
class TraceParts:
    """A trace split into bins and served requests.

    Parameters
    ----------
    bins : tuple of RequestClass
        The bins that the policy knows. Their rates are shares and add up to 1.
    rest : Workload
        The requests after the training part. Times count from the first of them.
    kinds : tuple of RequestClass
        The distinct pairs of lengths among these requests, each with its share.
    left_out : int
        Number of oversized requests in the whole trace.
    """

    bins: tuple[RequestClass, ...]
    rest: Workload
    kinds: tuple[RequestClass, ...]
    left_out: int


def split_of(given: Arguments, memory: int, context: RowContext) -> TraceSplit:
    """Read the arguments that choose and split a trace.

    Raises
    ------
    InputError
        If one is out of range.
    """
    file = {name: given.given[name] for name in _OF_THE_FILE if given.has(name)}
    choice = workload_choice(Arguments(file, _OF_THE_FILE), 1, context)
    return from_mapping(TraceSplit, given.given, choice=choice, memory=memory)


@lru_cache(maxsize=16)
def trace_parts(split: TraceSplit) -> TraceParts:
    """Split a trace into bins, built from the training requests, and served requests.

    Raises
    ------
    InputError
        If a request is oversized and may not be left out, or a part is empty.
    """
    training, rest, kinds, left_out = _halves(without_bins(split))
    outputs = training.output_tokens
    longest = int(max(outputs.max(), rest.output_tokens.max()))
    ends = bin_ends(outputs, split.bins, split.binning, longest)
    prompt = -(-int(training.prompt_tokens.sum()) // len(training))
    inside = np.bincount(np.searchsorted(ends, outputs), minlength=len(ends)).tolist()
    bins = tuple(
        RequestClass(Fraction(number, len(training)), prompt, end)
        for number, end in zip(inside, ends, strict=True)
    )
    return TraceParts(bins, rest, kinds, left_out)


def without_bins(split: TraceSplit) -> TraceSplit:
    """Return the split without its bins, equal for splits that differ only in bins."""
    return replace(split, bins=1, binning="width")


# Exact fractions over thousands of distinct requests are slow, and many rows share them.
@lru_cache(maxsize=16)
def _halves(split: TraceSplit) -> tuple[Workload, Workload, tuple[RequestClass, ...], int]:
    whole = chosen_workload(split.choice)
    fitting = whole.prompt_tokens + whole.output_tokens <= split.memory
    left_out = int(np.count_nonzero(~fitting))
    if left_out and not split.skip_oversized:
        what = f"{left_out} of {len(whole)} requests do not fit alone"
        raise refused("memory", what, "raise the memory, or write skip_oversized = true")
    kept = whole.part(fitting)
    first = int(split.training * len(kept))
    if not 0 < first < len(kept):
        what = f"{first} of {len(kept)} requests are training requests; each part needs requests"
        raise refused("training", what, "change training, or use a longer trace")
    indices = np.arange(len(kept))
    training, rest = kept.part(indices < first), kept.part(indices >= first)
    pairs = zip(rest.prompt_tokens.tolist(), rest.output_tokens.tolist(), strict=True)
    kinds = tuple(
        RequestClass(Fraction(number, len(rest)), prompt, output)
        for (prompt, output), number in sorted(Counter(pairs).items())
    )
    return training, rest, kinds, left_out


def drawn(rest: Workload, count: int | None, seed: int) -> Workload:
    """Return ``count`` requests drawn with replacement; all in their order if it is None."""
    if count is None:
        return rest
    return resample(rest, count, rng=generator(seed, _STREAM))


def bin_ends(outputs: IntArray, count: int, binning: str, longest: int) -> tuple[int, ...]:
    """Return the largest output of each bin; every bin contains a training output.

    Parameters
    ----------
    outputs : IntArray
        Shape (n,), outputs of the training requests [tokens].
    count : int
        Number of bins wanted. There are fewer if some would be empty or equal.
    binning : str
        See `TraceSplit`.
    longest : int
        Largest output of the last bin [tokens].
    """
    steps = np.arange(1, count + 1)
    if binning == "width":
        ends = -(-longest * steps // count)
    else:
        ends = np.sort(outputs)[-(-len(outputs) * steps // count) - 1]
    ends = np.unique(ends)
    # A bin (previous end, end] is kept if a training request lies in it.
    upto = np.searchsorted(np.sort(outputs), ends, side="right")
    kept = ends[np.diff(upto, prepend=0) > 0]
    return (*kept[:-1].tolist(), longest)


@dataclass(frozen=True)
class OfferOptions(CheckedOptions):
    """Arguments of the arrival process, scaling and seed.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    arrivals: str = option(
        "poisson",
        TEXT,
        "MODE",
        "`poisson` (default); `even`: class j every 1/λ_j seconds; with a trace `poisson` or "
        "`trace`, its own times at one pace",
    )
    requests: int | None = option(
        None,
        whole(1, 10**7),
        "N",
        "with a trace: number of requests drawn with replacement from those after the training "
        "part; by default these in order",
    )
    scale: Fraction = option(
        Fraction(1),
        POSITIVE,
        "ZETA",
        "ζ: rates are multiplied, d0 and d1 divided by ζ (default 1)",
    )
    seed: int = option(
        0,
        whole(0, MAX_WHOLE),
        "N",
        "seed of arrivals and of drawn requests, two independent random streams",
    )


OFFER_ARGUMENTS = (*CLASS_ARGUMENTS, *TRACE_ARGUMENTS, *names_of(OfferOptions))


@dataclass(frozen=True)
class StageOffer:
    """The arriving requests, and the request classes that a policy is given.

    Parameters
    ----------
    known : FluidProblem
        The classes that the policy knows, at the offered rates.
    offered : callable
        Returns the classes that arrive. They differ from ``known`` if outputs are spread or come
        from a trace.
    scale : Fraction
        ``ζ``: in both problems rates are multiplied by ζ, and d0 and d1 divided by ζ.
    left_out : int
        Number of requests of a trace that exceed the memory even when alone.
    digest : str
        Digest of the data behind the arguments.
    draw : callable
        Draws the requests.
    samples : callable
        Returns requests of all lengths that may arrive, all at time 0, to check policies with.
    """

    known: FluidProblem
    offered: Callable[[], FluidProblem]
    scale: Fraction
    left_out: int
    digest: str
    draw: Callable[[], StageInstance]
    samples: Callable[[], StageInstance]


def stage_offer(given: Arguments, context: RowContext) -> StageOffer:
    """Build the arriving requests from the arguments of a row.

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
            raise refused(name, "it needs a trace", "remove it, or give a trace")
    return _of_classes(given, context)


def probability_of(given: Arguments) -> Fraction | None:
    """Return ``δ``, the allowed probability of ever exceeding the memory; None if not given."""
    probability = given.exact("probability")
    if probability is not None and not 0 < probability < 1:
        what = f"{probability} is out of range"
        raise refused("probability", what, "use 0 < p < 1")
    return probability


def needed_horizon(given: Arguments, remedy: str) -> Fraction:
    """Return the end of the observation [s], a required argument."""
    duration = given.exact("horizon_s", positive=True)
    if duration is None:
        raise refused("horizon_s", "missing", remedy)
    return duration


def _of_classes(given: Arguments, context: RowContext) -> StageOffer:
    classes = from_mapping(ClassOptions, given.given)
    arrival = from_mapping(OfferOptions, given.given)
    file = fluid_of(classes, context)
    duration = needed_horizon(given, "give the time during which requests arrive [s]")
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


# Many rows and their policies share these problems.
@lru_cache(maxsize=256)
def _class_problems(
    file: FluidProblem, what: str, wanted: WantedRate, scale: Fraction
) -> tuple[FluidProblem, FluidProblem]:
    """Return the problem given to the policy and the problem that arrives, at the wanted rates."""
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
        raise refused("spread", "output lengths are those of the trace", "remove it")
    worker = classes.worker()
    split = split_of(given, worker.memory, context)
    parts = trace_parts(split)
    is_drawn = given.choice("arrivals", ("poisson", "trace")) == "poisson"
    is_own = wanted == WantedRate()
    if is_drawn and is_own:
        raise refused("load", "missing", 'give load or rate, or arrivals = "trace"')
    # Shares add up to a rate of 1. A trace that keeps its own pace has its own rate.
    load = _mean_work(without_bins(split)) / worker.capacity
    factor = own_rate(parts.rest) if is_own else wanted.factor(Fraction(1), load)
    known = scaled(multiplied(FluidProblem(parts.bins, (worker,)), factor), arrival.scale)
    if arrival.requests is not None and not is_drawn:
        raise refused("requests", "drawn requests have no arrival times", 'use "poisson"')
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
        digest=request_facts(split.choice).digest,
        draw=draw,
        samples=lambda: _rest_at_once(without_bins(split), engine),
    )


# Exact fractions over thousands of distinct requests are slow, and many rows share them.
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
    """Return the mean arrival rate of a workload's own arrival times [1/s].

    Raises
    ------
    InputError
        If the requests have no arrival times, or all arrive at once.
    """
    if rest.arrival_times is None:
        raise refused("arrivals", "the requests have no arrival times", 'use "poisson"')
    if not rest.arrival_times[-1]:
        raise refused("arrivals", "all requests arrive at once", 'use "poisson"')
    return (len(rest) - 1) / rest.arrival_times[-1]
