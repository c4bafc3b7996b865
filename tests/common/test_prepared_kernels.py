"""Warming up a group of kernels compiles all entry points for all argument types."""

import pytest

from tests.processes import python

#: Warms all groups up, and prints the entry points that no compiled kernel contains.
#:
#: Asked is what was compiled or loaded in this process, not what is on disk: that may come from
#: elsewhere. Of an entry point inside another one, machine code exists as soon as the outer one
#: is compiled, but it is not loaded beside it.
_REACHED = """
import sys
from bfio.common import kernel_groups, kernels

kernel_groups.ensure_compiled(*kernel_groups.groups())
met = set()

def read(entry, types):
    met.add(entry)
    return from_disk(entry, types)

def inner_of(entry):
    found, todo, seen = set(), [entry.py_func], set()
    while todo:
        function = todo.pop()
        seen.add(function)
        named = [function.__globals__.get(word) for word in function.__code__.co_names]
        found |= {value.entry for value in named if hasattr(value, "entry")}
        todo += [value for value in named if hasattr(value, "__recipe__") and value not in seen]
    return found

from_disk, kernels.EntryPoint.read = kernels.EntryPoint.read, read
for group in kernel_groups.groups().values():
    met.clear()
    group.warm_up_here()
    todo = list(met)
    reached = set(todo)
    while todo:
        inner = inner_of(todo.pop()) - reached
        reached |= inner
        todo += inner
    for entry in set(group.entry_points()) - reached:
        print(entry.name)
"""
#: Solves steps of all kinds after `prepare`, and prints kernels with new types of arguments.
_SOLVED = """
import importlib, pkgutil
import numpy as np
import bfio.step.exact
from bfio.step.exact import prepare, solve_exact
from formulations.step import StepProblem

def signatures():
    modules = pkgutil.iter_modules(bfio.step.exact.__path__, "bfio.step.exact.")
    held = [vars(importlib.import_module(module.name)) for module in modules]
    return {f"{one['__name__']}:{name}": len(value.entry.machine_code.signatures) for one in held
            for name, value in one.items() if hasattr(value, "entry")}

prepare()
before = signatures()
rng = np.random.default_rng(0)
for waiting in (3, 9, 14, 40, 200):
    # Few slots: or else tables of values that need 64 bits are too large to be tried.
    for slots, largest in ((6, 20), (6, 1000), (6, 40_000), (3, 1_500_000)):
        for _ in range(4):
            capacity = rng.integers(0, slots, 5)
            base = rng.integers(0, 3 * largest, 5)[:, None]
            sizes = rng.integers(1, largest, waiting)[:, None]
            problem = StepProblem(capacity, base, sizes)
            # Without refills more of them stay open, and are priced.
            for skip in ((), ("refills",)):
                solve_exact(problem, work_limit=20_000, fallback=None, skip=skip)
print(*sorted(name for name, count in signatures().items() if count != before[name]))
"""


def said(program: str) -> list[str]:
    """Return what a program prints in a process of its own, where nothing is loaded yet."""
    done = python("-c", program, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_warming_up_reaches_every_entry_point() -> None:
    """One left out would be announced as missing by every command, and compiled by none."""
    assert said(_REACHED) == []


@pytest.mark.deep
def test_after_prepare_no_step_compiles_anything() -> None:
    """Whatever its size: few requests and many, small values and large."""
    assert said(_SOLVED) == []
