"""Check that HiGHS and CP-SAT load and solve in one process, in both import orders."""

import pytest

from tests.processes import python

_SOLVE = """
from formulations.step import StepProblem, solve
problem = StepProblem.from_mapping(
    {
        "capacity": [1, 2, 0],
        "base": [[40], [25], [60]],
        "contribution": [[18], [9], [30], [22], [5]],
    }
)
print(*(solve(problem, backend=name).objective for name in NAMES))
"""


_CP_SAT = "ortools.sat.python.cp_model"


@pytest.mark.parametrize(
    ("order", "names"),
    [(("highspy", _CP_SAT), ("cp-sat", "highs")), ((_CP_SAT, "highspy"), ("highs", "cp-sat"))],
)
def test_both_solvers_in_one_process(order: tuple[str, str], names: tuple[str, str]) -> None:
    """A fresh interpreter imports both solvers, solves P1 with both, and gets 2 twice."""
    code = f"import {order[0]}, {order[1]}\nNAMES = {names!r}\n{_SOLVE}"
    done = python("-c", code, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["2", "2"]), done.stderr
