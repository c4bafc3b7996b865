"""A program in two equal forms: stated in Pyomo, and written as sparse arrays for speed."""

from dataclasses import replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from formulations.standard_form import StandardForm

P = TypeVar("P")


class TwinProgram(Generic[P]):
    """What backends consume; each program says how it is stated and written.

    Parameters
    ----------
    problem
        Data; at least one request.
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

    def _state(self) -> Any:
        raise NotImplementedError

    def _write(self) -> StandardForm:
        raise NotImplementedError
