"""Define `Workload`, the common result of trace readers and generators."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from bfio.workloads.request_data import ArrivalTimes, BlockHashes, apart
from formulations.arrays import BoolArray, FloatArray, IntArray, integer, integer_vector
from formulations.errors import InputError, check_kind, known_fields
from formulations.results import html_table
from formulations.scalars import exact_rational
from formulations.words import counted

#: Maximum number of requests of a repeated workload.
MAX_REQUESTS = 10**8


@known_fields
@dataclass(frozen=True, repr=False)
class Workload:
    """Requests in order of arrival, with lengths and optional arrival times.

    Parameters
    ----------
    prompt_tokens : IntArray
        Shape (n,), prompt length ``s_i >= 1`` of each request [tokens].
    output_tokens : IntArray
        Shape (n,), output length ``o_i >= 1`` [tokens = decode steps].
    arrival_times : ArrivalTimes or sequence of number, optional
        Exact, non-decreasing arrival times [s]; None if the source has none. Stored as
        `ArrivalTimes`.
    name : str
        Short name shown in tables.
    provenance : mapping
        Origin of the requests: file and format, or generator and seed; and dropped rows with
        reasons.
    prompt_keys : IntArray, optional
        Shape (n,): equal keys for equal prompts; None if the source does not identify prompts.
    history : Workload, optional
        Earlier requests with their outputs, for predictors with training.
    block_hashes : BlockHashes or sequence of sequences of int, optional
        Hashes of each prompt's blocks of 512 tokens, the last of which may be shorter. A hash
        covers its block and all blocks before it. An empty list means unknown.

    Raises
    ------
    InputError
        If shapes differ, a length is below 1, arrival times are negative or decrease, or a prompt
        has more or fewer hashes than blocks.
    """

    prompt_tokens: IntArray
    output_tokens: IntArray
    arrival_times: Sequence[Fraction] | None = None
    name: str = "workload"
    provenance: Mapping[str, object] = field(default_factory=dict)
    prompt_keys: IntArray | None = None
    history: "Workload | None" = None
    block_hashes: BlockHashes | Sequence[Sequence[int]] | None = None

    def __post_init__(self) -> None:
        """Check all fields and make the arrays read-only; an invalid value raises InputError."""
        prompts = integer_vector(self.prompt_tokens, "prompt_tokens", minimum=1)
        outputs = integer_vector(self.output_tokens, "output_tokens", minimum=1)
        object.__setattr__(self, "prompt_tokens", prompts)
        object.__setattr__(self, "output_tokens", outputs)
        if len(prompts) != len(outputs):
            what = f"{len(outputs)} output lengths for {len(prompts)} prompts"
            raise InputError("output_tokens", what, "give one output length per request")
        check_kind(self.name, str, "name", "a text")
        check_kind(self.provenance, Mapping, "provenance", "a mapping")
        if self.history is not None:
            check_kind(self.history, Workload, "history", "a Workload")
        if self.prompt_keys is not None:
            keys = integer_vector(self.prompt_keys, "prompt_keys")
            object.__setattr__(self, "prompt_keys", keys)
            if len(keys) != len(prompts):
                what = f"{len(keys)} keys for {len(prompts)} prompts"
                raise InputError("prompt_keys", what, "give one per request or none at all")
        if self.block_hashes is not None:
            hashes = BlockHashes.of(self.block_hashes, "block_hashes")
            hashes.check(prompts, "block_hashes")
            object.__setattr__(self, "block_hashes", hashes)
        if self.arrival_times is not None:
            times = ArrivalTimes.of(self.arrival_times)
            object.__setattr__(self, "arrival_times", times)
            self._check_arrivals(times)

    @classmethod
    def from_frame(
        cls,
        frame: object,
        *,
        columns: Mapping[str, str] | str | None = None,
        name: str = "frame",
        skip_bad_rows: bool = False,
    ) -> "Workload":
        """Return the requests of a data frame, cleaned and ordered as `read_trace` does.

        Parameters
        ----------
        frame : object
            A frame of pandas or polars, a pyarrow table, a mapping of columns, or a list of
            rows as mappings.
        columns : mapping or str, optional
            Columns as in `read_trace`; not needed if the names are unambiguous.
        name : str
            Name of the workload.
        skip_bad_rows : bool
            Whether damaged rows are skipped and counted, instead of raising an error.

        Raises
        ------
        InputError
            If the argument is not a frame, or a cell is invalid; the message names row (from 1)
            and column.
        """
        # Imported here, because it loads pyarrow.
        from bfio.workloads.columnar import frame_fields

        return cls(**frame_fields(frame, columns, name, skip_bad_rows))

    def __repr__(self) -> str:
        timed = "" if self.arrival_times is None else ", timed"
        return f"<Workload {self.name}: {counted(len(self), 'request')}{timed}>"

    def _repr_html_(self) -> str:
        columns = [self.prompt_tokens, self.output_tokens]
        rows = [["mean", *(f"{column.mean():,.1f}" for column in columns)]] if len(self) else []
        rows += [["largest", *(f"{column.max():,}" for column in columns)]] if len(self) else []
        return html_table(("[tokens]", "prompt", "output"), rows, repr(self)[1:-1])

    def __len__(self) -> int:
        return len(self.prompt_tokens)

    @property
    def total_output_tokens(self) -> int:
        """Total output tokens of all requests."""
        return int(self.output_tokens.sum())

    @property
    def prompt_blocks(self) -> BlockHashes | None:
        """Hashes of the prompts' blocks; None if the source has none."""
        hashes = self.block_hashes
        return None if hashes is None else BlockHashes.of(hashes, "block_hashes")

    def exact_arrivals(self, remedy: str = 'use arrivals="pool"') -> ArrivalTimes:
        """Return the arrival times.

        Raises
        ------
        InputError
            If the workload has none; ``remedy`` is the advice in the message.
        """
        if self.arrival_times is None:
            raise InputError(self.name, "the requests have no arrival times", remedy)
        return ArrivalTimes.of(self.arrival_times)

    def arrival_seconds(self) -> FloatArray:
        """Return `exact_arrivals` as float64 seconds, shape (n,)."""
        return self.exact_arrivals().seconds()

    def head(self, num_requests: int) -> "Workload":
        """Return the first ``num_requests`` requests (all of them if there are fewer)."""
        integer(num_requests, "num_requests")
        times = None if self.arrival_times is None else self.arrival_times[:num_requests]
        return self._some(slice(num_requests), times)

    def repeated(self, times: int) -> "Workload":
        """Return the requests repeated in ``times`` passes.

        Prompts of different passes are different, so predictors and prefix caches gain nothing
        from earlier passes. The gap between passes of timed requests is the mean time between
        arrivals, rounded down to the resolution of the times.

        Parameters
        ----------
        times : int
            Number of passes; 1 returns the requests unchanged.

        Raises
        ------
        InputError
            If the number is below 1, or gives more than `MAX_REQUESTS` requests.
        """
        integer(times, "repeat", minimum=1)
        if times == 1:
            return self
        total = times * len(self)
        if total > MAX_REQUESTS:
            what = f"{times:,} passes of {len(self):,} requests exceed {MAX_REQUESTS:,} requests"
            raise InputError("repeat", what, "use fewer passes")
        arrivals, keys, hashes = None, self.prompt_keys, self.prompt_blocks
        if self.arrival_times is not None:
            arrivals = ArrivalTimes.of(self.arrival_times).repeated(times)
        return replace(
            self,
            prompt_tokens=np.tile(self.prompt_tokens, times),
            output_tokens=np.tile(self.output_tokens, times),
            arrival_times=arrivals,
            prompt_keys=None if keys is None else apart(keys, times),
            block_hashes=None if hashes is None else hashes.repeated(times),
            provenance={**self.provenance, "repeated": times},
        )

    def part(self, which: IntArray | BoolArray) -> "Workload":
        """Return a selection of the requests, with times relative to the first selected one.

        Parameters
        ----------
        which : IntArray or BoolArray
            Indices in increasing order, or a mask of shape (n,).

        Raises
        ------
        InputError
            If an index is no index of a request, or the mask has another length.
        """
        if isinstance(which, np.ndarray) and which.dtype == np.bool_:
            if which.shape != (len(self),):
                what = f"a mask of shape {which.shape} for {len(self)} requests"
                raise InputError("which", what, "give one entry per request")
            which = np.flatnonzero(which)
        which = integer_vector(which, "which", maximum=len(self) - 1)
        times = None
        if self.arrival_times is not None:
            times = ArrivalTimes.of(self.arrival_times).at(which).since_first()
        return self._some(which, times)

    def after(self, share: Fraction | str) -> "Workload":
        """Return the requests after the first ``share``, which become their `history`.

        Parameters
        ----------
        share : Fraction or str
            Between 0 and 1, exclusive, for example ``"1/3"``.

        Raises
        ------
        InputError
            If the share is not in (0, 1), or one part would be empty.
        """
        share = training_share(share)
        first = int(share * len(self))
        if first == 0:
            what = f"{share} of {len(self)} requests leaves none to learn from"
            remedy = "give more requests" + (" or a larger share" if len(self) > 1 else "")
            raise InputError("train_share", what, remedy)
        order = np.arange(len(self))
        learned = {"train_share": str(share), "requests_to_learn_from": first}
        return replace(
            self.part(order[first:]),
            history=self.part(order[:first]),
            provenance={**self.provenance, **learned},
        )

    def _some(
        self, which: IntArray | BoolArray | slice, times: Sequence[Fraction] | None
    ) -> "Workload":
        keys, hashes = self.prompt_keys, self.prompt_blocks
        return replace(
            self,
            prompt_tokens=self.prompt_tokens[which],
            output_tokens=self.output_tokens[which],
            arrival_times=times,
            prompt_keys=None if keys is None else keys[which],
            block_hashes=None if hashes is None else hashes.part(which),
        )

    def _check_arrivals(self, times: ArrivalTimes) -> None:
        if len(times) != len(self.prompt_tokens):
            what = f"{len(times)} arrival times for {len(self.prompt_tokens)} requests"
            remedy = "give one arrival time per request or none at all"
            raise InputError("arrival_times", what, remedy)
        ticks = times.ticks
        early = np.flatnonzero(np.diff(ticks, prepend=ticks[:1] * 0) < 0)
        if len(early):
            i = int(early[0])
            before = float(times[i - 1]) if i else 0.0
            what = f"{float(times[i])} s comes after {before} s"
            remedy = "sort the requests by arrival time and start at 0 or later"
            raise InputError(f"arrival_times[{i}]", what, remedy)


def training_share(value: Fraction | str, where: str = "train_share") -> Fraction:
    """Return the share of the requests used to train predictors.

    Raises
    ------
    InputError
        If the value is not a rational in (0, 1); the message names ``where``.
    """
    share = exact_rational(value, where)
    if not 0 < share < 1:
        raise InputError(where, f"{share} is out of range", "use 0 < share < 1")
    return share
