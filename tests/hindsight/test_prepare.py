"""Kernels are loaded after ``prepare``: later solves compile nothing."""

import pytest

from tests.processes import python

#: Solves larger problems of every kind after `prepare`, and prints kernels with new signatures.
_PROGRAM = """
import importlib, pkgutil
import numpy as np
from bfio.hindsight.latency.solve import prepare as prepare_latency
from bfio.hindsight.latency.solve import solve_hindsight
from bfio.hindsight.makespan.solve import prepare as prepare_makespan
from bfio.hindsight.makespan.solve import solve_makespan
from bfio.kvcache.lower_bounds import ArrivalModel
from formulations.hindsight_makespan import MakespanProblem

def signatures():
    found = {}
    for name in ("bfio.hindsight.latency", "bfio.hindsight.makespan"):
        for module in pkgutil.iter_modules(importlib.import_module(name).__path__):
            for key, value in vars(importlib.import_module(f"{name}.{module.name}")).items():
                if hasattr(value, "entry"):
                    found[f"{module.name}.{key}"] = len(value.entry.machine_code.signatures)
    return found

prepare_latency()
prepare_makespan()
before = signatures()
rng = np.random.default_rng(0)
for number in (1, 2):
    # Small enough to reach the search without a time limit.
    model = ArrivalModel(number=number, count=(12, 12), memory=(20, 20))
    solve_hindsight(model.draw(rng), decodes=100)
for objective in ("wall-clock", "imbalance", "latency"):
    arrivals, prompts, outputs = (rng.integers(low, 9, 9) for low in (0, 1, 1))
    problem = MakespanProblem(3, 2, arrivals, prompts, outputs, objective=objective)
    solve_makespan(problem, time_limit=1)
print(sorted(name for name, count in signatures().items() if count != before[name]))
"""


@pytest.mark.deep
def test_prepare_reaches_every_kernel() -> None:
    """In a process of its own, where nothing is loaded yet."""
    done = python("-c", _PROGRAM)
    assert done.stdout == "[]\n"
