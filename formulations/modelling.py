"""Deferred import of Pyomo, for the modules that state programs."""

import logging
import sys

# Pyomo, where it finds scipy, loads scipy.stats and others at once: a second, and not needed here.
_scipy = sys.modules.pop("scipy", None)
import pyomo.environ as pyo  # noqa: E402
from pyomo.common.dependencies import scipy_available  # noqa: E402

# If others have loaded Pyomo before, all is loaded by now.
if not isinstance(scipy_available, bool):
    scipy_available._callback = None  # noqa: SLF001
if _scipy:
    sys.modules["scipy"] = _scipy

__all__ = ["pyo"]

# Pyomo also logs exceptions that it raises, such as OutOfTime inside a rule.
logging.getLogger("pyomo").setLevel(logging.CRITICAL)
