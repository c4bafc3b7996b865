"""Pyomo without scipy's statistics, which are there for whoever asks."""

import subprocess
import sys

import pytest

from formulations.deadline import OutOfTime
from formulations.modelling import pyo
from tests.processes import PATIENCE_S

_USE = """
import sys
{before}
from formulations.step import StepProblem, StepProgram, solve
problem = StepProblem.from_mapping(
    {{"capacity": [1, 1], "base": [[4], [2]], "contribution": [[2], [1]]}}
)
print(solve(problem, backend="pyomo").objective)
print({{"pyomo.repn", "scipy.stats"}} & {{*sys.modules}})
import scipy
print(scipy.stats.norm.cdf(0.0), scipy.integrate.quad(lambda x: x, 0, 2)[0])
print(scipy.spatial.distance.euclidean([0, 0], [3, 4]))
"""


@pytest.mark.parametrize("before", ["", "import numba", "import scipy.sparse"])
def test_statistics_are_loaded_by_who_asks(before: str) -> None:
    """Whether scipy is loaded before Pyomo or by it, programs are solved without them."""
    done = subprocess.run(
        [sys.executable, "-c", _USE.format(before=before)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert done.stdout.splitlines() == ["1", "{'pyomo.repn'}", "0.5 2.0", "5.0"]


def test_a_statement_cut_short_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """Time ends within a rule: it is raised, and a JSON document on stdout stays one."""

    def rule(model: pyo.ConcreteModel, i: int) -> object:
        raise OutOfTime

    model = pyo.ConcreteModel()
    with pytest.raises(OutOfTime):
        model.rows = pyo.Constraint([0], rule=rule)
    assert capfd.readouterr() == ("", "")
