"""The exact vertex: from good, bad and missing floats."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations import CapabilityError
from formulations.fluid.programs import build_throughput
from formulations.linear import ExactLinear, exact_linear, exact_vertex, is_optimal_pair
from tests.formulations.fluid.cases import golden, plain


def linear(cost: list[int], matrix: list[list[int]], bound: list[int]) -> ExactLinear:
    """Return a program of integers."""
    return ExactLinear(
        columns=tuple(f"x{j}" for j in range(len(cost))),
        rows=tuple(f"r{i}" for i in range(len(bound))),
        cost=tuple(map(Fraction, cost)),
        matrix=tuple({j: Fraction(a) for j, a in enumerate(row) if a} for row in matrix),
        bound=tuple(map(Fraction, bound)),
    )


def test_by_hand() -> None:
    """Max x + y, x + 2y <= 4, 3x + y <= 6: (8/5, 6/5), worth 14/5; prices (2/5, 1/5)."""
    program = linear([1, 1], [[1, 2], [3, 1]], [4, 6])
    exact = exact_vertex(program)
    assert exact.point == (Fraction(8, 5), Fraction(6, 5))
    assert exact.prices == (Fraction(2, 5), Fraction(1, 5))
    near = exact_vertex(program, np.array([1.6000001, 1.2]))
    assert (near.point, near.pivots) == (exact.point, 0)


@given(
    st.integers(1, 4).flatmap(
        lambda n: st.tuples(
            st.lists(st.integers(-5, 5), min_size=n, max_size=n),
            st.lists(
                st.tuples(st.lists(st.integers(-4, 6), min_size=n, max_size=n), st.integers(0, 9)),
                max_size=4,
            ),
            st.lists(st.floats(0, 9), min_size=n, max_size=n),
        )
    )
)
def test_any_start_ends_at_a_proven_optimum(
    case: tuple[list[int], list[tuple[list[int], int]], list[float]],
) -> None:
    """Random rows in a box, degenerate ones included, starting from random floats."""
    cost, rows, near = case
    n = len(cost)
    box = [[int(i == j) for j in range(n)] for i in range(n)]
    program = linear(cost, box + [row for row, _ in rows], [7] * n + [bound for _, bound in rows])
    cold, warm = exact_vertex(program), exact_vertex(program, np.array(near))
    assert cold.point is not None
    assert warm.point is not None
    assert is_optimal_pair(program, cold.point, cold.prices)
    assert is_optimal_pair(program, warm.point, warm.prices)
    assert program.value(cold.point) == program.value(warm.point)


def test_infeasible_rows_come_with_their_proof() -> None:
    """X >= 3 and x <= 2: rows −x <= −3, x <= 2, added they say 0 <= −1."""
    program = linear([-1], [[-1], [1]], [-3, 2])
    end = exact_vertex(program)
    assert end.point is None
    assert program.proves_infeasible(end.prices)
    assert not program.proves_infeasible((Fraction(1), Fraction(0)))
    assert not program.proves_infeasible((Fraction(1), Fraction(2)))


def test_what_it_cannot_take() -> None:
    """No slack basis, no bound, too many cells."""
    with pytest.raises(ValueError, match="neither"):
        exact_vertex(linear([1], [[-1]], [-3]))
    with pytest.raises(ValueError, match="unbounded"):
        exact_vertex(linear([1], [[-1]], [3]))
    with pytest.raises(CapabilityError, match="exact arithmetic"):
        exact_vertex(linear([1] * 400, [[1] * 400] * 300, [1] * 300))


def test_violations_are_amounts() -> None:
    """Excess of rows, negative columns, unpaid columns, negative prices."""
    program = linear([2, 1], [[1, 1]], [4])
    assert program.primal_violations((Fraction(5), Fraction(-1, 2))) == {
        "x1": Fraction(1, 2),
        "r0": Fraction(1, 2),
    }
    assert program.dual_violations((Fraction(3, 2),)) == {"x0": Fraction(1, 2)}
    assert program.dual_violations((Fraction(-1),)) == {"r0": 1, "x0": 3, "x1": 2}


def test_a_statement_is_read_in_rationals() -> None:
    """Pyomo keeps 1/18's consequences: K = 72/13 for I0 with C = 4."""
    program = exact_linear(build_throughput(golden(memory=4)))
    assert dict(zip(program.rows, program.bound, strict=True))["work[0]"] == Fraction(72, 13)
    assert plain(*program.cost) == (2, 3)


def test_bounded_variables_are_refused() -> None:
    """Bounds belong in rows, or their prices would be lost."""
    import pyomo.environ as pyo

    model = pyo.ConcreteModel()
    model.x = pyo.Var(domain=pyo.NonNegativeReals, bounds=(0, 2))
    model.objective = pyo.Objective(expr=-model.x)
    with pytest.raises(ValueError, match="as rows"):
        exact_linear(model)
