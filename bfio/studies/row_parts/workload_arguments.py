"""Read the arguments that choose the requests of a row, and compute a digest of them."""

import hashlib
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

from bfio.common.options import (
    FLAG,
    RATIONAL,
    TEXT,
    CheckedOptions,
    checked,
    from_mapping,
    names_of,
    option,
    whole,
)
from bfio.studies.row import RowContext
from bfio.studies.row_parts.arguments import MAX_WHOLE, Arguments, generator
from bfio.workloads.generators import (
    generate,
    parse_arrivals,
    parse_law,
    resample,
    window,
    with_arrivals,
    with_output_mean,
    with_shuffled_outputs,
)
from bfio.workloads.statistics import requests_used
from bfio.workloads.synthetic_workloads import synthetic
from bfio.workloads.trace_file import read_trace
from bfio.workloads.workload import Workload, training_share
from formulations.arrays import IntArray
from formulations.errors import InputError

#: Number of requests to draw by default.
DEFAULT_REQUESTS = 4000
#: Separates the random stream that draws requests from that of the policy. With the same seed for
#: both, a random policy would place each request by the number that also chose it.
_STREAM = 0x7265717565737473
#: Separates the permutation of outputs from both streams.
_SHUFFLE_STREAM = 0x73687566666C65


_AT_LEAST_1 = whole(1, MAX_WHOLE)


@dataclass(frozen=True)
class RequestOptions(CheckedOptions):
    """Arguments that choose the requests: one source, and how to cut it or draw from it.

    Raises
    ------
    InputError
        If they are contradictory, incomplete or out of range.
    """

    trace: str | None = option(None, TEXT, "FILE", "file, relative to the study's `data` folder")
    columns: str | None = option(
        None,
        TEXT,
        "ROLES",
        "columns of a trace of unknown format: `arrival=ts,prompt=input,output=generated`",
    )
    skip_bad_rows: bool = option(False, FLAG, "", "`true`: leave out and count damaged rows")
    output_mean: int | None = option(
        None,
        _AT_LEAST_1,
        "TOKENS",
        "scale the outputs of the whole trace to this mean, in integers [tokens]; with laws, the "
        "parameter `mean` of `outputs`",
    )
    window: int | None = option(
        None,
        whole(0, MAX_WHOLE),
        "K",
        "index of the part of the trace to use, from 0; times count from its first request",
    )
    windows: int | None = option(None, _AT_LEAST_1, "N", "number of contiguous parts")
    shuffle_outputs: bool = option(
        False,
        FLAG,
        "",
        "`true`: permute the outputs of the whole trace, so that they are independent of prompt "
        "and time",
    )
    train_share: Fraction | None = option(
        None,
        checked(RATIONAL, training_share),
        "SHARE",
        "first share of the requests, used only to train predictors",
    )
    resample: bool = option(
        False,
        FLAG,
        "",
        "`true`: draw requests of the trace with replacement, prompt and output together; arrival "
        "times are lost",
    )
    synthetic: str | None = option(
        None,
        TEXT,
        "NAME",
        "or a named workload ([workloads.md](workloads.md)), drawn as `bfio simulate --synthetic` "
        "does",
    )
    prompts: str | None = option(
        None,
        TEXT,
        "LAW",
        "or both distributions: `homogeneous:value=200`, `uniform:lowest=1:highest=1000`",
    )
    outputs: str | None = option(
        None,
        TEXT,
        "LAW",
        "outputs: `geometric:mean=200`, `lognormal:median=800:sigma=1.1:maximum=9000`",
    )
    requests: int | None = option(
        None,
        whole(1, 10**8),
        "N",
        "number of requests, the first ones or drawn (default: all; 4,000 if drawn)",
    )
    requests_per_slot: int | None = option(
        None, whole(1, 10**6), "N", "instead of `requests`: number per slot of the machine"
    )
    arrival_law: str | None = option(
        None,
        TEXT,
        "LAW",
        "draw new arrival times: `poisson:rate=300`, `gamma`, `on-off`, `mmpp`, `diurnal` or "
        "`surges` ([workloads.md](workloads.md))",
    )
    seed: int = option(
        0,
        whole(0, MAX_WHOLE),
        "N",
        "seed of drawn requests, of random policies and of `noisy-oracle`; three independent "
        "streams",
    )

    def __post_init__(self) -> None:
        """Check that exactly one source is given and that the other arguments fit it."""
        super().__post_init__()
        self._check_source()

    def _check_source(self) -> None:
        for names in (
            ("trace", "synthetic", "prompts"), ("trace", "synthetic", "outputs"),
            ("requests", "requests_per_slot"), ("synthetic", "output_mean"),
        ):  # fmt: skip
            given = [name for name in names if self._has(name)]
            if len(given) > 1:
                raise InputError(given[1], f"{given[0]} is given as well", "remove one of the two")
        if not any(map(self._has, ("trace", "synthetic", "prompts", "outputs"))):
            remedy = "give trace, synthetic, or prompts and outputs"
            raise InputError("arguments", "no source of requests is given", remedy)
        for one, other in (("prompts", "outputs"), ("window", "windows")):
            if self._has(one) != self._has(other):
                raise InputError(one, f"needs {other}", "give both or neither")
        for name in (
            "columns", "skip_bad_rows", "window", "windows", "shuffle_outputs", "train_share",
            "resample",
        ):  # fmt: skip
            if self._has(name) and not self._has("trace"):
                raise InputError(name, "it needs a trace", "remove it, or give a trace")

    def _has(self, name: str) -> bool:
        value = getattr(self, name)
        return value is not None and value is not False


WORKLOAD_ARGUMENTS = names_of(RequestOptions)


@dataclass(frozen=True)
class WorkloadChoice:
    """The arguments and the file that determine a row's requests. Equal choices: equal requests.

    Parameters
    ----------
    options : RequestOptions
        The arguments; the seed is 0 if nothing is drawn.
    file : Path, optional
        The trace.
    stamp : tuple of int
        Modification time and size of the file. A changed file is read again.
    """

    options: RequestOptions
    file: Path | None
    stamp: tuple[int, int]


def workload_choice(arguments: Arguments, total_slots: int, context: RowContext) -> WorkloadChoice:
    """Read the arguments that choose requests.

    Parameters
    ----------
    arguments : Arguments
        Arguments of a row.
    total_slots : int
        ``G·B``, which ``requests_per_slot`` multiplies.
    context : RowContext
        Has the base folder of relative file names.

    Raises
    ------
    InputError
        If they are contradictory, incomplete or out of range.
    """
    given = from_mapping(RequestOptions, arguments.given)
    file = None if given.trace is None else context.folder / given.trace
    changes: dict[str, int | None] = {}
    if given.requests_per_slot is not None:
        total = given.requests_per_slot * total_slots
        changes = {"requests": total, "requests_per_slot": None}
    draws = given.resample or given.shuffle_outputs or given.arrival_law is not None
    if given.seed and file is not None and not draws:
        # Rows that differ only in an unused seed share cached results.
        changes["seed"] = 0
    options = replace(given, **changes) if changes else given  # type: ignore[arg-type]
    return WorkloadChoice(options, file, (0, 0) if file is None else _stamp(file))


@lru_cache(maxsize=8)
def chosen_workload(choice: WorkloadChoice) -> Workload:
    """Read or draw the chosen requests.

    Raises
    ------
    InputError
        If the file cannot be read, or a name, law or window does not exist.
    """
    given, requests = choice.options, _requests(choice)
    if given.arrival_law is None:
        return requests
    law = parse_arrivals(given.arrival_law, "argument arrival_law")
    return with_arrivals(requests, law, given.seed)


def _requests(choice: WorkloadChoice) -> Workload:
    given = choice.options
    count = given.requests or DEFAULT_REQUESTS
    if given.synthetic is not None:
        return synthetic(given.synthetic, count, given.seed)
    if choice.file is not None:
        return _from_trace(given, choice.file, choice.stamp)
    mean = "" if given.output_mean is None else f":mean={given.output_mean}"
    return generate(
        count,
        parse_law(given.prompts or "", "argument prompts"),
        parse_law(f"{given.outputs}{mean}", "argument outputs"),
        rng=generator(given.seed, _STREAM),
    )


@dataclass(frozen=True)
class RequestFacts:
    """Facts about the chosen requests that planning a row needs.

    Parameters
    ----------
    digest : str
        16 hexadecimal digits that identify the requests.
    has_arrival_times : bool
        Whether the requests have arrival times.
    used : str
        Number and source of the requests, and how many were left out.
    past : int
        Number of requests reserved for training.
    tells_prompts : bool
        Whether the requests have keys or block hashes that identify shared prompt prefixes.
    """

    digest: str
    has_arrival_times: bool
    used: str
    past: int = 0
    tells_prompts: bool = False


@lru_cache(maxsize=200_000)
def request_facts(choice: WorkloadChoice) -> RequestFacts:
    """Read or draw the chosen requests, and return the facts that planning needs.

    Raises
    ------
    InputError
        See `chosen_workload`.
    """
    drawn = chosen_workload(choice)
    digest = lengths_digest(drawn.prompt_tokens, drawn.output_tokens)
    if drawn.arrival_times is not None:
        digest.update(" ".join(map(str, drawn.arrival_times)).encode())
    if drawn.prompt_keys is not None:
        digest.update(drawn.prompt_keys.astype("<i8").tobytes())
    if (hashes := drawn.prompt_blocks) is not None:
        digest.update(hashes.first.astype("<i8").tobytes())
        digest.update(hashes.ids.astype("<i8").tobytes())
    if (past := drawn.history) is not None:
        digest.update(lengths_digest(past.prompt_tokens, past.output_tokens).digest())
    has_times = drawn.arrival_times is not None
    num_past = 0 if past is None else len(past)
    tells_prompts = drawn.prompt_keys is not None or drawn.prompt_blocks is not None
    return RequestFacts(
        digest.hexdigest()[:16], has_times, requests_used(drawn), num_past, tells_prompts
    )


def lengths_digest(*columns: IntArray) -> "hashlib._Hash":
    """Return a digest of integer columns that describe requests."""
    digest = hashlib.sha256()
    for values in columns:
        digest.update(len(values).to_bytes(8, "little") + values.astype("<i8").tobytes())
    return digest


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except OSError:
        # Reading the file will report the error.
        return (0, 0)
    return (status.st_mtime_ns, status.st_size)


def _from_trace(given: RequestOptions, file: Path, stamp: tuple[int, int]) -> Workload:
    requests = _trace(file, stamp, given.columns, given.skip_bad_rows, given.output_mean)
    if given.shuffle_outputs:
        requests = with_shuffled_outputs(requests, generator(given.seed, _SHUFFLE_STREAM))
    if given.window is not None and given.windows is not None:
        requests = window(requests, given.window, given.windows)
    if given.train_share is not None:
        requests = requests.after(given.train_share)
    if given.resample:
        count = given.requests or len(requests)
        return resample(requests, count, rng=generator(given.seed, _STREAM))
    return requests if given.requests is None else requests.head(given.requests)


# Large enough that a study over all public traces reads each only once, in any order of rows.
@lru_cache(maxsize=12)
def _trace(
    path: Path,
    stamp: tuple[int, int],
    columns: str | None,
    skip_bad_rows: bool,
    output_mean: int | None,
) -> Workload:
    found = read_trace(path, columns=columns, skip_bad_rows=skip_bad_rows)
    return found if output_mean is None else with_output_mean(found, output_mean)


def trace_requests(path: Path) -> Workload:
    """Return all requests of a trace, cached until the file changes.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    return _trace(path, _stamp(path), None, False, None)
