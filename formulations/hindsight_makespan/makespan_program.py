"""The two equal forms of a hindsight makespan program: what backends consume."""

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from formulations.hindsight_makespan.matrix import build_standard_form
from formulations.hindsight_makespan.problem import MakespanProblem
from formulations.standard_form import StandardForm


class MakespanProgram:
    """The program of one `MakespanProblem`, as a Pyomo model and as sparse arrays.

    Parameters
    ----------
    problem : MakespanProblem
        Data; at least one request.
    aggregate : bool
        Whether requests alike form one kind.
    relaxed : bool
        Whether the standard form leaves out integrality (the linear relaxation).
    """

    def __init__(
        self, problem: MakespanProblem, *, aggregate: bool = True, relaxed: bool = False
    ) -> None:
        self.problem = problem
        self.aggregate = aggregate
        self.relaxed = relaxed

    @cached_property
    def model(self) -> Any:
        """The Pyomo statement."""
        from formulations.hindsight_makespan.program import build

        return build(self.problem, aggregate=self.aggregate)

    @cached_property
    def standard_form(self) -> StandardForm:
        """The same program, written without Pyomo for speed."""
        form = build_standard_form(self.problem, aggregate=self.aggregate)
        if self.relaxed:
            return replace(form, integral=np.zeros(form.num_columns, dtype=np.bool_))
        return form
