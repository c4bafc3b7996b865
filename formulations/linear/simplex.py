"""From a solver's floating-point vertex to the exact one, by pivots in rationals.

The tableau writes basic variables in terms of the others; variable ``n + i`` is the slack of
row i. It starts at the slacks, is pivoted towards the vertex that the floats describe, and then
goes on by Bland's rule (primal or dual) until it is optimal. With a correct vertex nothing remains
to be done; with a wrong one, the end is still exact, only later.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from formulations.arrays import FloatArray
from formulations.errors import CapabilityError
from formulations.linear.exact_linear import ExactLinear

_ZERO = Fraction(0)
#: Most cells of a tableau; fractions are some thousand times slower than floats.
_MAX_CELLS = 100_000
#: Below this share of the largest value a float counts as 0 when a vertex is looked for.
_TINY = 1e-9


@dataclass(frozen=True)
class ExactVertex:
    """An end of the exact method.

    Parameters
    ----------
    point : tuple of Fraction, optional
        An optimum; None if there is no feasible point.
    prices : tuple of Fraction
        Optimal dual prices of the rows or, without a point, a Farkas certificate.
    pivots : int
        Exact pivots after the vertex that the floats describe.
    """

    point: tuple[Fraction, ...] | None
    prices: tuple[Fraction, ...]
    pivots: int


def exact_vertex(program: ExactLinear, near: FloatArray | None = None) -> ExactVertex:
    """Solve exactly, starting from the vertex that a float point describes.

    Parameters
    ----------
    program : ExactLinear
        With ``b >= 0`` or ``c <= 0``, so that the slacks are a basis to fall back on.
    near : FloatArray, optional
        Shape (n,): what a solver found.

    Raises
    ------
    CapabilityError
        If the tableau is too large for rationals.
    """
    cells = len(program.rows) * (len(program.rows) + len(program.columns))
    if cells > _MAX_CELLS:
        raise CapabilityError(
            "program",
            f"{cells} cells are too many for exact arithmetic",
            f"use {_MAX_CELLS} at most: fewer classes or workers",
        )
    tableau = _Tableau(program)
    if near is not None:
        tableau.move_to(program, near)
        if not (tableau.is_primal_feasible or tableau.is_dual_feasible):
            tableau = _Tableau(program)
    return tableau.solved(len(program.columns))


class _Tableau:
    """Basic variable i is ``constant[i] − Σ_v rows[i][v]·v`` over the nonbasic variables v."""

    def __init__(self, program: ExactLinear) -> None:
        n = len(program.columns)
        self.basic = [n + i for i in range(len(program.rows))]
        self.rows = [dict(row) for row in program.matrix]
        self.constant = list(program.bound)
        self.gain = {j: c for j, c in enumerate(program.cost) if c != 0}
        self.pivots = 0

    @property
    def is_primal_feasible(self) -> bool:
        """Whether no basic variable is negative."""
        return all(b >= 0 for b in self.constant)

    @property
    def is_dual_feasible(self) -> bool:
        """Whether no nonbasic variable would gain."""
        return all(c <= 0 for c in self.gain.values())

    def pivot(self, i: int, entering: int) -> None:
        """Exchange the basic variable of row i for a nonbasic one."""
        row, leaving = self.rows[i], self.basic[i]
        a = row.pop(entering)
        row = {v: c / a for v, c in row.items()}
        row[leaving] = 1 / a
        self.rows[i], self.basic[i] = row, entering
        self.constant[i] /= a
        for k, other in enumerate(self.rows):
            if k != i and (factor := other.pop(entering, _ZERO)) != 0:
                _subtract(other, factor, row)
                self.constant[k] -= factor * self.constant[i]
        if (factor := self.gain.pop(entering, _ZERO)) != 0:
            _subtract(self.gain, factor, row)
        self.pivots += 1

    def move_to(self, program: ExactLinear, near: FloatArray) -> None:
        """Bring into the basis what the floats show to be positive."""
        n = len(program.columns)
        least = _TINY * max(1e-300, float(abs(near).max(initial=0.0)))
        point = [Fraction(float(x)) for x in near]
        loose = set()
        for i, bound in enumerate(program.bound):
            terms = [abs(float(a * point[j])) for j, a in program.matrix[i].items()]
            slack = float(bound - program.activity(i, point))
            if slack > _TINY * max([abs(float(bound)), *terms]):
                loose.add(n + i)
        for j in (j for j in range(n) if near[j] > least):
            rows = (
                i
                for i, row in enumerate(self.rows)
                if self.basic[i] >= n and self.basic[i] not in loose and row.get(j, _ZERO) != 0
            )
            if (row_index := next(rows, None)) is not None:
                self.pivot(row_index, j)
        self.pivots = 0

    def solved(self, n: int) -> ExactVertex:
        """Go on by Bland's rule, which cannot cycle, to an optimum or a proof that none is."""
        if not (self.is_primal_feasible or self.is_dual_feasible):
            raise ValueError("neither b >= 0 nor c <= 0")
        primal = self.is_primal_feasible
        while not (self.is_primal_feasible and self.is_dual_feasible):
            if primal:
                self._improve()
            elif (farkas := self._repair(n)) is not None:
                return ExactVertex(None, farkas, self.pivots)
        values = dict(zip(self.basic, self.constant, strict=True))
        return ExactVertex(
            point=tuple(values.get(j, _ZERO) for j in range(n)),
            prices=tuple(-self.gain.get(n + i, _ZERO) for i in range(len(self.rows))),
            pivots=self.pivots,
        )

    def _improve(self) -> None:
        """Make one primal pivot: the first variable that gains, where it is blocked first."""
        entering = min(v for v, c in self.gain.items() if c > 0)
        ratios = [
            (self.constant[i] / row[entering], self.basic[i], i)
            for i, row in enumerate(self.rows)
            if row.get(entering, _ZERO) > 0
        ]
        if not ratios:
            raise ValueError("the program is unbounded")
        self.pivot(min(ratios)[2], entering)

    def _repair(self, n: int) -> tuple[Fraction, ...] | None:
        """Make one dual pivot, or return the Farkas certificate that a row is."""
        i = min((v, i) for i, v in enumerate(self.basic) if self.constant[i] < 0)[1]
        row = self.rows[i]
        ratios = [(self.gain.get(v, _ZERO) / a, v) for v, a in row.items() if a < 0]
        if ratios:
            self.pivot(i, min(ratios)[1])
            return None
        # Here a variable that must not be negative equals a negative number less non-negatives.
        weights = row | {self.basic[i]: Fraction(1)}
        return tuple(weights.get(n + k, _ZERO) for k in range(len(self.rows)))


def _subtract(row: dict[int, Fraction], factor: Fraction, other: dict[int, Fraction]) -> None:
    for v, c in other.items():
        value = row.get(v, _ZERO) - factor * c
        if value == 0:
            row.pop(v, None)
        else:
            row[v] = value


def is_optimal_pair(
    program: ExactLinear, point: Sequence[Fraction], prices: Sequence[Fraction]
) -> bool:
    """Return whether both are feasible and worth the same: duality then proves both optimal."""
    feasible = not program.primal_violations(point) and not program.dual_violations(prices)
    return feasible and program.value(point) == program.dual_value(prices)
