"""Compare a program's vectorised form with its compiled statement."""

import numpy as np

from formulations.standard_form import StandardForm


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
