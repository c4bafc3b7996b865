"""Our exact method for the BF-IO step program.

Importing this package is cheap: Numba loads with the first problem that needs a kernel.
"""

from bfio.step.exact.prepare import prepare
from bfio.step.exact.result import ExactResult, Seconds
from bfio.step.exact.solve import solve_exact

__all__ = ["ExactResult", "Seconds", "prepare", "solve_exact"]
