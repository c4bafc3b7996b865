"""Solver backends by name: HiGHS, CP-SAT, and any solver that Pyomo drives."""

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
from formulations.errors import InputError, use_one_of

_BACKENDS: dict[str, type[Highs] | type[CpSat] | type[PyomoSolver]] = {
    "cp-sat": CpSat,
    "highs": Highs,
    "pyomo": PyomoSolver,
}


def names() -> list[str]:
    """Return the names `backend` accepts (``pyomo:SOLVER`` beside them)."""
    return sorted(_BACKENDS)


def backend(name: str) -> Backend:
    """Return the backend called ``name``.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    kind, colon, solver = name.partition(":")
    if kind == "pyomo" and (solver or not colon):
        return PyomoSolver(solver or None)
    if name not in _BACKENDS:
        raise InputError("backend", f"{name!r} is unknown", use_one_of(name, names()))
    return _BACKENDS[name]()


def check_method(name: str, own: tuple[str, ...]) -> None:
    """Refuse a method that is neither one of our ``own`` nor a backend.

    Raises
    ------
    InputError
        Naming all that there are, and a close one.
    """
    known = (*own, *names())
    if name in known or name.startswith("pyomo:"):
        return
    raise InputError("method", f"{name!r} is unknown", use_one_of(name, known))


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
