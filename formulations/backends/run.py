"""Write a program in a backend's form and let it solve, the two times apart."""

import time
from collections.abc import Callable
from dataclasses import replace

from formulations.arrays import FloatArray
from formulations.backends.interface import Backend, Outcome, Program, SolveLimits
from formulations.backends.pyomo_solver import PyomoSolver


def run_backend(
    solver: Backend,
    program: Program,
    limits: SolveLimits,
    start: Callable[[], FloatArray | None] = lambda: None,
) -> tuple[Outcome, float]:
    """Solve a program that is not written yet; writing it counts against the time limit.

    Parameters
    ----------
    solver : Backend
        What solves.
    program : Program
        Writes its forms when first asked for them.
    limits : SolveLimits
        Time and seed.
    start : callable
        Returns a point of the program's standard form to start from, or None.

    Returns
    -------
    tuple
        What the backend says, and the seconds it took to write the program.

    Raises
    ------
    OutOfTime
        If the time limit strikes before the solver has begun.
    """
    deadline = limits.deadline
    with deadline.stopped():
        # What writes forms is loaded too: an import that is interrupted is left half done.
        import scipy.sparse  # noqa: F401

        solver.load()
    limits = replace(limits, time_limit=deadline)
    began = time.perf_counter()
    # Writing the forms belongs to the first time, not to the solve.
    with deadline.interrupting():
        _ = program.standard_form
        if isinstance(solver, PyomoSolver):
            _ = program.model
        point = start()
    seconds = time.perf_counter() - began
    return solver.solve(program, limits, point), seconds
