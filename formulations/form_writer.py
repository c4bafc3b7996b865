"""A standard form written directly, family by family, where compiling the statement is too slow.

The statement in Pyomo stays what counts: a test compiles it and compares every row, column and
coefficient with what is written.
"""

from collections.abc import Iterable

import numpy as np

from formulations.arrays import FloatArray, IntArray
from formulations.standard_form import StandardForm

#: One number for a whole family, or one for each of its members.
Numbers = FloatArray | IntArray | float


class FormWriter:
    """Columns, rows and entries of an integer program, gathered."""

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
        """Add a coefficient at each of these places; those at the same place add up."""
        self._places.append(np.stack(np.broadcast_arrays(row, column)).astype(np.int64))
        self._values.append(np.broadcast_to(np.asarray(value, dtype=np.float64), column.shape))

    def form(self, offset: float = 0.0) -> StandardForm:
        """Return what was gathered, without the rows in which no variable occurs."""
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
