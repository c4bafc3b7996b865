"""The mathematics: problem data, one explicit integer program per module, solver backends.

Nothing here imports ``bfio``: a formulation is data, a program and its solution, and knows of no
policy and no simulator.
"""

from formulations.errors import CapabilityError, InputError

#: Tells this package from the unrelated one of the same name on the package index.
PROJECT = "bfio"

__all__ = ["PROJECT", "CapabilityError", "InputError"]
