"""A linear program in integers: what a file holds, exactly, and how to get back from it.

    minimise    cost · x + constant
    subject to  row_lower <= A x <= row_upper,   lower <= x <= upper

The value of the model is ``multiplier`` times this objective, and row r here is ``row_factors[r]``
times that row of the statement: whole numbers are what files and solvers keep exactly.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, lcm
from typing import Any

import numpy as np

from formulations.arrays import FloatArray, IntArray
from formulations.errors import CapabilityError
from formulations.exchange.names import file_name
from formulations.linear.exact_linear import ExactLinear
from formulations.standard_form import EXACT_LIMIT, StandardForm

#: Most entries written; a larger file would not be read in reasonable time either.
MAX_ENTRIES = 10_000_000
Side = int | None


@dataclass(frozen=True)
class ExactProgram:
    """A minimisation in integers; None is an open side.

    Parameters
    ----------
    column_names, row_names : tuple of str
        Names as files write them, see `file_name`.
    cost : tuple of int
        Length n.
    constant : int
        Added to the objective.
    starts, places, entries : arrays
        The matrix by rows: row r has ``entries[k]`` in column ``places[k]`` for k from
        ``starts[r]`` up to ``starts[r + 1]``.
    row_lower, row_upper, lower, upper : tuple of (int or None)
        Sides of the m rows, bounds of the n columns.
    integral : tuple of bool
        Length n.
    multiplier : Fraction
        The value of the model is this times the objective.
    row_factors : tuple of Fraction
        Length m: what the rows of the statement are multiplied by.
    """

    column_names: tuple[str, ...]
    row_names: tuple[str, ...]
    cost: tuple[int, ...]
    constant: int
    starts: IntArray
    places: IntArray
    entries: Any
    row_lower: tuple[Side, ...]
    row_upper: tuple[Side, ...]
    lower: tuple[Side, ...]
    upper: tuple[Side, ...]
    integral: tuple[bool, ...]
    multiplier: Fraction
    row_factors: tuple[Fraction, ...]

    @property
    def num_entries(self) -> int:
        """Entries of the matrix."""
        return len(self.places)

    @property
    def largest(self) -> int:
        """Largest number of the file, in absolute value."""
        sides = [*self.row_lower, *self.row_upper, *self.lower, *self.upper]
        numbers: list[int] = [*self.cost, self.constant, *self.entries.tolist()]
        return max(map(abs, [*numbers, *(side for side in sides if side is not None)]))

    def terms(self, row: int) -> Iterator[tuple[int, int]]:
        """Yield the (column, entry) of a row."""
        part = slice(self.starts[row], self.starts[row + 1])
        yield from zip(self.places[part].tolist(), self.entries[part].tolist(), strict=True)

    def objective(self, point: Sequence[Any]) -> Any:
        """Return the objective of the file at a point."""
        return self.constant + sum(c * x for c, x in zip(self.cost, point, strict=True) if c)


def of_form(form: StandardForm, scale: int = 1) -> ExactProgram:
    """Return the standard form of an integer program in integers.

    Parameters
    ----------
    form : StandardForm
        With whole numbers throughout.
    scale : int
        How many units of its objective make one unit of the model.

    Raises
    ------
    CapabilityError
        If the constant may have been rounded, or there are too many entries.
    """
    _check_size(form.matrix.nnz)
    if abs(form.offset) >= EXACT_LIMIT:
        raise CapabilityError(
            "constant of the objective",
            f"{form.offset:.3e} is beyond 2^53, where float64 rounds integers",
            "use smaller or coarser numbers",
        )
    cost, constant, common = _in_lowest_terms(_whole(form.objective), int(form.offset))
    return ExactProgram(
        column_names=tuple(file_name(name) for name in form.column_names),
        row_names=tuple(file_name(name) for name in form.row_names),
        cost=cost,
        constant=constant,
        starts=np.asarray(form.matrix.indptr),
        places=np.asarray(form.matrix.indices),
        entries=_checked_whole(form.matrix.data).astype(np.int64),
        row_lower=_sides(form.row_lower),
        row_upper=_sides(form.row_upper),
        lower=_sides(form.lower),
        upper=_sides(form.upper),
        integral=tuple(form.integral.tolist()),
        multiplier=Fraction(common, scale),
        row_factors=(Fraction(1),) * form.num_rows,
    )


def of_linear(linear: ExactLinear, *, minimised: bool = False) -> ExactProgram:
    """Return a program in rationals, each row and the objective scaled to whole numbers.

    Parameters
    ----------
    linear : ExactLinear
        It maximises ``c · x``; files minimise.
    minimised : bool
        Whether the model's own value is ``-c · x``, since it minimises.
    """
    _check_size(sum(len(row) for row in linear.matrix))
    unit = lcm(*(c.denominator for c in linear.cost))
    cost, constant, common = _in_lowest_terms([int(-c * unit) for c in linear.cost], 0)
    rows = [_scaled(row, bound) for row, bound in zip(linear.matrix, linear.bound, strict=True)]
    counts = [len(row) for row, _, _ in rows]
    entries = np.empty(sum(counts), dtype=object)
    entries[:] = [a for row, _, _ in rows for a in row.values()]
    n = len(linear.columns)
    return ExactProgram(
        column_names=tuple(file_name(name) for name in linear.columns),
        row_names=tuple(file_name(name) for name in linear.rows),
        cost=cost,
        constant=constant,
        starts=np.array([0, *np.cumsum(counts)], dtype=np.int64),
        places=np.array([j for row, _, _ in rows for j in row], dtype=np.int64),
        entries=entries,
        row_lower=(None,) * len(rows),
        row_upper=tuple(bound for _, bound, _ in rows),
        lower=(0,) * n,
        upper=(None,) * n,
        integral=(False,) * n,
        multiplier=Fraction(common if minimised else -common, unit),
        row_factors=tuple(factor for _, _, factor in rows),
    )


def _check_size(entries: int) -> None:
    if entries > MAX_ENTRIES:
        raise CapabilityError(
            "program", f"{entries:,} entries", f"use {MAX_ENTRIES:,} at most: a smaller problem"
        )


def _in_lowest_terms(cost: list[int], constant: int) -> tuple[tuple[int, ...], int, int]:
    """Return costs and constant divided by their common divisor, and that.

    Large common factors have led floating-point solvers to wrong optima.
    """
    common = gcd(constant, *cost) or 1
    return tuple(c // common for c in cost), constant // common, common


def _scaled(row: Any, bound: Fraction) -> tuple[dict[int, int], int, Fraction]:
    """Return a row and its bound times the least number that makes them whole, and that."""
    numbers = [*row.values(), bound]
    unit = lcm(*(a.denominator for a in numbers))
    common = gcd(*(int(a * unit) for a in numbers)) or 1
    factor = Fraction(unit, common)
    return {j: int(a * factor) for j, a in row.items()}, int(bound * factor), factor


def _checked_whole(values: FloatArray) -> FloatArray:
    if (values % 1 != 0).any():
        raise CapabilityError("program", "it has fractions", "state it in whole numbers")
    return values


def _whole(values: FloatArray) -> list[int]:
    return [int(value) for value in _checked_whole(values).tolist()]


def _sides(values: FloatArray) -> tuple[Side, ...]:
    finite = np.isfinite(values).tolist()
    numbers = np.where(np.isfinite(values), values, 0)
    return tuple(
        value if is_there else None
        for value, is_there in zip(_whole(numbers), finite, strict=True)
    )
