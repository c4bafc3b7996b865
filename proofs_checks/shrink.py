"""Make a counterexample small: greedy moves on plain data until none helps.

Data are nested dicts and lists of integers (anything else is left alone). A move leaves out an
entry of a list, leaves out the same position of every list in a list of lists, or makes one
integer, or all integers of one list, smaller in absolute value. A move is taken if the verifier
still calls the outcome a counterexample. The result is minimal in this sense: no single move keeps
it a counterexample.
"""

from collections.abc import Callable, Iterator
from typing import Any

from formulations.errors import InputError
from proofs_checks.evidence import Data

#: Most candidates tried; far above what any claim of ours needs.
_MOST_CANDIDATES = 20_000


def shrink(data: Data, is_counterexample: Callable[[Data], bool]) -> Data:
    """Return a smallest counterexample that single moves reach from ``data``.

    Parameters
    ----------
    data : dict
        A counterexample.
    is_counterexample : callable
        Tells whether a candidate is one. What it cannot read (it raises `ValueError`,
        `IndexError`, `KeyError` or `ArithmeticError`) is none.

    Raises
    ------
    InputError
        If ``data`` is no counterexample to begin with.
    """
    if not _accepts(is_counterexample, data):
        raise InputError("counterexample", "the verifier does not confirm it", "mend the search")
    left = _MOST_CANDIDATES
    improved = True
    while improved:
        improved = False
        for candidate in _smaller(data):
            left -= 1
            if left < 0:
                return data
            if _accepts(is_counterexample, candidate):
                data, improved = candidate, True
                break
    return data


def size(data: Any) -> tuple[int, int]:
    """Return how many integers data hold, and the sum of their absolute values."""
    if isinstance(data, bool) or not isinstance(data, int | list | dict):
        return 0, 0
    if isinstance(data, int):
        return 1, abs(data)
    parts = [size(part) for part in (data.values() if isinstance(data, dict) else data)]
    return sum(count for count, _ in parts), sum(total for _, total in parts)


def _accepts(is_counterexample: Callable[[Data], bool], data: Data) -> bool:
    try:
        return is_counterexample(data)
    except (ValueError, IndexError, KeyError, ArithmeticError):
        return False


def _smaller(data: Any) -> Iterator[Any]:
    """Yield the outcomes of all single moves, the boldest first."""
    if isinstance(data, dict):
        for key, part in data.items():
            for smaller in _smaller(part):
                yield data | {key: smaller}
    elif isinstance(data, list):
        yield from _shorter(data)
        yield from _lower_together(data)
        for i, part in enumerate(data):
            for smaller in _smaller(part):
                yield [*data[:i], smaller, *data[i + 1 :]]
    elif isinstance(data, int) and not isinstance(data, bool):
        yield from _closer_to_zero(data)


def _shorter(data: list[Any]) -> Iterator[list[Any]]:
    for i in range(len(data)):
        yield [*data[:i], *data[i + 1 :]]
    if data and all(isinstance(row, list) for row in data):
        for j in range(min(len(row) for row in data)):
            yield [[*row[:j], *row[j + 1 :]] for row in data]


def _lower_together(data: list[Any]) -> Iterator[list[int]]:
    if len(data) > 1 and all(type(entry) is int for entry in data):
        least = min(data)
        if least > 0:
            yield [entry - least for entry in data]
            yield [entry - 1 for entry in data]


def _closer_to_zero(value: int) -> Iterator[int]:
    sign = 1 if value > 0 else -1
    # Half of it, a quarter, an eighth ... less: large values need few moves.
    steps = (abs(value) - (abs(value) >> k) for k in range(1, abs(value).bit_length() + 1))
    for smaller in dict.fromkeys((0, 1, *steps, abs(value) - 1)):
        if 0 <= smaller < abs(value):
            yield sign * smaller
