"""Solver backends by name: HiGHS, CP-SAT, any solver that Pyomo drives, and users' own."""

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
from formulations.backends.run import run_backend
from formulations.backends.users import UsersBackend
from formulations.errors import InputError, use_one_of
from formulations.named_objects import OR_YOUR_OWN, is_users

_BACKENDS: dict[str, type[Highs] | type[CpSat] | type[PyomoSolver]] = {
    "cp-sat": CpSat,
    "highs": Highs,
    "pyomo": PyomoSolver,
}


def names() -> list[str]:
    """Return the names `backend` accepts (``pyomo:SOLVER`` beside them)."""
    return sorted(_BACKENDS)


def backend(name: str) -> Backend:
    """Return the backend called ``name``, or the user's own that ``module:NAME`` stands for.

    Raises
    ------
    InputError
        If there is none of that name, or the user's own is none.
    """
    kind, colon, solver = name.partition(":")
    if kind == "pyomo" and (solver or not colon):
        return PyomoSolver(solver or None)
    if name not in _BACKENDS:
        if is_users(name):
            return UsersBackend(name)
        raise InputError("backend", f"{name!r} is unknown", use_one_of(name, names(), OR_YOUR_OWN))
    return _BACKENDS[name]()


def check_method(name: str, own: tuple[str, ...]) -> None:
    """Refuse a method that is neither one of our ``own`` nor a backend.

    Raises
    ------
    InputError
        Naming all that there are, and a close one.
    """
    known = (*own, *names())
    if name in known or is_users(name):
        return
    raise InputError("method", f"{name!r} is unknown", use_one_of(name, known, OR_YOUR_OWN))


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
