"""Linear programs in exact rationals, read from Pyomo models and solved by an exact simplex.

    maximise c·x   subject to   A x <= b,  x >= 0

Pyomo keeps the fractions of a model. One statement therefore gives both the floats for a solver
and the rationals that verify its answer.

`exact_vertex` goes from a solver's floating-point vertex to the exact one, by pivots in rationals.
The tableau writes basic variables in terms of the others; variable ``n + i`` is the slack of
row i. It starts at the slack basis, pivots to the vertex that the floats describe, and continues
with Bland's rule (primal or dual) until it is optimal. A correct vertex needs no further pivot. A
wrong one costs further pivots, and the result is still exact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from formulations.arrays import FloatArray
from formulations.errors import CapabilityError

_ZERO = Fraction(0)


@dataclass(frozen=True)
class ExactLinear:
    """A linear program of n columns and m rows; see the module docstring.

    Parameters
    ----------
    columns, rows : tuple of str
        Names.
    cost : tuple of Fraction
        ``c``, length n.
    matrix : tuple of mapping
        Row i of ``A`` as {column index: coefficient}, zeros left out.
    bound : tuple of Fraction
        ``b``, length m.
    integral : tuple of bool
        Whether each column takes integers only, length n; empty if none does.
    """

    columns: tuple[str, ...]
    rows: tuple[str, ...]
    cost: tuple[Fraction, ...]
    matrix: tuple[Mapping[int, Fraction], ...]
    bound: tuple[Fraction, ...]
    integral: tuple[bool, ...] = ()

    def value(self, point: Sequence[Fraction]) -> Fraction:
        """Return the objective ``c·x`` of a point, length n."""
        return sum((c * x for c, x in zip(self.cost, point, strict=True)), _ZERO)

    def dual_value(self, prices: Sequence[Fraction]) -> Fraction:
        """Return ``b·y`` of dual prices (length m), an upper bound on ``c·x`` if y is feasible."""
        return sum((b * y for b, y in zip(self.bound, prices, strict=True)), _ZERO)

    def activity(self, row: int, point: Sequence[Fraction]) -> Fraction:
        """Return the left-hand side ``(A x)_row`` of a row at a point."""
        return sum((a * point[j] for j, a in self.matrix[row].items()), _ZERO)

    def primal_violations(self, point: Sequence[Fraction]) -> dict[str, Fraction]:
        """Return the violated rows and signs of a point, and the amounts; empty if feasible."""
        violated = {name: -x for name, x in zip(self.columns, point, strict=True) if x < 0}
        for i, name in enumerate(self.rows):
            excess = self.activity(i, point) - self.bound[i]
            if excess > 0:
                violated[name] = excess
        return violated

    def dual_violations(self, prices: Sequence[Fraction]) -> dict[str, Fraction]:
        """Return the violated columns of ``yᵀA >= c`` and signs of y, and the amounts."""
        violated = {name: -y for name, y in zip(self.rows, prices, strict=True) if y < 0}
        for j, worth in enumerate(self._priced(prices)):
            if worth < self.cost[j]:
                violated[self.columns[j]] = self.cost[j] - worth
        return violated

    def proves_infeasible(self, prices: Sequence[Fraction]) -> bool:
        """Return whether prices y prove infeasibility (Farkas): ``y >= 0, yᵀA >= 0, b·y < 0``."""
        signs = all(y >= 0 for y in prices) and all(a >= 0 for a in self._priced(prices))
        return signs and self.dual_value(prices) < 0

    def _priced(self, prices: Sequence[Fraction]) -> list[Fraction]:
        total = [_ZERO] * len(self.columns)
        for row, y in zip(self.matrix, prices, strict=True):
            for j, a in row.items():
                total[j] += a * y
        return total


def allow_fractions() -> None:
    """Make Pyomo accept `Fraction` as a number; call it before stating a model with fractions."""
    from pyomo.common.numeric_types import RegisterNumericType

    RegisterNumericType(Fraction)


def exact_linear(model: Any) -> ExactLinear:
    """Convert a Pyomo minimisation over non-negative numbers with inequality rows to rationals.

    Parameters
    ----------
    model : pyomo.environ.ConcreteModel
        A linear model with integer or fractional coefficients; the objective is declared first.

    Returns
    -------
    ExactLinear
        The program, which maximises the negative of the model's objective.
    """
    from pyomo.environ import Constraint, Var, value
    from pyomo.repn import generate_standard_repn

    variables = list(model.component_data_objects(Var))
    if any(value(v.lb) != 0 or v.ub is not None for v in variables):
        raise ValueError("a variable has bounds other than x >= 0: state them as rows")
    index = {id(variable): j for j, variable in enumerate(variables)}

    def terms(expression: Any) -> tuple[dict[int, Fraction], Fraction]:
        form = generate_standard_repn(expression)
        pairs = zip(form.linear_vars, form.linear_coefs, strict=True)
        return {index[id(v)]: Fraction(a) for v, a in pairs if a != 0}, Fraction(form.constant)

    rows: list[tuple[str, dict[int, Fraction], Fraction]] = []
    for row in model.component_data_objects(Constraint):
        lower, body, upper = row.to_bounded_expression()
        coefficients, constant = terms(body)
        if upper is not None:
            rows.append((row.name, coefficients, Fraction(value(upper)) - constant))
        if lower is not None:
            negated = {j: -a for j, a in coefficients.items()}
            rows.append((row.name, negated, constant - Fraction(value(lower))))
    cost = terms(model.objective.expr)[0]
    return ExactLinear(
        columns=tuple(v.name for v in variables),
        rows=tuple(name for name, _, _ in rows),
        cost=tuple(-cost.get(j, _ZERO) for j in range(len(variables))),
        matrix=tuple(row for _, row, _ in rows),
        bound=tuple(b for _, _, b in rows),
        integral=tuple(v.is_integer() for v in variables),
    )


#: Largest number of tableau cells; fractions are some thousand times slower than floats.
_MAX_CELLS = 100_000
#: Floats below this fraction of the largest value count as 0 when the vertex is identified.
_TINY = 1e-9


@dataclass(frozen=True)
class ExactVertex:
    """The result of the exact simplex method.

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
    """Solve a linear program in rationals, starting from the vertex near a float point.

    Parameters
    ----------
    program : ExactLinear
        With ``b >= 0`` or ``c <= 0``, so that the slack basis is primal or dual feasible.
    near : FloatArray, optional
        Shape (n,): the point of a floating-point solver.

    Raises
    ------
    CapabilityError
        If the tableau is too large for rationals.
    """
    cells = len(program.rows) * (len(program.rows) + len(program.columns))
    if cells > _MAX_CELLS:
        what = f"{cells} cells of the tableau are too many for exact arithmetic"
        remedy = f"use {_MAX_CELLS} at most: reduce classes or workers"
        raise CapabilityError("program", what, remedy)
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
        """Whether no nonbasic variable has a positive gain."""
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
        """Pivot the variables that are positive at the float point into the basis."""
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
        """Pivot by Bland's rule, which cannot cycle, until optimal or proven infeasible."""
        if not (self.is_primal_feasible or self.is_dual_feasible):
            raise ValueError("the program has neither b >= 0 nor c <= 0: no feasible slack basis")
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
        """Make one primal simplex pivot: the first variable with a positive gain enters."""
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
        """Make one dual simplex pivot; if a row is infeasible, return its Farkas certificate."""
        i = min((v, i) for i, v in enumerate(self.basic) if self.constant[i] < 0)[1]
        row = self.rows[i]
        ratios = [(self.gain.get(v, _ZERO) / a, v) for v, a in row.items() if a < 0]
        if ratios:
            self.pivot(i, min(ratios)[1])
            return None
        # The row sets a non-negative variable to a negative constant minus non-negative terms.
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
    """Return whether point and prices are feasible with equal value, hence both optimal."""
    feasible = not program.primal_violations(point) and not program.dual_violations(prices)
    return feasible and program.value(point) == program.dual_value(prices)
