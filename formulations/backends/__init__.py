"""Solver backends by name: HiGHS, CP-SAT, any solver of Pyomo, and users' own backends."""

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from formulations.arrays import FloatArray
from formulations.backends.cp_sat import CpSat
from formulations.backends.highs import Highs
from formulations.backends.interface import (
    Backend,
    ModelProgram,
    Outcome,
    Program,
    SolveLimits,
    WrittenProgram,
)
from formulations.backends.pyomo_solver import PyomoSolver
from formulations.errors import InputError, kind_of, use_one_of
from formulations.named_objects import (
    OR_YOUR_OWN,
    check_call,
    is_users,
    load_object,
    make_object,
    users_code,
)
from formulations.results import BoundKind, Termination

__all__ = [
    "Backend",
    "ModelProgram",
    "Outcome",
    "Program",
    "SolveLimits",
    "WrittenProgram",
    "backend",
    "check_method",
    "names",
    "run_backend",
]

_FORM = "write a class with a method solve(self, program, limits, hint) that returns an Outcome"
_BACKENDS: dict[str, Callable[[], Backend]] = {
    "cp-sat": CpSat,
    "highs": Highs,
    "pyomo": PyomoSolver,
}


def names() -> list[str]:
    """Return the names that `backend` accepts, besides ``pyomo:SOLVER``."""
    return sorted(_BACKENDS)


def backend(name: str, where: str = "backend") -> Backend:
    """Return the backend called ``name``, or the user's own backend named ``module:NAME``.

    Parameters
    ----------
    name : str
        The name.
    where : str
        Name of the argument, for errors.

    Raises
    ------
    InputError
        If the name is unknown, or the user's object is not a backend.
    """
    kind, colon, solver = str(name).partition(":")
    if kind == "pyomo" and (solver or not colon):
        return PyomoSolver(solver or None)
    if str(name) not in _BACKENDS:
        if is_users(name):
            return UsersBackend(name)
        raise InputError(where, f"{name!r} is unknown", use_one_of(name, names(), OR_YOUR_OWN))
    return _BACKENDS[name]()


def check_method(name: str, own: tuple[str, ...]) -> None:
    """Raise if a method is neither one of the names ``own`` nor a backend.

    Raises
    ------
    InputError
        If the method is unknown or no text; the error lists all methods.
    """
    known = (*own, *names())
    if isinstance(name, str) and (name in known or is_users(name)):
        return
    raise InputError("method", f"{name!r} is unknown", use_one_of(name, known, OR_YOUR_OWN))


def run_backend(
    solver: Backend,
    program: Program,
    limits: SolveLimits,
    start: Callable[[], FloatArray | None] = lambda: None,
) -> tuple[Outcome, float]:
    """Write and solve a program; writing counts against the time limit.

    Parameters
    ----------
    solver : Backend
        The backend.
    program : Program
        The program; its Pyomo model or standard form is written at first use.
    limits : SolveLimits
        Time and seed.
    start : callable
        Returns a point of the program's standard form to start from, or None.

    Returns
    -------
    tuple
        The outcome of the backend, and the time to write the program [s].

    Raises
    ------
    OutOfTime
        If the time limit is reached before the solver starts.
    """
    deadline = limits.deadline
    with deadline.stopped():
        # Load the modules that write forms as well: an interrupted import stays half loaded.
        import scipy.sparse  # noqa: F401

        solver.load()
    limits = replace(limits, time_limit=deadline)
    began = time.perf_counter()
    # Write the forms before the solve, so that their time is counted separately.
    with deadline.interrupting():
        _ = program.standard_form
        if isinstance(solver, PyomoSolver):
            _ = program.model
        point = start()
    seconds = time.perf_counter() - began
    return solver.solve(program, limits, point), seconds


class UsersBackend:
    """A user's object, wrapped as a `Backend`.

    Only ``solve`` is required. The program's checker verifies its solutions. They count as optimal
    only if the program's own bound proves it: claims of an untested solver are not trusted.

    Parameters
    ----------
    name : str
        ``module:NAME`` or ``FILE.py:NAME`` of an object, or of a class made without arguments.

    Raises
    ------
    InputError
        If the object cannot be loaded, or has no method ``solve``.
    """

    def __init__(self, name: str) -> None:
        found = load_object(name, "backend")
        made = make_object(name, found) if isinstance(found, type) else found
        if not callable(getattr(made, "solve", None)):
            raise InputError(name, f"{kind_of(made)} has no method solve", _FORM)
        check_call(made.solve, f"{name}.solve", "program", "limits", "hint")  # type: ignore[attr-defined]
        self._made: Backend = made  # type: ignore[assignment]
        self.name = name
        self.continuous = bool(getattr(made, "continuous", True))

    def available(self) -> bool:
        """Return whether the backend is available; True if it has no attribute ``available``."""
        asked = getattr(self._made, "available", None)
        return bool(asked()) if callable(asked) else True

    def load(self) -> None:
        """Do nothing: the object is already loaded."""

    def solve(self, program: Program, limits: SolveLimits, hint: FloatArray | None) -> Outcome:
        """Solve a program with the user's backend and check its outcome.

        Raises
        ------
        InputError
            If the backend raises anything, or returns no valid outcome of this program.
        """
        where = f"backend {self.name}"
        # Pass plain seconds, which every optimizer accepts, instead of a deadline.
        limits = replace(limits, time_limit=limits.deadline.left_or_none, found=None)
        with users_code(where, remedy="mend the backend"):
            outcome = self._made.solve(program, limits, hint)
        if not isinstance(outcome, Outcome):
            remedy = "return a formulations.backends.Outcome"
            raise InputError(where, f"returned {kind_of(outcome)}", remedy)
        if not isinstance(outcome.termination, Termination):
            remedy = "use a formulations.results.Termination"
            raise InputError(where, f"termination {outcome.termination!r:.40}", remedy)
        values = _checked(outcome.values, program.standard_form.num_columns, where)
        details = {"name": self.name, **outcome.details}
        return replace(outcome, values=values, bound_kind=BoundKind.FLOAT, details=details)


def _checked(values: object, columns: int, where: str) -> FloatArray | None:
    if values is None:
        return None
    with users_code(where, "its values ", remedy="give floats"):
        array = np.asarray(values, dtype=np.float64)
    remedy = f"give {columns} finite numbers, one per column of program.standard_form"
    if array.shape != (columns,):
        raise InputError(where, f"values of shape {array.shape}", remedy)
    if not np.isfinite(array).all():
        raise InputError(where, "values that are not finite numbers", remedy)
    return array
