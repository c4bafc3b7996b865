"""Linear programs: stated in Pyomo, solved by a backend in floats, then in exact rationals."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from formulations.backends import Outcome, SolveLimits, backend, check_method, run_backend
from formulations.deadline import OutOfTime, TimeLimit
from formulations.errors import CapabilityError
from formulations.linear import ExactLinear, ExactVertex, exact_vertex, is_optimal_pair
from formulations.results import Solved
from formulations.statement import P, Statement

R = TypeVar("R", bound=Solved)


@dataclass(frozen=True)
class LinearSolve:
    """The solve of a linear program: backend outcome in floats, and the exact result.

    Parameters
    ----------
    linear : ExactLinear
        The program in rationals.
    outcome : Outcome
        Outcome of the backend for the stated minimisation.
    vertex : ExactVertex
        The exact optimum, or a proof of infeasibility.
    method : str
        The method.
    compile_seconds : float
        Time to write the program [s].
    """

    linear: ExactLinear
    outcome: Outcome
    vertex: ExactVertex
    method: str
    compile_seconds: float

    @property
    def values(self) -> dict[str, Fraction]:
        """The exact optimal point by column name; empty if infeasible."""
        point = self.vertex.point
        return {} if point is None else dict(zip(self.linear.columns, point, strict=True))

    @property
    def prices(self) -> dict[str, Fraction]:
        """The exact prices (or the Farkas certificate) by row name."""
        return dict(zip(self.linear.rows, self.vertex.prices, strict=True))

    def claimed(self, sign: int = 1) -> float | None:
        """Return the backend's objective times ``sign`` (-1 for a program that maximises)."""
        return None if self.outcome.bound is None else sign * float(self.outcome.bound)

    def report(self) -> dict[str, Any]:
        """Return the fields of a `FluidResult` that describe the solve."""
        return {
            "method": self.method,
            "pivots": self.vertex.pivots,
            "seconds": self.outcome.seconds,
            "compile_seconds": self.compile_seconds,
            "solver": self.outcome.details,
        }


class LinearProgram(Statement[P], Generic[P, R]):
    """Base class of linear programs, in the form that `formulations.linear.exact_linear` reads."""

    maximised, fractional = True, True
    units = 1
    #: Meaning of the dual prices, by family of rows.
    prices: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def concluded(self, solve: LinearSolve) -> R:
        """Return the checked result for the exact optimum."""

    def closed_form(self) -> R | None:
        """Return the result without a solver; None if the problem has no closed form."""
        return None

    def told_prices(self) -> list[str]:
        """Return lines that explain the dual prices of the rows."""
        families = {name.partition("[")[0] for name in self.linear.rows}
        return [
            "dual prices: price of a row = value factor above * factor of the row (default 1) * "
            "dual of the row in this file (derivative of the objective by the right-hand side)",
            *(f"  {told}" for family, told in self.prices.items() if family in families),
        ]

    def optimum_near(self, point: Sequence[Fraction]) -> tuple[Fraction | None, bool]:
        """Return the optimum, if there is one, and whether the vertex of a point attains it."""
        vertex = exact_vertex(self.linear, np.array([float(x) for x in point]))
        if vertex.point is None or not is_optimal_pair(self.linear, vertex.point, vertex.prices):
            return None, False
        value = self.linear.value(vertex.point)
        return value if self.maximised else -value, vertex.pivots == 0

    def solved(self, method: str = "exact", time_limit: TimeLimit = None, seed: int = 0) -> R:
        """Solve this program; see `solve_by`."""
        limits = SolveLimits(time_limit, seed)
        if method == "exact" and (answer := self.closed_form()) is not None:
            return answer
        method = "highs" if method == "exact" else method
        solver = backend("highs" if method == "lp" else method)
        try:
            outcome, seconds = run_backend(solver, self, limits)
        except OutOfTime:
            what = "reached before the program was written"
            raise CapabilityError("time_limit", what, "raise it") from None
        near = None
        if outcome.values is not None:
            # The form may order columns differently, and omits columns without a row.
            index, values = self.standard_form.column_index(), outcome.values
            columns = self.linear.columns
            near = np.array([values[index[name]] if name in index else 0.0 for name in columns])
        vertex = exact_vertex(self.linear, near)
        return self.concluded(LinearSolve(self.linear, outcome, vertex, method, seconds))

    @classmethod
    def solve_by(
        cls, problem: P, method: str = "exact", *, time_limit: TimeLimit = None, seed: int = 0
    ) -> R:
        """Solve the program of a problem.

        Parameters
        ----------
        problem
            Data.
        method : str
            ``exact`` (a closed form if there is one, which needs neither limit nor seed; else
            HiGHS), ``highs``, ``pyomo``, ``pyomo:SOLVER``, or ``lp``: the program is its own
            linear relaxation, so this is ``highs``. Every answer is made exact in rationals.
        time_limit : float or Deadline, optional
            Seconds for the backend. If the backend returns no point, the exact simplex method
            starts from the slack basis, without a time limit.
        seed : int
            Random seed of the backend.

        Raises
        ------
        InputError
            If the method is unknown, or the seed no integer from 0 to 2^31 - 1.
        CapabilityError
            If the program is too large for exact arithmetic.
        """
        check_method(method, ("exact", "lp"))
        return cls(problem).solved(method, time_limit, seed)
