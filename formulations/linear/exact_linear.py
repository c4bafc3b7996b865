"""Linear programs in rationals: read off a Pyomo statement, and checked by duality.

    maximise c·x   subject to   A x <= b,  x >= 0

Pyomo keeps the fractions a model is stated with. So the one statement gives both the floats that a
solver sees and the rationals its answer is judged by.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

_ZERO = Fraction(0)


@dataclass(frozen=True)
class ExactLinear:
    """A linear program of n columns and m rows; see the module's text.

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
    """

    columns: tuple[str, ...]
    rows: tuple[str, ...]
    cost: tuple[Fraction, ...]
    matrix: tuple[Mapping[int, Fraction], ...]
    bound: tuple[Fraction, ...]

    def value(self, point: Sequence[Fraction]) -> Fraction:
        """Return ``c·x``."""
        return sum((c * x for c, x in zip(self.cost, point, strict=True)), _ZERO)

    def dual_value(self, prices: Sequence[Fraction]) -> Fraction:
        """Return ``b·y``: no feasible x is worth more, if y is dual feasible."""
        return sum((b * y for b, y in zip(self.bound, prices, strict=True)), _ZERO)

    def activity(self, row: int, point: Sequence[Fraction]) -> Fraction:
        """Return ``(A x)_row``."""
        return sum((a * point[j] for j, a in self.matrix[row].items()), _ZERO)

    def primal_violations(self, point: Sequence[Fraction]) -> dict[str, Fraction]:
        """Return how much each row or sign is violated; empty if x is feasible."""
        violated = {name: -x for name, x in zip(self.columns, point, strict=True) if x < 0}
        for i, name in enumerate(self.rows):
            excess = self.activity(i, point) - self.bound[i]
            if excess > 0:
                violated[name] = excess
        return violated

    def dual_violations(self, prices: Sequence[Fraction]) -> dict[str, Fraction]:
        """Return how much each column's ``yᵀA >= c`` or sign is violated."""
        violated = {name: -y for name, y in zip(self.rows, prices, strict=True) if y < 0}
        for j, worth in enumerate(self._priced(prices)):
            if worth < self.cost[j]:
                violated[self.columns[j]] = self.cost[j] - worth
        return violated

    def proves_infeasible(self, prices: Sequence[Fraction]) -> bool:
        """Return whether ``y >= 0, yᵀA >= 0, b·y < 0``: Farkas, so no x satisfies ``A x <= b``."""
        signs = all(y >= 0 for y in prices) and all(a >= 0 for a in self._priced(prices))
        return signs and self.dual_value(prices) < 0

    def _priced(self, prices: Sequence[Fraction]) -> list[Fraction]:
        total = [_ZERO] * len(self.columns)
        for row, y in zip(self.matrix, prices, strict=True):
            for j, a in row.items():
                total[j] += a * y
        return total


def allow_fractions() -> None:
    """Let Pyomo take `Fraction` for a number; call it before stating a model with any."""
    from pyomo.common.numeric_types import RegisterNumericType

    RegisterNumericType(Fraction)


def exact_linear(model: Any) -> ExactLinear:
    """Read a Pyomo minimisation over non-negative reals with inequality rows, in rationals.

    Parameters
    ----------
    model : pyomo.environ.ConcreteModel
        A linear model whose coefficients are integers and fractions, its objective first.

    Returns
    -------
    ExactLinear
        Maximising the negative of the model's objective.
    """
    from pyomo.environ import Constraint, Var, value
    from pyomo.repn import generate_standard_repn

    variables = list(model.component_data_objects(Var))
    if any(value(v.lb) != 0 or v.ub is not None for v in variables):
        raise ValueError("state the bounds of variables as rows")
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
    )
