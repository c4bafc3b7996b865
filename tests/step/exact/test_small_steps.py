"""Small steps are solved in plain Python where kernels are not loaded, with the same answers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import PATIENCE_S

#: Solves steps as a process does that has loaded no kernels, and again with kernels; prints how
#: many were proven without, and those answered differently.
_BOTH_WAYS = """
import warnings
import numpy as np
from bfio.step.exact import solve
from formulations.step import StepProblem

warnings.simplefilter("error")
rng = np.random.default_rng(5)
problems = []
for _ in range(30):
    workers, waiting, top = rng.integers(1, 7), rng.integers(1, 13), rng.choice([6, 60, 600])
    capacity = rng.integers(0, 4, workers)
    capacity[0] += 1
    base, sizes = rng.integers(0, 2 * top, (workers, 1)), rng.integers(1, top, (waiting, 1))
    problems.append(StepProblem(capacity, base, sizes))

def answers(loads):
    solve.is_worthwhile = lambda *_: loads
    for problem in problems:
        found = solve.solve_exact(problem)
        yield found.assignment, found.objective, found.bound, found.method, found.ticks
        num_loaded.append(solve.prepare.cache_info().currsize)
        solve.prepare.cache_clear()

num_loaded = []
plain = list(answers(False))
print(num_loaded.count(0))
print([one for one, other in zip(plain, answers(True)) if one != other])
"""
_LOADS = (40, 25, 60)


def python(code: str, *arguments: str) -> list[str]:
    """Return the lines that a program prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    return done.stdout.splitlines()


def test_answers_are_those_of_the_kernels() -> None:
    """To the tick; most of such steps are proven without kernels."""
    num_plain, different = python(_BOTH_WAYS)
    assert int(num_plain) > 20
    assert different == "[]"


@pytest.mark.parametrize(("factor", "is_loaded"), [(1, False), (10_000, True)])
def test_a_small_step_loads_no_kernels(tmp_path: Path, factor: int, is_loaded: bool) -> None:
    """One of many tokens does: its tables are large."""
    base = [[factor * load] for load in _LOADS]
    step = {"capacity": [1, 2, 0], "base": base, "contribution": [[18], [9], [30]]}
    (tmp_path / "step.json").write_text(json.dumps(step), encoding="utf-8")
    code = (
        "import sys\nfrom bfio.cli.main import main\n"
        "try: main(['solve', sys.argv[1]])\nexcept SystemExit: pass\n"
        "print('numba' in sys.modules)"
    )
    assert python(code, str(tmp_path / "step.json"))[-1] == str(is_loaded)
