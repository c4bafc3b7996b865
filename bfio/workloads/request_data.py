"""Compact columns of requests: exact arrival times, and hashes of prompt blocks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import Self, cast, overload

import numpy as np

from formulations.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    entries,
    frozen,
    integer_vector,
    plain_array,
)
from formulations.errors import InputError
from formulations.problem_data import shown

#: Integers up to this bound are exact in float64, so that their quotient is correctly rounded.
_EXACT_FLOAT = 2**53
_MAX_INT64 = 2**63 - 1
#: Number of times that are scaled at once.
_PIECE = 2**16


class ArrivalTimes(Sequence[Fraction]):
    """Exact times as a sequence of Fractions, stored as ``ticks / per_second`` in lowest terms.

    Parameters
    ----------
    ticks : IntArray
        Shape (n,), integers: int64, or Python integers if they do not fit.
    per_second : int
        Ticks per second, >= 1.
    """

    __slots__ = ("per_second", "ticks")

    def __init__(self, ticks: IntArray, per_second: int) -> None:
        common = gcd(int(np.gcd.reduce(ticks)) if len(ticks) else 0, per_second)
        self.ticks: IntArray = frozen(_shortest(ticks // common if common > 1 else ticks.view()))
        self.per_second = per_second // common

    @classmethod
    def of(cls, times: Iterable[Fraction]) -> Self:
        """Return the times of an iterable [s].

        Raises
        ------
        InputError
            If an entry is not a number of seconds; the message gives its index.
        """
        if isinstance(times, cls):
            return times
        given = plain_array(times)
        if not isinstance(given, Iterable) or isinstance(given, str | Mapping):
            what = f"expected a list, found {shown(given)}"
            raise InputError("arrival_times", what, "give one time per request [s]")
        exact = [_exact(time, i) for i, time in enumerate(given)]
        per_second = lcm(*{time.denominator for time in exact})
        ticks = [time.numerator * (per_second // time.denominator) for time in exact]
        return cls(np.array(ticks, dtype=object), per_second)

    def __len__(self) -> int:
        return len(self.ticks)

    @overload
    def __getitem__(self, index: int) -> Fraction: ...
    @overload
    def __getitem__(self, index: slice) -> "ArrivalTimes": ...
    def __getitem__(self, index: int | slice) -> "Fraction | ArrivalTimes":
        if isinstance(index, slice):
            return ArrivalTimes(self.ticks[index], self.per_second)
        return Fraction(int(self.ticks[index]), self.per_second)

    def __iter__(self) -> Iterator[Fraction]:
        return (Fraction(tick, self.per_second) for tick in self.ticks.tolist())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        if not isinstance(other, ArrivalTimes):
            return tuple(self) == tuple(other)
        same = self.per_second == other.per_second or not len(self)
        return bool(same and np.array_equal(self.ticks, other.ticks))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        if not len(self):
            return "ArrivalTimes()"
        return f"ArrivalTimes({len(self)} from {float(self[0]):g} s to {float(self[-1]):g} s)"

    @classmethod
    def joined(cls, parts: Sequence["ArrivalTimes"]) -> "ArrivalTimes":
        """Return the concatenation of several sequences of times."""
        per_second = lcm(*(part.per_second for part in parts))
        return cls(np.concatenate([part.ticks_of(per_second) for part in parts]), per_second)

    def plus(self, seconds: Fraction) -> "ArrivalTimes":
        """Return all times plus a number of seconds, which may be negative."""
        per_second = lcm(self.per_second, seconds.denominator)
        ticks, more = self.ticks_of(per_second), int(seconds * per_second)
        if _largest(ticks) + abs(more) > _MAX_INT64:
            ticks = ticks.astype(object)
        return ArrivalTimes(ticks + more, per_second)

    def repeated(self, times: int) -> "ArrivalTimes":
        """Return the times of ``times`` passes, one mean gap (in whole ticks) apart."""
        ticks = self.ticks
        if not len(ticks):
            return self
        span = int(ticks[-1] - ticks[0])
        period = span + span // max(len(ticks) - 1, 1)
        if _largest(ticks) + times * period > _MAX_INT64:
            ticks = ticks.astype(object)
        shifts = np.repeat(np.arange(times).astype(ticks.dtype) * period, len(ticks))
        return ArrivalTimes(np.tile(ticks, times) + shifts, self.per_second)

    def since_first(self) -> "ArrivalTimes":
        """Return the times minus the first time."""
        return self.plus(-self[0]) if len(self) else self

    def at(self, indices: IntArray | BoolArray) -> "ArrivalTimes":
        """Return the times selected by an index array or a mask."""
        return ArrivalTimes(self.ticks[indices], self.per_second)

    def scaled(self, factor: Fraction) -> "ArrivalTimes":
        """Return all times multiplied by a factor > 0."""
        ticks = self.ticks
        if factor.numerator != 1:
            # The product may exceed 64 bits.
            ticks = ticks.astype(object) * factor.numerator
        return ArrivalTimes(ticks, self.per_second * factor.denominator)

    def seconds(self) -> FloatArray:
        """Return the float64 nearest to each time, shape (n,) [s]."""
        return self._nearest(self.ticks)

    def scaled_seconds(self, factor: Fraction) -> FloatArray:
        """Return the float64 nearest to each time multiplied by a factor > 0, shape (n,) [s]."""
        # In pieces, as the products may be Python integers, which take much memory.
        parts = (self[k : k + _PIECE].scaled(factor) for k in range(0, len(self), _PIECE))
        return np.concatenate([np.zeros(0), *(part.seconds() for part in parts)])

    def rounded_up(self, units_per_second: Fraction) -> IntArray:
        """Return the first whole clock unit at or after each time, shape (n,).

        The units are Python integers if they exceed int64, as ``ticks`` are.
        """
        ratio = units_per_second / self.per_second
        ticks = self.ticks
        if _largest(ticks) * ratio.numerator > _MAX_INT64 or ratio.denominator > _MAX_INT64:
            ticks = ticks.astype(object)
        return _shortest(-(-ticks * ratio.numerator // ratio.denominator))

    def gaps(self) -> FloatArray:
        """Return the float64 nearest to each difference of consecutive times, shape (n-1,) [s]."""
        # Exact differences first: with a large origin, floats would lose digits of the gaps.
        return self._nearest(np.diff(self.ticks))

    def ticks_of(self, per_second: int) -> IntArray:
        """Return the times in ticks of a finer resolution, a multiple of the present one."""
        factor = per_second // self.per_second
        longer = _largest(self.ticks) * factor > _MAX_INT64
        return (self.ticks.astype(object) if longer else self.ticks) * factor

    def _nearest(self, ticks: IntArray) -> FloatArray:
        if max(_largest(ticks), self.per_second) <= _EXACT_FLOAT:
            return np.asarray(ticks.astype(np.int64) / self.per_second, dtype=np.float64)
        # Division of Python integers is correctly rounded for any size.
        return np.array([tick / self.per_second for tick in ticks.tolist()], dtype=np.float64)


def _exact(time: object, index: int) -> Fraction:
    try:
        return Fraction(cast("float | str", time))
    except (TypeError, ValueError, ArithmeticError):
        remedy = "give seconds as numbers; Workload.from_frame reads dates"
        plain = time.item() if isinstance(time, np.floating) else time
        what = f"{shown(plain)} is not a time in seconds"
        raise InputError(f"arrival_times[{index}]", what, remedy) from None


def _largest(ticks: IntArray) -> int:
    return max(-int(ticks.min()), int(ticks.max())) if len(ticks) else 0


def _shortest(ticks: IntArray) -> IntArray:
    """Return the ticks as int64 if they fit."""
    return ticks.astype(np.int64) if _largest(ticks) <= _MAX_INT64 else ticks


#: Tokens per block; the value of Mooncake's traces, the only public ones with hashes.
BLOCK_TOKENS = 512


@dataclass(frozen=True, eq=False)
class BlockHashes:
    """Hashes of the blocks of each prompt, as arrays.

    As in serving engines, a hash covers its block and all blocks before it: equal hashes mean
    equal prompts up to the end of that block.

    Parameters
    ----------
    ids : IntArray
        Shape (m,): hashes of all requests, concatenated.
    first : IntArray
        Shape (n + 1,): the hashes of request i are ``ids[first[i]:first[i + 1]]``, empty if
        unknown.
    """

    ids: IntArray
    first: IntArray

    @classmethod
    def of(cls, value: "Sequence[Sequence[int]] | BlockHashes", where: str) -> "BlockHashes":
        """Return block hashes given as one list of integers per request.

        Raises
        ------
        InputError
            If a hash is not an integer; the message names the request.
        """
        if isinstance(value, BlockHashes):
            return value
        rows = [
            integer_vector(row, f"{where}[{i}]") for i, row in enumerate(entries(value, where))
        ]
        return cls.joined(rows)

    @classmethod
    def joined(cls, rows: Sequence[IntArray]) -> Self:
        """Return block hashes given as one array per request."""
        first = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=first[1:])
        return cls(np.concatenate([np.zeros(0, dtype=np.int64), *rows]), first)

    def __len__(self) -> int:
        return len(self.first) - 1

    def __getitem__(self, request: int) -> IntArray:
        """Return the hashes of one request."""
        return self.ids[self.first[request] : self.first[request + 1]]

    def part(self, which: IntArray | BoolArray | slice) -> "BlockHashes":
        """Return the hashes of selected requests, by indices in order, a mask or a slice."""
        order = np.arange(len(self))[which]
        return BlockHashes.joined([self[request] for request in order.tolist()])

    def repeated(self, times: int) -> "BlockHashes":
        """Return the hashes of ``times`` passes over the requests; passes share no block."""
        counts = np.tile(np.diff(self.first), times)
        first = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        return BlockHashes(apart(self.ids, times), first)

    def check(self, prompt_tokens: IntArray, where: str) -> None:
        """Raise an error if the hashes do not match the prompts.

        Raises
        ------
        InputError
            If the number of lists differs from that of prompts, or a non-empty list does not have
            one hash per block.
        """
        if len(self) != len(prompt_tokens):
            what = f"{len(self)} lists of hashes for {len(prompt_tokens)} prompts"
            raise InputError(where, what, "give one per request or none at all")
        counts = np.diff(self.first)
        wrong = np.flatnonzero((counts > 0) & (counts != num_blocks(prompt_tokens)))
        if len(wrong):
            i = int(wrong[0])
            what = wrong_length(int(counts[i]), int(prompt_tokens[i]))
            raise InputError(f"{where}[{i}]", what, "give one hash per block, or an empty list")


def apart(names: IntArray, times: int) -> IntArray:
    """Return the identifiers of ``times`` passes, shape (times·n,), different in each pass."""
    kinds, numbered = np.unique(names, return_inverse=True)
    passes = np.repeat(np.arange(times, dtype=np.int64), len(names))
    return np.tile(numbered.reshape(-1), times) + passes * len(kinds)


def num_blocks(prompt_tokens: IntArray) -> IntArray:
    """Return the number of blocks of each prompt; the last block may be shorter."""
    return -(-prompt_tokens // BLOCK_TOKENS)


def wrong_length(count: int, prompt: int) -> str:
    """Return the error text for a prompt with a wrong number of block hashes."""
    blocks = -(-prompt // BLOCK_TOKENS)
    return f"{count} hashes, not {blocks}: one per {BLOCK_TOKENS} of {prompt} prompt tokens"
