"""A trace for one engine: bins of outputs from its first part, requests from the rest.

Nested WAIT knows no request's output, but it needs classes. From the first part, the *training*,
come the bins of outputs, the share of requests in each and one prompt length, the mean rounded up.
Only the longest output is taken from the whole trace, as a serving system knows its limit; there
the last bin ends. What is served are requests of the rest, with their own prompts and outputs.
"""

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

import numpy as np

from bfio.common.options import FLAG, RATIONAL, TEXT, WHOLE, from_mapping, names_of, option
from bfio.studies.row import RowContext
from bfio.studies.row_parts.arguments import Arguments
from bfio.studies.row_parts.workload_arguments import (
    WorkloadChoice,
    chosen_workload,
    request_facts,
    workload_choice,
)
from bfio.workloads.generators import resample
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray, integer
from formulations.errors import InputError
from formulations.fluid import RequestClass
from formulations.problem_data import member
from formulations.rationals import exact_number

_OF_THE_FILE = ("trace", "columns", "skip_bad_rows")
#: Sets the stream that draws requests apart from the one of their times.
_STREAM = 0x77616974


class Binning(StrEnum):
    """What is equal for all bins: their width, or how many training requests they hold."""

    WIDTH = "width"
    COUNT = "count"


@dataclass(frozen=True)
class TraceSplit:
    """How a trace is read and cut.

    Parameters
    ----------
    choice : WorkloadChoice
        The file.
    memory : int
        Requests that need more alone are left out [tokens].
    training : Fraction
        Share of the requests, from the first on, that bins come from, in (0, 1).
    bins : int
        How many bins at most; those without a training request are merged into the next.
    binning : Binning
        How wide they are.
    skip_oversized : bool
        Whether oversized requests may be left out; otherwise they are an error.

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    choice: WorkloadChoice
    memory: int
    training: Fraction = option(Fraction(1, 2), RATIONAL, "SHARE", "share of the rows (1/2)")
    bins: int = option(
        10,
        WHOLE,
        "N",
        "how many bins of outputs (10); those without a training request are merged into the next",
    )
    binning: Binning = option(
        Binning.WIDTH,
        TEXT,
        "HOW",
        "of equal `width` (default), or of an equal `count` of training requests",
    )
    skip_oversized: bool = option(
        False,
        FLAG,
        "",
        "leave out and count requests that exceed the memory alone (otherwise an error)",
    )

    def __post_init__(self) -> None:
        """Validate, and read the share exactly."""
        training = exact_number(self.training, "training")
        object.__setattr__(self, "training", training)
        if not 0 < training < 1:
            raise InputError("training", f"{training} is out of range", "use 0 < share < 1")
        integer(self.bins, "bins", minimum=1, maximum=1000)
        object.__setattr__(self, "binning", member(Binning, self.binning, "binning"))


TRACE_ARGUMENTS = (*_OF_THE_FILE, *names_of(TraceSplit), "requests")


@dataclass(frozen=True)
class TraceParts:
    """What a split gives.

    Parameters
    ----------
    bins : tuple of RequestClass
        What the policy knows; their rates are shares and add up to 1.
    rest : Workload
        The requests that may be served; times count from the first of them.
    kinds : tuple of RequestClass
        The lengths of the rest, each with its share.
    left_out : int
        Oversized requests of the whole trace.
    """

    bins: tuple[RequestClass, ...]
    rest: Workload
    kinds: tuple[RequestClass, ...]
    left_out: int


def split_of(given: Arguments, memory: int, context: RowContext) -> TraceSplit:
    """Read the arguments that choose and cut a trace.

    Raises
    ------
    InputError
        If one is out of range.
    """
    file = {name: given.given[name] for name in _OF_THE_FILE if given.has(name)}
    choice = workload_choice(Arguments(file, _OF_THE_FILE), 1, context)
    return from_mapping(TraceSplit, given.given, choice=choice, memory=memory)


def trace_digest(split: TraceSplit) -> str:
    """Return a digest of all requests of the file."""
    return request_facts(split.choice).digest


@lru_cache(maxsize=16)
def trace_parts(split: TraceSplit) -> TraceParts:
    """Cut a trace; see the module.

    Raises
    ------
    InputError
        If a request is oversized and must not be left out, or a part is empty.
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
    """Return the same for all splits that differ in their bins alone."""
    return replace(split, bins=1, binning=Binning.WIDTH)


# Fractions of thousands of different requests are slow, and many rows share them.
@lru_cache(maxsize=16)
def _halves(split: TraceSplit) -> tuple[Workload, Workload, tuple[RequestClass, ...], int]:
    whole = chosen_workload(split.choice)
    fitting = whole.prompt_tokens + whole.output_tokens <= split.memory
    left_out = int(np.count_nonzero(~fitting))
    if left_out and not split.skip_oversized:
        raise InputError(
            "argument memory",
            f"{left_out} of {len(whole)} requests exceed it alone",
            "raise it, or write skip_oversized = true",
        )
    kept = whole.part(fitting)
    first = int(split.training * len(kept))
    if not 0 < first < len(kept):
        raise InputError(
            "argument training",
            f"it leaves {first} of {len(kept)} requests for the bins",
            "change it, or use a longer trace",
        )
    indices = np.arange(len(kept))
    training, rest = kept.part(indices < first), kept.part(indices >= first)
    pairs = zip(rest.prompt_tokens.tolist(), rest.output_tokens.tolist(), strict=True)
    kinds = tuple(
        RequestClass(Fraction(number, len(rest)), prompt, output)
        for (prompt, output), number in sorted(Counter(pairs).items())
    )
    return training, rest, kinds, left_out


def drawn(rest: Workload, count: int | None, seed: int) -> Workload:
    """Return so many requests drawn with replacement, or all in their order."""
    if count is None:
        return rest
    sequence = np.random.SeedSequence(seed, spawn_key=(_STREAM,))
    return resample(rest, count, rng=np.random.default_rng(sequence))


def bin_ends(outputs: IntArray, count: int, binning: str, longest: int) -> tuple[int, ...]:
    """Return the last output of each bin; every bin holds at least one of the outputs.

    Parameters
    ----------
    outputs : IntArray
        Shape (n,), outputs of the training [tokens].
    count : int
        Bins asked for; there are fewer if some would be empty or equal.
    binning : str
        See `TraceSplit`.
    longest : int
        Where the last bin ends.
    """
    steps = np.arange(1, count + 1)
    if binning == "width":
        ends = -(-longest * steps // count)
    else:
        ends = np.sort(outputs)[-(-len(outputs) * steps // count) - 1]
    ends = np.unique(ends)
    # A bin (end before, end] counts if a training request lies in it.
    upto = np.searchsorted(np.sort(outputs), ends, side="right")
    kept = ends[np.diff(upto, prepend=0) > 0]
    return (*kept[:-1].tolist(), longest)
