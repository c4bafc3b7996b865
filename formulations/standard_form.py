"""Sparse standard form: the input of every matrix backend.

    minimise    objective · x + offset
    subject to  row_lower <= matrix x <= row_upper,   lower <= x <= upper,
                x_j integer where ``integral[j]``

A program is stated once in Pyomo; `compile_model` compiles the statement into this form. The
entries are float64, as solvers require; `compile_model` refuses entries that float64 would round,
so the form of an integer program is exact.

If compiling is too slow, `FormWriter` writes a standard form directly, one family of rows or
columns at a time. A test compares every row, column and coefficient with the compiled Pyomo
statement.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from formulations.arrays import BoolArray, FloatArray, IntArray
from formulations.errors import CapabilityError

# SciPy loads as slowly as NumPy, and many imports of this module never solve anything.
if TYPE_CHECKING:
    from scipy.sparse import csr_array

F = TypeVar("F", bound=Callable[..., Any])
#: Integers of at least this size are not all representable in float64.
EXACT_LIMIT = 2.0**53
#: Largest number of nonzeros of a program that is written directly.
MAX_NONZEROS = 20_000_000


@dataclass(frozen=True)
class StandardForm:
    """A mixed-integer linear program of n columns and m rows; see the module docstring.

    Parameters
    ----------
    objective : FloatArray
        Shape (n,).
    offset : float
        Constant of the objective.
    matrix : csr_array
        Shape (m, n).
    row_lower, row_upper : FloatArray
        Shape (m,), infinite where a side is open.
    lower, upper : FloatArray
        Shape (n,), infinite where a side is open.
    integral : BoolArray
        Shape (n,).
    row_names, column_names : tuple of str
        Names as Pyomo writes them, such as ``"x[3,0]"``.

    Raises
    ------
    CapabilityError
        If a coefficient is too large for float64 to hold exactly.
    """

    objective: FloatArray
    offset: float
    matrix: "csr_array"
    row_lower: FloatArray
    row_upper: FloatArray
    lower: FloatArray
    upper: FloatArray
    integral: BoolArray
    row_names: tuple[str, ...]
    column_names: tuple[str, ...]

    def __post_init__(self) -> None:
        """Raise if an entry is so large that float64 may have rounded it."""
        for array in (self.objective, self.matrix.data, self.row_lower, self.row_upper):
            finite = array[np.isfinite(array)]
            if finite.size and np.abs(finite).max() >= EXACT_LIMIT:
                what = f"{np.abs(finite).max():.3e} is beyond 2^53, where float64 rounds integers"
                remedy = 'use smaller or coarser numbers, or method="exact"'
                raise CapabilityError("coefficient", what, remedy)

    @property
    def num_columns(self) -> int:
        """Number of variables."""
        return len(self.objective)

    @property
    def num_rows(self) -> int:
        """Number of constraints."""
        return len(self.row_lower)

    @property
    def is_integer(self) -> bool:
        """Whether all variables, coefficients and costs are integers, hence every objective."""
        whole = (self.matrix.data % 1 == 0).all() and (self.objective % 1 == 0).all()
        return bool(self.integral.all() and whole)

    def row_reach(self) -> float:
        """Return an upper bound on ``|row sum|`` over all rows; unbounded variables count as 1."""
        return float((abs(self.matrix) @ self._largest()).max(initial=0.0))

    def reach(self) -> float:
        """Return an upper bound on ``|row sum|`` over all rows and on ``|objective|``."""
        return max(self.row_reach(), float(np.abs(self.objective) @ self._largest()))

    def _largest(self) -> FloatArray:
        largest: FloatArray = np.maximum(np.abs(self.lower), np.abs(self.upper))
        return np.where(np.isfinite(largest), largest, 1.0)

    def column_index(self) -> dict[str, int]:
        """Return the index of each column by name."""
        return {name: j for j, name in enumerate(self.column_names)}


def constraint(model: Any, *sets: Any, name: str | None = None) -> Callable[[F], F]:
    """Decorate a function as the rule of a Pyomo constraint, indexed by the given sets.

    Parameters
    ----------
    model : pyomo.environ.ConcreteModel
        Model that gets the constraint.
    sets
        Index sets; none for a single constraint.
    name : str, optional
        Name of the constraint; by default that of the function.
    """
    from formulations.modelling import pyo

    def add(rule: F) -> F:
        setattr(model, name or rule.__name__, pyo.Constraint(*sets, rule=rule, doc=rule.__doc__))
        return rule

    return add


def compile_model(model: Any) -> StandardForm:
    """Compile a Pyomo model of linear constraints and one minimisation objective.

    Variables that occur in no row and not in the objective are dropped, as are rows without
    variables.

    Parameters
    ----------
    model : pyomo.environ.ConcreteModel
        The statement.

    Returns
    -------
    StandardForm
        Equivalent to the statement, with the same names of rows and columns.
    """
    from pyomo.opt import WriterFactory
    from scipy.sparse import csr_array

    compiled = WriterFactory("compile_standard_form").write(model, mixed_form=True)
    columns = compiled.columns
    sides = np.array([row.bound_type for row in compiled.rows], dtype=np.int64)
    rhs = np.asarray(compiled.rhs, dtype=np.float64)
    return StandardForm(
        objective=np.asarray(compiled.c.todense(), dtype=np.float64).reshape(-1),
        offset=float(compiled.c_offset[0]),
        matrix=csr_array(compiled.A),
        # Pyomo marks a row "<= rhs" with 1, ">= rhs" with -1, "= rhs" with 0.
        row_lower=np.where(sides == 1, -np.inf, rhs),
        row_upper=np.where(sides == -1, np.inf, rhs),
        lower=_bounds([v.lb for v in columns], -np.inf),
        upper=_bounds([v.ub for v in columns], np.inf),
        integral=np.array([v.is_integer() for v in columns], dtype=np.bool_),
        row_names=tuple(row.constraint.name for row in compiled.rows),
        column_names=tuple(v.name for v in columns),
    )


def _bounds(values: Sequence[float | None], missing: float) -> FloatArray:
    return np.array([missing if v is None else v for v in values], dtype=np.float64)


#: One number for a whole family, or one for each of its members.
Numbers = FloatArray | IntArray | float


def check_size(nonzeros: int, where: str, remedy: str, most: int = MAX_NONZEROS) -> None:
    """Raise if a program has more than ``most`` nonzeros, which would take too long to solve.

    Raises
    ------
    CapabilityError
        If ``nonzeros`` exceeds ``most``.
    """
    if nonzeros > most:
        what = f"about {nonzeros} nonzeros are more than {most}"
        raise CapabilityError(where, what, remedy)


class FormWriter:
    """A builder of standard forms, which collects columns, rows and coefficients."""

    def __init__(self) -> None:
        self._columns: list[str] = []
        self._rows: list[str] = []
        self._of_columns: list[FloatArray] = []
        self._of_rows: list[FloatArray] = []
        self._places: list[IntArray] = []
        self._values: list[FloatArray] = []

    def columns(
        self, names: Iterable[str], *, lower: Numbers = 0, upper: Numbers = 1, cost: Numbers = 0
    ) -> int:
        """Add integer variables, by default binary ones at no cost; return the first column."""
        first = len(self._columns)
        self._columns += names
        self._of_columns.append(_table(len(self._columns) - first, lower, upper, cost))
        return first

    def rows(
        self, names: Iterable[str], *, lower: Numbers = -np.inf, upper: Numbers = np.inf
    ) -> int:
        """Add constraints ``lower <= row <= upper`` without entries; return the first row."""
        first = len(self._rows)
        self._rows += names
        self._of_rows.append(_table(len(self._rows) - first, lower, upper))
        return first

    def add(self, row: IntArray | int, column: IntArray, value: Numbers) -> None:
        """Add coefficients at (row, column) pairs; coefficients of the same pair add up."""
        self._places.append(np.stack(np.broadcast_arrays(row, column)).astype(np.int64))
        self._values.append(np.broadcast_to(np.asarray(value, dtype=np.float64), column.shape))

    def constraints(
        self,
        names: Iterable[str],
        row: IntArray | int,
        column: IntArray,
        value: Numbers,
        *,
        lower: Numbers = -np.inf,
        upper: Numbers = np.inf,
    ) -> int:
        """Add constraints with coefficients, and return the first row (where ``row`` is 0)."""
        first = self.rows(names, lower=lower, upper=upper)
        self.add(first + row, column, value)
        return first

    def form(self, offset: float = 0.0) -> StandardForm:
        """Return the collected standard form; rows without coefficients are dropped."""
        from scipy.sparse import coo_array, csr_array

        lower, upper, cost = np.concatenate(self._of_columns, axis=1)
        row_lower, row_upper = np.concatenate(self._of_rows, axis=1)
        matrix = csr_array(
            coo_array(
                (np.concatenate(self._values), tuple(np.concatenate(self._places, axis=1))),
                shape=(len(self._rows), len(self._columns)),
            )
        )
        matrix.eliminate_zeros()
        kept = np.flatnonzero(np.diff(matrix.indptr))
        return StandardForm(
            objective=cost,
            offset=float(offset),
            matrix=csr_array(matrix[kept]),
            row_lower=row_lower[kept],
            row_upper=row_upper[kept],
            lower=lower,
            upper=upper,
            integral=np.ones(len(cost), dtype=np.bool_),
            row_names=tuple(self._rows[r] for r in kept),
            column_names=tuple(self._columns),
        )


def _table(length: int, *rows: Numbers) -> FloatArray:
    table = np.empty((len(rows), length))
    for row, numbers in zip(table, rows, strict=True):
        row[:] = numbers
    return table
