"""A program whose Pyomo statement the user has changed: rows added, or another objective.

``build(problem)`` returns the model of a program. The user adds constraints to the model or
replaces its objective, and `solve_changed` solves the result. The model must keep every row of the
original program, so that the original checker applies to every solution. The added rows and the
objective are evaluated from the model, in integers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, isfinite
from typing import Any, Generic

import numpy as np

from formulations.arrays import FloatArray
from formulations.backends import SolveLimits, check_method
from formulations.deadline import TimeLimit
from formulations.errors import CapabilityError, InputError
from formulations.formulation import Formulation, R, S
from formulations.standard_form import StandardForm, compile_model
from formulations.statement import P

#: Violation of a row with continuous variables or fractional data that counts as rounding.
_TOLERANCE = Fraction(1, 1_000_000)
_KEEP = "keep the rows and variables of build(problem); add rows, or replace model.objective"

#: Methods that solve from the problem data and therefore ignore changes of the model.
OWN_METHODS = ("exact", "two-stage", "brute-force")

#: A row of a standard form: its coefficients by column name, and its two sides.
_Row = tuple[dict[str, float], float, float]


@dataclass(frozen=True)
class Changed(Generic[S]):
    """A solution of a changed program.

    Parameters
    ----------
    solution : S
        The solution of the original program.
    values : mapping
        Value of every variable of the model, by the variable's name.
    """

    solution: S
    values: Mapping[str, Fraction]


class ChangedProgram(Formulation[P, Changed[S], R], Generic[P, S, R]):
    """The program of a problem with a changed statement.

    Parameters
    ----------
    original : Formulation
        The program as this package states it.
    model : pyomo.environ.ConcreteModel
        The changed statement: a model of ``build`` with added linear constraints and variables, or
        with another linear objective to minimise.

    Raises
    ------
    InputError
        If the model lacks or loosens a row or a bound of the original program, or its objective
        can take fractional values.
    """

    def __init__(self, original: Formulation[P, S, R], model: Any) -> None:
        super().__init__(original.problem)
        self.original = original
        self.result, self.words = original.result, original.words
        self._changed = model
        self._refuse_missing()
        if not self._is_integer_objective():
            remedy = "use integer coefficients on bounded integer variables; scale fractions"
            raise InputError("model.objective", "may take fractional values", remedy)

    def state(self) -> Any:
        """Return the changed model."""
        return self._changed

    def write(self) -> StandardForm:
        """Return the compiled model."""
        from pyomo.environ import Objective, maximize

        form = None
        try:
            objectives = list(self._changed.component_data_objects(Objective, active=True))
            if len(objectives) == 1:
                form = compile_model(self._changed)
        except (AttributeError, IndexError, TypeError, ValueError, RuntimeError) as error:
            remedy = "give a Pyomo model of linear rows and one objective to minimise"
            raise InputError("model", f"cannot be compiled: {error}", remedy) from None
        if form is None:
            remedy = "deactivate all but one" if objectives else "activate one"
            raise InputError("model", f"{len(objectives)} active objectives", remedy)
        # The compiled form would minimise the negative.
        if objectives[0].sense == maximize:
            remedy = "minimise the expression with the opposite signs"
            raise InputError(f"model.{objectives[0].name}", "is maximised", remedy)
        return form

    @cached_property
    def keeps_objective(self) -> bool:
        """Whether the objective is the original one, so that its bounds stay valid."""
        ours, theirs = self.original.standard_form, self.standard_form
        return ours.offset == theirs.offset and _costs(ours) == _costs(theirs)

    def lower_bound(self) -> int:
        """Return the original bound; for another objective, its least value within all bounds."""
        if self.keeps_objective:
            return self.original.lower_bound()
        form = self.standard_form
        least = np.where(form.objective > 0, form.lower, form.upper)
        terms = zip(form.objective.tolist(), least.tolist(), strict=True)
        return int(form.offset) + sum(int(cost) * int(value) for cost, value in terms if cost)

    def solution_at(self, values: FloatArray) -> Changed[S]:
        """Return the solution at a point; integer variables are rounded."""
        form = self.standard_form
        exact = {
            name: Fraction(round(value)) if whole else Fraction(value)
            for name, value, whole in zip(
                form.column_names, values.tolist(), form.integral.tolist(), strict=True
            )
        }
        ours = self.original.standard_form
        point = np.array([float(exact.get(name, 0)) for name in ours.column_names])
        return Changed(self.original.solution_at(point), exact)

    def objective_value(self, solution: Changed[S]) -> int:
        """Return the objective of the model."""
        form = self.standard_form
        costs = _costs(form)
        return int(form.offset) + int(sum(int(c) * solution.values[n] for n, c in costs.items()))

    def violations(self, solution: Changed[S], objective: int | None = None) -> dict[str, int]:
        """Return the violations that the original checker finds, and violated model rows."""
        found = dict(self.original.violations(solution.solution))
        for name, (entries, lower, upper) in self._rows.items():
            value = Fraction(0)
            for variable, coefficient in entries.items():
                value += Fraction(coefficient) * solution.values[variable]
            below = Fraction(lower) - value if isfinite(lower) else Fraction(0)
            above = value - Fraction(upper) if isfinite(upper) else Fraction(0)
            over = max(below, above)
            if over > (0 if self.standard_form.is_integer else _TOLERANCE):
                found.setdefault(name, ceil(over))
        if objective is not None and (off := objective - self.objective_value(solution)):
            found["objective"] = abs(off)
        return found

    def fields_of(self, solution: Changed[S] | None) -> dict[str, Any]:
        """Return the result fields for a solution: those of the original program."""
        return self.result.fields_of(None if solution is None else solution.solution)

    @property
    def units(self) -> int:
        """The units of the original; 1 for another objective."""
        return self.original.units if self.keeps_objective else 1

    @cached_property
    def _rows(self) -> dict[str, _Row]:
        return _rows(self.standard_form)

    def _refuse_missing(self) -> None:
        """Refuse a model without a row or a bound of the original program."""
        # Compile the original model as well, so that both forms have rows with equal signs.
        theirs, ours = self._rows, compile_model(self.original.model)
        form = self.standard_form
        columns = form.column_index()
        for j, name in enumerate(ours.column_names):
            k = columns.get(name)
            if k is None:
                variable = self._changed.find_component(name)
                if variable is not None and variable.fixed:
                    remedy = "use setlb and setub, or a row"
                    raise InputError(f"model.{name}", "is fixed", remedy)
                continue
            tight = form.lower[k] >= ours.lower[j] and form.upper[k] <= ours.upper[j]
            if not tight or form.integral[k] != ours.integral[j]:
                raise InputError(f"model.{name}", "bounds are loosened or domain changed", _KEEP)
        for name, (entries, lower, upper) in _rows(ours).items():
            entries_now, lower_now, upper_now = theirs.get(name, ({}, -np.inf, np.inf))
            if entries_now != entries or lower_now < lower or upper_now > upper:
                raise InputError(f"model.{name}", "this row is missing or loosened", _KEEP)

    def _is_integer_objective(self) -> bool:
        form = self.standard_form
        used = form.objective != 0
        bounded = np.isfinite(form.lower) & np.isfinite(form.upper) & form.integral
        whole = (form.objective % 1 == 0).all() and form.offset % 1 == 0
        return bool(whole and bounded[used].all())


def solve_changed(
    original: Formulation[P, S, R],
    model: Any,
    method: str,
    *,
    time_limit: TimeLimit = None,
    seed: int = 0,
    work_limit: int | None = None,
) -> R:
    """Solve a changed program by a backend, or bound it by ``lp``.

    Parameters
    ----------
    original, model
        See `ChangedProgram`.
    method : str
        ``cp-sat``, ``highs``, ``pyomo``, ``pyomo:SOLVER`` or ``lp``.
    time_limit, seed, work_limit
        See `Formulation.solve`.

    Raises
    ------
    InputError
        As `ChangedProgram`, or if the method is unknown.
    CapabilityError
        If the method ignores the rows of the model, as this project's own methods do.
    """
    if method in OWN_METHODS:
        what = f"{method} solves the original problem and ignores changes of the model"
        raise CapabilityError("method", what, 'use method="cp-sat" or "highs"')
    check_method(method, ("lp",))
    limits = SolveLimits(time_limit, seed, work_limit=work_limit)
    changed: ChangedProgram[P, S, R] = ChangedProgram(original, model)
    return changed.solved(method, limits)


def _costs(form: StandardForm) -> dict[str, float]:
    """Return the cost of each column that has one, by name."""
    names = zip(form.column_names, form.objective.tolist(), strict=True)
    return {name: cost for name, cost in names if cost}


def _rows(form: StandardForm) -> dict[str, _Row]:
    """Return the rows by name."""
    matrix, names = form.matrix, form.column_names
    start, index, data = (part.tolist() for part in (matrix.indptr, matrix.indices, matrix.data))
    sides = zip(form.row_names, form.row_lower.tolist(), form.row_upper.tolist(), strict=True)
    return {
        name: (
            {names[index[e]]: data[e] for e in range(start[r], start[r + 1])},
            lower,
            upper,
        )
        for r, (name, lower, upper) in enumerate(sides)
    }
