"""Arguments that choose the requests of a row, and the digest of what they choose."""

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from bfio.studies.row import Context
from bfio.studies.row_kinds.arguments import Arguments
from bfio.workloads.generators import generate, resample
from bfio.workloads.law_text import parse_law
from bfio.workloads.reader import read_trace
from bfio.workloads.rescaling import with_output_mean
from bfio.workloads.synthetic_workloads import synthetic
from bfio.workloads.windows import window
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray
from formulations.errors import InputError

WORKLOAD_ARGUMENTS = (
    "trace", "skip_bad_rows", "output_mean", "window", "windows", "resample",
    "synthetic", "prompts", "outputs",
    "requests", "requests_per_slot", "seed",
)  # fmt: skip
#: What means something for a trace only.
_OF_TRACES = ("skip_bad_rows", "window", "windows", "resample")
#: Requests that are drawn unless the arguments say otherwise.
DEFAULT_REQUESTS = 4000
#: Sets the stream that draws requests apart from the one a policy draws from: with one seed for
#: both, a random policy would place each request by the very number that chose it.
_STREAM = 0x7265717565737473


@dataclass(frozen=True)
class WorkloadChoice:
    """Which requests a row is about; equal choices (and files) give equal requests.

    Parameters
    ----------
    trace : Path, optional
        File of requests.
    stamp : tuple of int
        Time of change and size of that file, so that a changed one is read again.
    skip_bad_rows : bool
        Count damaged rows of the file instead of stopping.
    output_mean : int, optional
        Mean to which the outputs of the file are scaled, or the parameter ``mean`` of their law
        [tokens].
    window, windows : int, optional
        Take the ``window``-th of ``windows`` contiguous parts.
    resample : bool
        Draw requests of the file with replacement.
    synthetic : str, optional
        Name of a generated workload.
    prompts, outputs : str, optional
        Laws of the lengths, see `bfio.workloads.law_text.parse_law`.
    requests : int, optional
        How many: the first ones of a file, or as many as are drawn.
    seed : int
        Seed of what is drawn, 0 if nothing is.
    """

    trace: Path | None
    stamp: tuple[int, int]
    skip_bad_rows: bool
    output_mean: int | None
    window: int | None
    windows: int | None
    resample: bool
    synthetic: str | None
    prompts: str | None
    outputs: str | None
    requests: int | None
    seed: int


def workload_choice(arguments: Arguments, total_slots: int, context: Context) -> WorkloadChoice:
    """Read the arguments that choose requests.

    Parameters
    ----------
    arguments : Arguments
        Those of a row.
    total_slots : int
        ``G·B``, which ``requests_per_slot`` multiplies.
    context : Context
        Says where relative file names start.

    Raises
    ------
    InputError
        If they are contradictory, incomplete or out of range.
    """
    _check_source(arguments)
    trace = arguments.optional_text("trace")
    path = None if trace is None else context.folder / trace
    is_drawn = path is None or arguments.flag("resample")
    seed = arguments.whole("seed", 0)
    return WorkloadChoice(
        trace=path,
        stamp=(0, 0) if path is None else _stamp(path),
        skip_bad_rows=arguments.flag("skip_bad_rows"),
        output_mean=arguments.optional_whole("output_mean", minimum=1),
        window=arguments.optional_whole("window"),
        windows=arguments.optional_whole("windows", minimum=1),
        resample=arguments.flag("resample"),
        synthetic=arguments.optional_text("synthetic"),
        prompts=arguments.optional_text("prompts"),
        outputs=arguments.optional_text("outputs"),
        requests=_num_requests(arguments, total_slots),
        # Rows that differ in a seed that draws nothing share what is cached.
        seed=seed if is_drawn else 0,
    )


@lru_cache(maxsize=8)
def chosen_workload(choice: WorkloadChoice) -> Workload:
    """Read or draw the requests.

    Raises
    ------
    InputError
        If the file cannot be read, or a name, law or window does not exist.
    """
    if choice.synthetic is not None:
        return synthetic(choice.synthetic, choice.requests or DEFAULT_REQUESTS, choice.seed)
    if choice.trace is not None:
        return _from_trace(choice, choice.trace)
    return generate(
        choice.requests or DEFAULT_REQUESTS,
        parse_law(choice.prompts or "", "argument prompts"),
        parse_law(_outputs(choice), "argument outputs"),
        rng=_generator(choice.seed),
    )


@dataclass(frozen=True)
class RequestFacts:
    """What planning a row needs to know of its requests.

    Parameters
    ----------
    digest : str
        16 hexadecimal digits that tell them apart from others.
    has_arrival_times : bool
        Whether they can arrive in time.
    """

    digest: str
    has_arrival_times: bool


@lru_cache(maxsize=200_000)
def request_facts(choice: WorkloadChoice) -> RequestFacts:
    """Read or draw the requests once, and return what planning needs to know.

    Raises
    ------
    InputError
        See `chosen_workload`.
    """
    drawn = chosen_workload(choice)
    digest = lengths_digest(drawn.prompt_tokens, drawn.output_tokens)
    if drawn.arrival_times is not None:
        digest.update(" ".join(map(str, drawn.arrival_times)).encode())
    return RequestFacts(digest.hexdigest()[:16], drawn.arrival_times is not None)


def lengths_digest(*columns: IntArray) -> "hashlib._Hash":
    """Return a digest of integers of requests, column after column."""
    digest = hashlib.sha256()
    for values in columns:
        digest.update(len(values).to_bytes(8, "little") + values.astype("<i8").tobytes())
    return digest


def _check_source(arguments: Arguments) -> None:
    arguments.exclude("trace", "synthetic", "prompts")
    arguments.exclude("trace", "synthetic", "outputs")
    arguments.exclude("requests", "requests_per_slot")
    if not any(arguments.has(name) for name in ("trace", "synthetic", "prompts", "outputs")):
        raise InputError(
            "arguments", "no requests", "give trace, synthetic, or prompts and outputs"
        )
    for one, other in (("prompts", "outputs"), ("window", "windows")):
        if arguments.has(one) != arguments.has(other):
            raise InputError(f"argument {one}", f"only with {other}", "give both or neither")
    arguments.exclude("synthetic", "output_mean")
    for name in _OF_TRACES:
        if arguments.has(name) and not arguments.has("trace"):
            raise InputError(f"argument {name}", "it needs a trace", "remove it, or give a trace")


def _num_requests(arguments: Arguments, total_slots: int) -> int | None:
    per_slot = arguments.optional_whole("requests_per_slot", minimum=1, maximum=10**6)
    if per_slot is not None:
        return per_slot * total_slots
    return arguments.optional_whole("requests", minimum=1, maximum=10**8)


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        # Reading it says what is wrong.
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)


def _outputs(choice: WorkloadChoice) -> str:
    law = choice.outputs or ""
    return law if choice.output_mean is None else f"{law}:mean={choice.output_mean}"


def _from_trace(choice: WorkloadChoice, path: Path) -> Workload:
    found = _trace(path, choice.stamp, choice.skip_bad_rows, choice.output_mean)
    if choice.window is not None and choice.windows is not None:
        found = window(found, choice.window, choice.windows)
    if choice.resample:
        return resample(found, choice.requests or len(found), rng=_generator(choice.seed))
    return found if choice.requests is None else found.head(choice.requests)


@lru_cache(maxsize=4)
def _trace(
    path: Path, stamp: tuple[int, int], skip_bad_rows: bool, output_mean: int | None
) -> Workload:
    del stamp
    found = read_trace(path, skip_bad_rows=skip_bad_rows)
    return found if output_mean is None else with_output_mean(found, output_mean)


def _generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM,)))
