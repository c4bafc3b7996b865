"""The base class of all programs: statement, standard form, descriptions, linear relaxation."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Generic, TypeVar, get_args

import numpy as np

from formulations.backends import Outcome, SolveLimits, WrittenProgram, backend
from formulations.deadline import TimeLimit
from formulations.errors import check_kind
from formulations.linear import ExactLinear, exact_linear
from formulations.standard_form import StandardForm, compile_model
from formulations.words import Words

#: Largest cost that is not scaled in linear relaxations.
_LARGEST_COST = 2.0**30

#: Problem of a program.
P = TypeVar("P")


class Statement(ABC, Generic[P]):
    """The stated program of one problem.

    Parameters
    ----------
    problem
        Data.
    """

    #: Plain-language descriptions of the program.
    words = Words()
    #: Whether the value is maximised; the statement then minimises its negative.
    maximised = False
    #: Whether the value is a fraction, and files have the statement of `linear`.
    fractional = False

    def __init__(self, problem: P) -> None:
        self.check_problem(problem)
        self.problem = problem

    @classmethod
    def check_problem(cls, problem: object) -> None:
        """Refuse data of another class than that in the bases, ``Statement[StepProblem]``."""
        for base in cls.__orig_bases__:  # type: ignore[attr-defined]
            for kind in get_args(base)[:1]:
                if isinstance(kind, type):
                    check_kind(problem, kind, "problem", f"{kind.__name__}(...)")

    @abstractmethod
    def state(self) -> Any:
        """Return the Pyomo statement."""

    @abstractmethod
    def violations(self, solution: Any, value: Any = None) -> Mapping[str, Any]:
        """Return each constraint that a solution violates, and the amount."""

    def write(self) -> StandardForm:
        """Return the standard form of the program; by default, compile the Pyomo statement."""
        return compile_model(self.model)

    def settled(self, method: str) -> Any:
        """Return the result if there is nothing to decide, e.g. no requests; otherwise None.

        The program of such a problem is never stated or written.
        """
        return None

    def groups(self) -> Sequence[str]:
        """Return one text per request kind that lists its requests; empty without kinds."""
        return ()

    def told_prices(self) -> Sequence[str]:
        """Return lines that explain the dual prices of the rows; empty for integer programs."""
        return ()

    def optimum_near(self, point: Sequence[Fraction]) -> tuple[Fraction | None, bool]:
        """Return the exact optimum of a `fractional` program, and whether a point leads to it.

        Parameters
        ----------
        point : sequence of Fraction
            A point in the column order of `linear`, such as another solver's.
        """
        raise NotImplementedError

    @property
    def units(self) -> int:
        """Units of the stated objective per unit of the model's value."""
        return getattr(self.problem, "scale", 1)

    @property
    def value_units(self) -> int:
        """Units of the stated objective per unit of the objective of results."""
        return 1

    @cached_property
    def model(self) -> Any:
        """The Pyomo statement."""
        return self.state()

    @cached_property
    def linear(self) -> ExactLinear:
        """The statement in rationals, if it is `fractional`."""
        return exact_linear(self.model)

    @cached_property
    def standard_form(self) -> StandardForm:
        """The same program as sparse arrays."""
        return self.write()

    def relaxation_value(self, *, time_limit: TimeLimit = None) -> float | None:
        """Return the stated objective of the linear relaxation, by HiGHS; None if time ran out.

        The value is a float: it shows the strength of the program and is no certified bound.
        """
        if (answer := self.settled("highs")) is not None:
            return None if answer.objective is None else float(answer.objective)
        bound = self._relaxation(time_limit).bound
        return None if bound is None else float(bound)

    def _relaxation(self, time_limit: TimeLimit) -> Outcome:
        form = self.standard_form
        most = float(np.abs(form.objective).max(initial=0.0))
        # HiGHS refuses larger costs; a power of two scales floats without rounding.
        unit = 1.0 if most < _LARGEST_COST else 2.0 ** np.frexp(most)[1]
        relaxation = replace(
            form,
            objective=form.objective / unit,
            offset=form.offset / unit,
            integral=np.zeros(form.num_columns, dtype=np.bool_),
        )
        solved = backend("highs").solve(WrittenProgram(relaxation), SolveLimits(time_limit), None)
        return solved if solved.bound is None else replace(solved, bound=solved.bound * unit)
