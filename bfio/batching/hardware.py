"""Batch times of hardware: published ones by name, and fits to measured batches.

A fit chooses the constants of the batch time (2.3) by least squares. For a given b0,
``c + a·max(0, b' - b0)`` is linear in c and a. Between two measured loads the best b0 is where the
mean of the smaller batches meets the line through the larger ones, or one of the two loads. So few
integers b0 come into question. Sums compare them, and `bfio.common.regression` fits the best ones.
"""

import csv
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bfio.common.regression import Loss, regress
from formulations.arrays import FloatArray, IntArray, integer_vector
from formulations.batching import BatchTime, single_engine
from formulations.batching.network import AgentNetwork
from formulations.errors import InputError, use_one_of
from formulations.scalars import exact_number

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Hardware:
    """A model on given accelerators, with its batch time by equation (2.3).

    Parameters
    ----------
    name : str
        Name on the command line.
    summary : str
        Model and accelerators.
    source : str
        Source of the constants.
    slot : Fraction
        Length of a slot in which the constants are integers [s].
    batch_time : BatchTime
        Batch time in these slots.
    """

    name: str
    summary: str
    source: str
    slot: Fraction
    batch_time: BatchTime

    def network(
        self,
        rate: object,
        prefill: object,
        decode: object,
        *,
        budget: int = 512,
        engines: int = 1,
    ) -> AgentNetwork:
        """Return a network with one type of request on this hardware.

        Parameters
        ----------
        rate : number
            Requests per second.
        prefill, decode : number
            Mean tokens.
        budget, engines : int
            ``b`` and the number of engines.
        """
        return single_engine(
            exact_number(rate, "rate") * self.slot,
            prefill,
            decode,
            budget=budget,
            batch_time=self.batch_time,
            engines=engines,
            slot=self.slot,
        )


_TENTH_MS = Fraction(1, 10_000)
#: The paper also fits CodeLlama-34B (figure 4), but does not print its constants.
HARDWARE = {
    entry.name: entry
    for entry in (
        Hardware(
            "llama-3-70b-2xa100",
            "Llama-3-70B on two A100-80GB with NVLink, tensor-parallel",
            "throughput paper, section 2.1: c = 45.5 ms, a = 0.30 ms/token, b0 = 64 tokens",
            _TENTH_MS,
            BatchTime.in_slots_of("0.1", overhead="45.5", per_token="0.3", free_tokens=64),
        ),
    )
}


def hardware(name: str) -> Hardware:
    """Return the published hardware with the given name.

    Raises
    ------
    InputError
        If the name is unknown.
    """
    if name not in HARDWARE:
        raise InputError("hardware", f"{name!r} is unknown", use_one_of(name, HARDWARE))
    return HARDWARE[name]


#: Columns of a file of measurements: tokens and duration [s] of a batch.
COLUMNS = ("tokens", "duration_s")
_MAX_ROWS = 10**6
#: Number of values of b0 that are fitted: the best ones up to the rounding of sums.
_KNEES = 16
#: Powers of durations and loads whose sums determine a fit.
_POWERS = ((0, 0), (1, 0), (0, 1), (0, 2), (1, 1))


@dataclass(frozen=True)
class BatchTimeFit:
    """Fitted constants of the batch time (2.3).

    Parameters
    ----------
    overhead_s, per_token_s : float
        ``c`` [s] and ``a`` [s/token].
    free_tokens : int
        ``b0``.
    r_squared : float
        Share of the variance of the durations that the fit explains.
    """

    overhead_s: float
    per_token_s: float
    free_tokens: int
    r_squared: float

    def seconds(self, tokens: int) -> float:
        """Return the duration of a batch with the given tokens [s]."""
        return self.overhead_s + self.per_token_s * max(0, tokens - self.free_tokens)

    def batch_time(self, slot: Fraction) -> BatchTime:
        """Return the fit in slots of the given length [s], rounded to 1/1000 slot."""
        overhead, per_token = (
            Fraction(round(value / float(slot) * 1000), 1000)
            for value in (self.overhead_s, self.per_token_s)
        )
        return BatchTime(overhead, per_token, self.free_tokens)

    def figure(self, tokens: IntArray, durations: FloatArray) -> "Figure":
        """Draw measured batches, as `fit_batch_time` takes them, and the fit."""
        from bfio.common.figure_style import styled

        loads = np.unique(np.concatenate(([1, self.free_tokens or 1], tokens)))
        with styled(7, 4) as (figure, axes):
            axes.plot(tokens, 1000 * durations, ".", alpha=0.5, label="measured")
            fitted = [1000 * self.seconds(int(load)) for load in loads]
            axes.plot(loads, fitted, label="c + a·max(0, b' − b0)")
            axes.set(xlabel="tokens of the batch", ylabel="time of the batch [ms]", ylim=(0, None))
            axes.legend()
        return figure


def read_batches(path: Path) -> tuple[IntArray, FloatArray]:
    """Return the tokens and durations in a CSV file with the columns ``tokens,duration_s``.

    Raises
    ------
    InputError
        If the file cannot be read, lacks a column, or a row does not hold positive numbers.
    """
    tokens, durations = [], []
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            reader = csv.DictReader(stream)
            if missing := [name for name in COLUMNS if name not in (reader.fieldnames or ())]:
                remedy = f"write the columns {','.join(COLUMNS)}"
                raise InputError(str(path), f"column {missing[0]} is missing", remedy)
            for k, row in enumerate(reader):
                if k >= _MAX_ROWS:
                    raise InputError(str(path), f"more than {_MAX_ROWS:,} rows", "remove rows")
                pair = _row(row["tokens"], row["duration_s"], f"{path}: row {k + 1}")
                tokens.append(pair[0])
                durations.append(pair[1])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(str(path), f"cannot be read ({error})"[:200], "name a CSV file") from None
    return np.array(tokens, dtype=np.int64), np.array(durations, dtype=np.float64)


def _row(tokens: str | None, duration: str | None, where: str) -> tuple[int, float]:
    try:
        pair = int(tokens or ""), float(duration or "")
    except ValueError:
        raise InputError(
            where,
            f"{tokens!r:.20} and {duration!r:.20} are not a whole number and a number of seconds",
            "correct the row",
        ) from None
    if pair[0] < 1 or not 0 < pair[1] < float("inf"):
        what = f"{pair[0]} tokens and {pair[1]} s are not both finite and > 0"
        raise InputError(where, what, "correct the row")
    return pair


def fit_batch_time(
    tokens: object, durations: FloatArray, *, free_tokens: int | None = None
) -> BatchTimeFit:
    """Fit the constants of the batch time (2.3) to measured batches.

    Parameters
    ----------
    tokens : IntArray
        Shape (n,), tokens of each batch, >= 1.
    durations : FloatArray
        Shape (n,) [s].
    free_tokens : int, optional
        ``b0`` if it is known; by default the best integer with two loads beyond it.

    Raises
    ------
    InputError
        If there are fewer than three batches, or their loads do not differ enough.
    """
    loads = integer_vector(tokens, "tokens", minimum=1)
    if len(loads) != len(durations) or len(loads) < 3:
        what = f"{len(loads)} token counts and {len(durations)} durations"
        raise InputError("batches", what, "give one of each per batch, for at least three batches")
    durations = np.asarray(durations, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        knees = _knees(loads, durations) if free_tokens is None else np.array([free_tokens])
    fits = [fit for b0 in knees.tolist() if (fit := _fit(loads, durations, b0)) is not None]
    if not fits and any(len(np.unique(np.maximum(loads, b0))) > 1 for b0 in knees.tolist()):
        what = "no line with a positive overhead and without a decrease fits them"
        raise InputError("durations", what, "measure batches of many sizes")
    if not fits:
        raise InputError(
            "tokens",
            "the token counts of batches do not differ beyond b0",
            "measure batches of many sizes",
        )
    return max(fits, key=lambda fit: (fit.r_squared, -fit.free_tokens))


def _knees(loads: IntArray, durations: FloatArray) -> IntArray:
    """Return the values of b0 that may give the least squares, the best ones last."""
    distinct, at = np.unique(loads, return_inverse=True)
    sums = np.stack([np.bincount(at, durations**k * loads**j) for k, j in _POWERS], axis=1)
    # Row k: sums over the loads from ``distinct[k]`` on.
    beyond = np.cumsum(sums[::-1], axis=0)[::-1]
    count, y, x, xx, xy = beyond[1:-1].T
    slope = (count * xy - x * y) / (count * xx - x * x)
    mean = (beyond[0, 1] - y) / (beyond[0, 0] - count)
    most = distinct[-2:][0] - 1
    last = np.minimum(distinct[1:-1], most)
    meets = np.clip((mean - (y - slope * x) / count) / slope, distinct[:-2], last)
    meets = np.where(np.isfinite(meets), meets, distinct[:-2])
    knees = np.unique(np.concatenate(([0], distinct[:-2], np.floor(meets), np.ceil(meets))))
    n, total = beyond[0, :2]
    count, y, x, xx, xy = beyond[np.searchsorted(distinct, knees, side="right")].T
    x, xx, xy = x - count * knees, xx - 2 * knees * x + count * knees**2, xy - knees * y
    slope = (xy - x * total / n) / (xx - x * x / n)
    is_time = (slope >= 0) & (total > slope * x)
    explained = np.where(is_time, slope * (xy - x * total / n), -1.0)
    found: IntArray = knees[np.argsort(explained, kind="stable")[-_KNEES:]].astype(np.int64)
    return found


def _fit(loads: IntArray, durations: FloatArray, free_tokens: int) -> BatchTimeFit | None:
    beyond = np.maximum(loads - free_tokens, 0).astype(np.float64)
    if len(np.unique(beyond)) < 2:
        return None
    columns = np.column_stack((np.ones(len(loads)), beyond))
    found = regress(columns, durations, Loss.SQUARES, intervals=False)
    overhead, per_token = found.coefficients.tolist()
    if overhead <= 0 or per_token < 0:
        return None
    spread = float(((durations - durations.mean()) ** 2).sum())
    left = float((found.residuals**2).sum())
    return BatchTimeFit(overhead, per_token, free_tokens, 1 - left / spread if spread else 1.0)
