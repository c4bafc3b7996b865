"""Write a program in a backend's form and let it solve, the two times apart."""

import time
from collections.abc import Callable
from typing import TypeVar

from formulations.arrays import FloatArray
from formulations.backends.interface import Backend, Limits, Outcome, Program
from formulations.backends.pyomo_solver import PyomoSolver

P = TypeVar("P", bound=Program)


def run_backend(
    solver: Backend,
    write: Callable[[], P],
    limits: Limits,
    start: Callable[[P], FloatArray | None],
) -> tuple[P, Outcome, float]:
    """Solve a program.

    Parameters
    ----------
    solver : Backend
        What solves.
    write : callable
        Returns the program.
    limits : Limits
        Time and seed.
    start : callable
        Returns a point of the program's standard form to start from, or None.

    Returns
    -------
    tuple
        The program, what the backend says, and the seconds it took to write the program.
    """
    began = time.perf_counter()
    program = write()
    # The forms are lazy; writing them belongs to the first time, not to the solve.
    _ = program.standard_form
    if isinstance(solver, PyomoSolver):
        _ = program.model
    point = start(program)
    seconds = time.perf_counter() - began
    return program, solver.solve(program, limits, point), seconds
