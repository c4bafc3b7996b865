"""Compare a program's vectorised form, and points, with its compiled statement."""

from typing import Any

import numpy as np

from formulations.formulation import Formulation
from formulations.standard_form import StandardForm, compile_model
from formulations.statement import Statement


def assert_same_form(built: StandardForm, compiled: StandardForm) -> None:
    """Compare two forms up to the order of rows and columns."""
    assert sorted(built.column_names) == sorted(compiled.column_names)
    assert sorted(built.row_names) == sorted(compiled.row_names)
    columns = [compiled.column_index()[name] for name in built.column_names]
    positions = {name: r for r, name in enumerate(compiled.row_names)}
    rows = [positions[name] for name in built.row_names]
    assert np.array_equal(built.matrix.toarray(), compiled.matrix.toarray()[rows][:, columns])
    assert np.array_equal(built.row_lower, compiled.row_lower[rows])
    assert np.array_equal(built.row_upper, compiled.row_upper[rows])
    for field in ("objective", "lower", "upper", "integral"):
        assert np.array_equal(getattr(built, field), getattr(compiled, field)[columns]), field
    assert built.offset == compiled.offset


def assert_written_as_stated(program: Statement[Any]) -> None:
    """Compare every row, side, column, bound and cost with the statement's."""
    assert_same_form(program.standard_form, compile_model(program.model))


def assert_is_point(
    program: Formulation[Any, Any, Any], solution: Any, best: int, without: str = "none"
) -> None:
    """Write a solution as a point: it keeps every row and costs as much, also when read back.

    Rows whose name begins with ``without`` are left out. A solution that the program need not
    contain, since it contains another as good, is skipped.
    """
    values = program.point_of(solution)
    if values is None:
        return
    form = program.standard_form
    rows = [r for r, name in enumerate(form.row_names) if not name.startswith(without)]
    reached = (form.matrix @ values)[rows]
    assert (reached >= form.row_lower[rows]).all()
    assert (reached <= form.row_upper[rows]).all()
    assert (form.lower <= values).all()
    assert (values <= form.upper).all()
    assert form.objective @ values + form.offset == best
    assert program.violations(program.solution_at(values), best) == {}
