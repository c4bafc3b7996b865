"""Solve a stated linear program in floats, then exactly from the vertex the floats describe."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from formulations.backends import ModelProgram, Outcome, SolveLimits, backend, run_backend
from formulations.linear.exact_linear import ExactLinear, exact_linear
from formulations.linear.simplex import ExactVertex, exact_vertex


@dataclass(frozen=True)
class LinearSolve:
    """A program, what a backend said of it, and the exact end.

    Parameters
    ----------
    linear : ExactLinear
        The program in rationals.
    outcome : Outcome
        What the backend said; of the minimisation that was stated.
    vertex : ExactVertex
        The exact optimum, or the proof that there is none.
    compile_seconds : float
        Time to write the program.
    """

    linear: ExactLinear
    outcome: Outcome
    vertex: ExactVertex
    compile_seconds: float

    @property
    def values(self) -> dict[str, Fraction]:
        """The exact optimum by column name; empty without one."""
        point = self.vertex.point
        return {} if point is None else dict(zip(self.linear.columns, point, strict=True))

    @property
    def prices(self) -> dict[str, Fraction]:
        """The exact prices (or the Farkas certificate) by row name."""
        return dict(zip(self.linear.rows, self.vertex.prices, strict=True))

    def report(self, method: str) -> dict[str, Any]:
        """Return the fields of a `FluidResult` that tell how the solve went."""
        return {
            "method": method,
            "pivots": self.vertex.pivots,
            "seconds": self.outcome.seconds,
            "compile_seconds": self.compile_seconds,
            "solver": self.outcome.details,
        }


def solve_linear(write: Callable[[], Any], method: str, limits: SolveLimits) -> LinearSolve:
    """Solve a Pyomo model.

    Parameters
    ----------
    write : callable
        Returns the model; see `exact_linear` for what it may hold.
    method : str
        A backend that takes continuous variables: ``highs``, ``pyomo`` or ``pyomo:SOLVER``.
    limits : SolveLimits
        Time and seed of the backend. What it leaves unsolved is solved exactly all the same.
    """
    program = ModelProgram(write)
    outcome, seconds = run_backend(backend(method), program, limits)
    linear = exact_linear(program.model)
    near = None
    if outcome.values is not None:
        # The form may list columns in another order, and leaves out those in no row.
        index = program.standard_form.column_index()
        near = np.array(
            [outcome.values[index[name]] if name in index else 0.0 for name in linear.columns]
        )
    return LinearSolve(linear, outcome, exact_vertex(linear, near), seconds)
