"""Draw workloads from distributions of lengths and arrivals, or from another workload.

Distributions may be written as text, such as ``lognormal:median=800:sigma=1.1:maximum=32768``.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from bfio.common.memory import require_memory
from bfio.common.options import NUMBER, WHOLE, OptionKind, read_texts, split_options
from bfio.workloads.arrivals import (
    ArrivalProcess,
    Diurnal,
    GammaRenewal,
    MarkovModulated,
    OnOff,
    Poisson,
    Surges,
)
from bfio.workloads.lengths import (
    Geometric,
    Homogeneous,
    LengthDistribution,
    Lognormal,
    Uniform,
    source,
)
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray, frozen, integer
from formulations.errors import InputError, check_kind, check_known
from formulations.problem_data import shown

#: Memory per request for drawing and checking, including its arrival time [bytes].
_REQUEST_BYTES = 200

#: Number of the random stream for arrival times drawn for given requests.
_ARRIVAL_STREAM = 0x6172726976616C

_PROCESS = "Poisson(rate=300)"


def generate(
    num_requests: int,
    prompts: LengthDistribution,
    outputs: LengthDistribution,
    arrivals: ArrivalProcess | None = None,
    *,
    rng: np.random.Generator,
    name: str = "generated",
) -> Workload:
    """Draw independent prompts, outputs and arrival times, in this order.

    Lengths are drawn first, so that the same seed gives the same requests for any arrivals.

    Parameters
    ----------
    num_requests : int
        Number of requests, >= 1.
    prompts, outputs : LengthDistribution
        Laws of ``s_i`` and ``o_i`` [tokens].
    arrivals : ArrivalProcess, optional
        Process of the arrival times; without it the workload has none.
    rng : numpy.random.Generator
        Source of all randomness.
    name : str
        Name of the workload.
    """
    _check_draw(num_requests, rng, arrivals)
    _check_law(prompts, "prompts", "Geometric(mean=200)")
    _check_law(outputs, "outputs", "Geometric(mean=200)")
    prompt_tokens = prompts.sample(num_requests, rng)
    output_tokens = outputs.sample(num_requests, rng)
    return Workload(
        prompt_tokens,
        output_tokens,
        None if arrivals is None else arrivals.sample(num_requests, rng),
        name,
        {
            "generator": "generate",
            "prompts": prompts.label,
            "outputs": outputs.label,
            "arrivals": None if arrivals is None else arrivals.label,
        },
    )


def resample(
    workload: Workload,
    num_requests: int,
    arrivals: ArrivalProcess | None = None,
    *,
    rng: np.random.Generator,
) -> Workload:
    """Draw requests of ``workload`` with replacement, keeping each prompt with its output.

    Unlike two `Empirical` laws this preserves the dependence between prompt and output. Arrival
    times come from ``arrivals``; those of ``workload`` are not used. Prompt keys are dropped,
    because for a request drawn twice a predictor would know its exact length from the first draw.
    The history is kept.
    """
    check_kind(workload, Workload, "workload", "resample(workload, num_requests)")
    _check_draw(num_requests, rng, arrivals)
    _refuse_empty(workload)
    chosen = rng.integers(len(workload), size=num_requests)
    return Workload(
        workload.prompt_tokens[chosen],
        workload.output_tokens[chosen],
        None if arrivals is None else arrivals.sample(num_requests, rng),
        f"{workload.name} (resampled)",
        {
            "generator": "resample",
            "arrivals": None if arrivals is None else arrivals.label,
            "source": dict(workload.provenance),
        },
        history=workload.history,
    )


def with_arrivals(workload: Workload, arrivals: ArrivalProcess, seed: int) -> Workload:
    """Return a workload with newly drawn arrival times and unchanged requests."""
    check_kind(workload, Workload, "workload", "with_arrivals(workload, arrivals, seed)")
    sequence = np.random.SeedSequence(integer(seed, "seed"), spawn_key=(_ARRIVAL_STREAM,))
    rng = np.random.default_rng(sequence)
    _check_law(arrivals, "arrivals", _PROCESS)
    return replace(
        workload,
        arrival_times=arrivals.sample(len(workload), rng),
        provenance={**workload.provenance, "arrival_law": arrivals.label},
    )


def with_shuffled_outputs(workload: Workload, rng: np.random.Generator) -> Workload:
    """Return a workload with permuted outputs, independent of prompts and arrival times."""
    return replace(
        workload,
        output_tokens=rng.permutation(workload.output_tokens),
        name=f"{workload.name} (outputs shuffled)",
    )


def _check_law(law: object, where: str, form: str) -> None:
    """Refuse an argument that draws nothing, such as the text of a law."""
    if isinstance(law, type) or not callable(getattr(law, "sample", None)):
        raise InputError(where, f"{shown(law)} is not a law", f"write a law such as {form}")


def _check_draw(
    num_requests: int, rng: np.random.Generator, arrivals: ArrivalProcess | None
) -> None:
    source(rng)
    if arrivals is not None:
        _check_law(arrivals, "arrivals", _PROCESS)
    integer(num_requests, "num_requests", minimum=1)
    what, needed = f"{num_requests:,} requests", _REQUEST_BYTES * num_requests
    require_memory(needed, "requests", what, "draw fewer requests")


def _refuse_empty(workload: Workload) -> None:
    if len(workload) == 0:
        what = "the workload has no requests"
        raise InputError(workload.name, what, "give a non-empty workload")


def rescaled_outputs(outputs: IntArray, mean: int) -> IntArray:
    """Return output lengths scaled to a mean and rounded to integers.

    ``o' = max(1, round(o·mean·n / Σo))``, halves up: the same on all machines and libraries.

    Parameters
    ----------
    outputs : IntArray
        Shape (n,), each >= 1 [tokens].
    mean : int
        Target mean [tokens]; rounding and the minimum length 1 may change it slightly.
    """
    count, total = len(outputs), int(outputs.sum())
    scaled = [
        max(1, (2 * length * mean * count + total) // (2 * total)) for length in outputs.tolist()
    ]
    return frozen(np.array(scaled, dtype=np.int64))


def with_output_mean(workload: Workload, mean: int) -> Workload:
    """Return the workload with its output lengths scaled by `rescaled_outputs`.

    Raises
    ------
    InputError
        If the mean is below 1 or there are no requests.
    """
    integer(mean, "output_mean", minimum=1)
    _refuse_empty(workload)
    return replace(
        workload,
        output_tokens=rescaled_outputs(workload.output_tokens, mean),
        provenance={**workload.provenance, "output_mean": mean},
    )


def window(workload: Workload, index: int, count: int) -> Workload:
    """Return one of ``count`` contiguous windows with equally many requests.

    Window k holds requests ``⌊k·n/count⌋ .. ⌊(k+1)·n/count⌋ - 1``, so each request is in exactly
    one window and their sizes differ by at most 1. Arrival times count from the first request of
    the window.

    Parameters
    ----------
    workload : Workload
        All n requests.
    index : int
        Index of the window, from 0.
    count : int
        Number of windows, >= 1.

    Raises
    ------
    InputError
        If the index is out of range, or the window is empty.
    """
    integer(count, "windows", minimum=1)
    integer(index, "window", minimum=0)
    if index >= count:
        what = f"index {index} of {count} windows is out of range"
        raise InputError("window", what, f"use 0 to {count - 1}")
    first, last = index * len(workload) // count, (index + 1) * len(workload) // count
    if first == last:
        what = f"{count} windows for {len(workload)} requests"
        raise InputError("windows", what, "use at most one window per request")
    provenance = {**workload.provenance, "window": [index, count], "first_request": first}
    return replace(workload.part(np.arange(first, last)), provenance=provenance)


_LAWS: MappingProxyType[str, type[Any]] = MappingProxyType(
    {
        "geometric": Geometric,
        "homogeneous": Homogeneous,
        "lognormal": Lognormal,
        "uniform": Uniform,
    }
)

_PROCESSES: MappingProxyType[str, type[Any]] = MappingProxyType(
    {
        "diurnal": Diurnal,
        "gamma": GammaRenewal,
        "mmpp": MarkovModulated,
        "on-off": OnOff,
        "poisson": Poisson,
        "surges": Surges,
    }
)


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split("/"))


_NUMBERS = OptionKind("give numbers as a/b/c", _numbers, (str,), str)
#: Kinds of values by the types of parameters.
_KINDS: MappingProxyType[Any, OptionKind] = MappingProxyType(
    {int: WHOLE, float: NUMBER, tuple[float, ...]: _NUMBERS}
)


def parse_law(text: str, where: str) -> LengthDistribution:
    """Return the length distribution given as ``name:parameter=value:...``.

    Parameters
    ----------
    text : str
        ``geometric:mean=200``, ``homogeneous:value=200``, ``uniform:lowest=1:highest=1000`` or
        ``lognormal:median=800:sigma=1.1:maximum=32768`` (the maximum is optional).
    where : str
        Place named in errors.

    Raises
    ------
    InputError
        If the law, a parameter or a value is unknown, or a parameter is missing.
    """
    made: LengthDistribution = _parsed(text, where, _LAWS)
    return made


def parse_arrivals(text: str, where: str) -> ArrivalProcess:
    """Return the arrival process given as ``name:parameter=value:...``.

    Parameters
    ----------
    text : str
        ``poisson:rate=300``, ``gamma:rate=300:cv=5``,
        ``on-off:rate_on=1000:rate_off=20:mean_on_s=2:mean_off_s=5``,
        ``mmpp:rates=1000/300/20:mean_stays_s=2/5/5``,
        ``diurnal:rate=300:amplitude=0.8:period_s=86400`` or
        ``surges:rate_base=100:rate_surge=900:every_s=60:length_s=5``.
    where : str
        Place named in errors.

    Raises
    ------
    InputError
        If the process, a parameter or a value is unknown, or a parameter is missing.
    """
    made: ArrivalProcess = _parsed(text, where, _PROCESSES)
    return made


def _parsed(text: str, where: str, laws: Mapping[str, type[Any]]) -> Any:
    try:
        name, texts = split_options(text, laws)
    except InputError as error:
        raise InputError(where, error.what, error.remedy) from None
    check_known(where, name, laws)
    law = laws[name]
    kinds = {entry.name: _KINDS[entry.type] for entry in fields(law)}
    given = read_texts(kinds, texts, where)
    try:
        return law(**given)
    except TypeError:
        missing = ", ".join(name for name in kinds if name not in given)
        raise InputError(where, f"{text!r} lacks a parameter", f"add {missing}") from None
