"""A program in two equal forms: stated in Pyomo, and written as sparse arrays for speed."""

from dataclasses import replace
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from formulations.backends import Limits, backend
from formulations.standard_form import StandardForm


class RequestProblem(Protocol):
    """Data of a program about requests."""

    @property
    def num_requests(self) -> int:
        """``n``."""


P = TypeVar("P", bound=RequestProblem)


class TwinProgram(Generic[P]):
    """What backends consume; each program says how it is stated and written.

    Parameters
    ----------
    problem
        Data; at least one request for either form.
    aggregate : bool
        Whether identical requests form one kind.
    relaxed : bool
        Whether the standard form leaves out integrality (the linear relaxation).
    """

    def __init__(self, problem: P, *, aggregate: bool = True, relaxed: bool = False) -> None:
        self.problem = problem
        self.aggregate = aggregate
        self.relaxed = relaxed

    @cached_property
    def model(self) -> Any:
        """The Pyomo statement."""
        return self._state()

    @cached_property
    def standard_form(self) -> StandardForm:
        """The same program, written without Pyomo for speed."""
        form = self._write()
        if self.relaxed:
            return replace(form, integral=np.zeros(form.num_columns, dtype=np.bool_))
        return form

    def relaxation_value(self, *, time_limit: float | None = None) -> float | None:
        """Return the value of the linear relaxation as HiGHS computes it; None if time ran out.

        A float: evidence of how strong the program is, not a certified bound.
        """
        if self.problem.num_requests == 0:
            return 0.0
        relaxation = type(self)(self.problem, aggregate=self.aggregate, relaxed=True)
        bound = backend("highs").solve(relaxation, Limits(time_limit), None).bound
        return None if bound is None else float(bound)

    def _state(self) -> Any:
        raise NotImplementedError

    def _write(self) -> StandardForm:
        raise NotImplementedError
