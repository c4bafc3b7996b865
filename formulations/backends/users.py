"""A backend of a user's own, ``module:NAME`` or ``FILE.py:NAME``, its answers checked."""

from dataclasses import replace

import numpy as np

from formulations.arrays import FloatArray
from formulations.backends.interface import Backend, Outcome, Program, SolveLimits
from formulations.errors import InputError
from formulations.named_objects import check_call, load_object, make_object, users_code
from formulations.results import BoundKind, Termination

_FORM = "write a class with a method solve(self, program, limits, hint) that returns an Outcome"


class UsersBackend:
    """What a name stands for, as a `Backend`.

    Only ``solve`` is needed. What it leaves goes through the program's own checker, and counts as
    optimal only if the program's own bound proves it: nobody has tested its word.

    Parameters
    ----------
    name : str
        ``module:NAME`` or ``FILE.py:NAME`` of an object, or of a class made without arguments.

    Raises
    ------
    InputError
        If it cannot be loaded, or has no such method.
    """

    def __init__(self, name: str) -> None:
        found = load_object(name, "backend")
        made = make_object(name, found) if isinstance(found, type) else found
        if not callable(getattr(made, "solve", None)):
            raise InputError(name, f"a {type(made).__name__} has no method solve", _FORM)
        check_call(made.solve, f"{name}.solve", "program", "limits", "hint")  # type: ignore[attr-defined]
        self._made: Backend = made  # type: ignore[assignment]
        self.name = name
        self.continuous = bool(getattr(made, "continuous", True))

    def available(self) -> bool:
        """Whether it can be used, as far as it says."""
        asked = getattr(self._made, "available", None)
        return bool(asked()) if callable(asked) else True

    def load(self) -> None:
        """Nothing is left to load."""

    def solve(self, program: Program, limits: SolveLimits, hint: FloatArray | None) -> Outcome:
        """Let it solve.

        Raises
        ------
        InputError
            If it raises anything, or returns no outcome of this program.
        """
        where = f"backend {self.name}"
        # Seconds are simpler than a clock, and whatever an optimizer takes.
        limits = replace(limits, time_limit=limits.deadline.left_or_none, found=None)
        with users_code(where, remedy="mend the backend"):
            outcome = self._made.solve(program, limits, hint)
        if not isinstance(outcome, Outcome):
            remedy = "return a formulations.backends.Outcome"
            raise InputError(where, f"returned a {type(outcome).__name__}", remedy)
        if not isinstance(outcome.termination, Termination):
            remedy = "use a formulations.results.Termination"
            raise InputError(where, f"termination {outcome.termination!r:.40}", remedy)
        values = _checked(outcome.values, program.standard_form.num_columns, where)
        return replace(outcome, values=values, bound_kind=BoundKind.FLOAT)


def _checked(values: object, columns: int, where: str) -> FloatArray | None:
    if values is None:
        return None
    with users_code(where, "its values ", remedy="give floats"):
        array = np.asarray(values, dtype=np.float64)
    remedy = f"give {columns} finite numbers, one per column of program.standard_form"
    if array.shape != (columns,):
        raise InputError(where, f"values of shape {array.shape}", remedy)
    if not np.isfinite(array).all():
        raise InputError(where, "values that are no numbers", remedy)
    return array
