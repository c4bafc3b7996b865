"""Pyomo, in which every program is stated, loaded without what no program needs.

Pyomo loads scipy's statistics, integration and geometry as soon as scipy is loaded beside it,
to have their names at hand; that takes longer than Pyomo itself. scipy finds them by itself where
somebody asks for them.
"""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

__all__ = ["pyo"]

_SPARED = ("scipy.stats", "scipy.integrate", "scipy.spatial")


@contextmanager
def _spared() -> Iterator[None]:
    """Have empty modules stand where these would, if they are not loaded yet."""
    empty = {name: ModuleType(name) for name in _SPARED if name not in sys.modules}
    sys.modules.update(empty)
    try:
        yield
    finally:
        for name, module in empty.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


with _spared():
    from pyomo.common.dependencies import scipy_available

    # Looks for scipy now, as it would when a program is compiled.
    bool(scipy_available)

import pyomo.environ as pyo  # noqa: E402

# It also writes to stdout what it raises, such as the end of time within a rule.
logging.getLogger("pyomo").setLevel(logging.CRITICAL)
