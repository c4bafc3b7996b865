"""The mathematics: problem data, one explicit integer program per module, solver backends.

Nothing here imports ``bfio``: a formulation consists of data, a program and its solution, without
policies or simulators.
"""

from formulations.errors import CapabilityError, InputError

#: Distinguishes this package from an unrelated one of the same name on the package index.
PROJECT = "bfio"

__all__ = ["PROJECT", "CapabilityError", "InputError"]
