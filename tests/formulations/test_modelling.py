"""Pyomo is loaded only if a program is stated."""

import subprocess
import sys

import pytest

from formulations.deadline import OutOfTime
from formulations.modelling import pyo
from tests.processes import PATIENCE_S

#: Solves a step without a statement of its program, and looks for what was loaded.
_USE = """
import sys
from formulations.step import StepProblem, solve
problem = StepProblem.from_mapping(
    {"capacity": [1, 1], "base": [[4], [2]], "contribution": [[2], [1]]}
)
print(solve(problem, backend="highs").objective)
print({"pyomo", "scipy.stats"} & {*sys.modules})
"""


def test_pyomo_is_loaded_by_who_states_a_program() -> None:
    """Solving without a statement does not load Pyomo, which is slower than most solves."""
    done = subprocess.run(
        [sys.executable, "-c", _USE],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert done.stdout.splitlines() == ["1", "set()"]


def test_a_statement_cut_short_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """If time runs out inside a rule, `OutOfTime` is raised and nothing is written to stdout."""

    def rule(model: pyo.ConcreteModel, i: int) -> object:
        raise OutOfTime

    model = pyo.ConcreteModel()
    with pytest.raises(OutOfTime):
        model.rows = pyo.Constraint([0], rule=rule)
    assert capfd.readouterr() == ("", "")
