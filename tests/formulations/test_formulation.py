"""The base alone: a formulation of data, statement and checker, and its command."""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from bfio.cli.command import DONE
from bfio.cli.problem_command import problem_command
from bfio.programs import ProgramKind
from formulations import CapabilityError, InputError
from formulations.arrays import FloatArray, IntArray, integer_vector
from formulations.deadline import OutOfTime
from formulations.formulation import Formulation
from formulations.modelling import pyo
from formulations.problem_data import ProblemData, check_keys
from formulations.results import ProgramResult, Termination
from tests.processes import python


@dataclass(frozen=True)
class Placement(ProblemData):
    """Requests for two equal workers, of which the fuller is to hold little."""

    sizes: IntArray

    def __post_init__(self) -> None:
        self._set(sizes=integer_vector(self.sizes, "sizes", minimum=1))

    @classmethod
    def from_mapping(cls, document: Any) -> Self:
        """Read ``{"sizes": [...]}``."""
        return cls(**check_keys(document, "document", ("sizes",)))


@dataclass(frozen=True, kw_only=True)
class PlacementResult(ProgramResult[tuple[int, ...]]):
    """Worker of each request."""

    solution_fields = ("workers",)

    workers: tuple[int, ...] | None = None


class PlacementProgram(Formulation[Placement, tuple[int, ...], PlacementResult]):
    """Nothing that a formulation need not say."""

    result = PlacementResult
    always_feasible = True

    def state(self) -> Any:
        """Return the Pyomo statement."""
        sizes = self.problem.sizes.tolist()
        requests, workers = range(len(sizes)), range(2)
        model = pyo.ConcreteModel()
        model.x = pyo.Var(requests, workers, domain=pyo.Binary)
        model.peak = pyo.Var(domain=pyo.Integers, bounds=(0, sum(sizes)))
        model.place = pyo.Constraint(requests, rule=lambda m, i: m.x[i, 0] + m.x[i, 1] == 1)
        model.below = pyo.Constraint(
            workers, rule=lambda m, g: sum(s * m.x[i, g] for i, s in enumerate(sizes)) <= m.peak
        )
        model.objective = pyo.Objective(expr=model.peak)
        return model

    def lower_bound(self) -> int:
        """Return the mean load."""
        return -(-int(self.problem.sizes.sum()) // 2)

    def objective_value(self, solution: tuple[int, ...]) -> int:
        """Return the larger load."""
        return int(np.bincount(solution, self.problem.sizes, minlength=2).max())

    def violations(
        self, solution: tuple[int, ...], objective: int | None = None
    ) -> dict[str, int]:
        """Return a wrong objective; workers above 1 are none."""
        if strangers := {f"workers[{i}]": 1 for i, g in enumerate(solution) if g > 1}:
            return strangers
        wrong = objective is not None and objective != self.objective_value(solution)
        return {"objective": 1} if wrong else {}

    def solution_at(self, values: FloatArray) -> tuple[int, ...]:
        """Read the workers off a point."""
        index = self.standard_form.column_index()
        requests = range(len(self.problem.sizes))
        return tuple(round(values[index[f"x[{i},1]"]]) for i in requests)


PROBLEM = Placement(np.array([3, 5, 4, 8]))


@pytest.mark.parametrize("method", ["cp-sat", "highs", "pyomo"])
def test_data_statement_and_checker_suffice(method: str) -> None:
    """Of 3, 5, 4 and 8 none sum to half of 20, so the best is 8 + 3 against 5 + 4."""
    result = PlacementProgram.solve_by(PROBLEM, method)
    assert (result.objective, result.violations) == (11, {})
    assert result.is_optimal == (method == "cp-sat")
    assert PlacementProgram(PROBLEM).objective_value(result.required_solution()) == 11
    assert "objective 11" in result.summary()


def test_an_own_method_is_chosen_by_its_name() -> None:
    """The caller's own methods are supported; the error for an unknown one lists all methods."""
    own = PlacementProgram(PROBLEM).answer((0, 0, 0, 1), Termination.FEASIBLE, 10, method="own")
    assert PlacementProgram.solve_by(PROBLEM, "own", own={"own": lambda: own}) is own
    with pytest.raises(InputError, match="use one of own, brute-force, lp, cp-sat"):
        PlacementProgram.solve_by(PROBLEM, "mine", own={"own": lambda: own})
    with pytest.raises(CapabilityError, match="this program has no brute-force solver"):
        PlacementProgram.solve_by(PROBLEM, "brute-force")


def test_an_answer_says_only_what_is_proven() -> None:
    """Optimal with an equal bound, failed if broken or called infeasible."""
    program = PlacementProgram(PROBLEM)
    loose = program.answer((0, 0, 0, 1), Termination.OPTIMAL, 10, method="x")
    assert (loose.termination, loose.objective) == (Termination.FEASIBLE, 12)
    tight = program.answer((0, 1, 1, 0), Termination.FEASIBLE, 11, method="x")
    assert (tight.is_optimal, tight.gap) == (True, 0.0)
    broken = program.answer((2, 0, 0, 1), Termination.OPTIMAL, 9, method="x")
    assert (broken.termination, broken.violations) == (Termination.FAILED, {"workers[0]": 1})
    claimed = program.answer((0, 1, 1, 0), Termination.OPTIMAL, 10, objective=10, method="x")
    assert claimed.violations == {"objective": 1}
    none = program.answer(None, Termination.INFEASIBLE, 10, method="x")
    assert (none.termination, none.solution) == (Termination.FAILED, None)


def test_its_command_reads_solves_and_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command needs the names of data and solve alone."""
    command = problem_command(
        "place",
        "place",
        "place",
        kind=ProgramKind(
            "place",
            problem=f"{__name__}:Placement",
            program="",
            solve=f"{__name__}:PlacementProgram.solve_by",
            methods=("cp-sat",),
        ),
    )
    file = tmp_path / "place.json"
    file.write_text('{"sizes": [3, 5, 4, 8]}')
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    assert command.run(parser.parse_args([str(file), "--method", "cp-sat", "--json"])) == DONE
    assert json.loads(capsys.readouterr().out)["objective"] == 11
    assert command.run(parser.parse_args([str(file), "--method", "cp-sat"])) == DONE
    assert "workers" in capsys.readouterr().out
    file.write_text('{"sizes": [0]}')
    with pytest.raises(InputError, match=r"place.json: sizes\[0\]"):
        command.run(parser.parse_args([str(file)]))


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
    done = python("-c", _USE)
    assert done.stdout.splitlines() == ["1", "set()"]


def test_a_statement_cut_short_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    """If time runs out inside a rule, `OutOfTime` is raised and nothing is written to stdout."""

    def rule(model: pyo.ConcreteModel, i: int) -> object:
        raise OutOfTime

    model = pyo.ConcreteModel()
    with pytest.raises(OutOfTime):
        model.rows = pyo.Constraint([0], rule=rule)
    assert capfd.readouterr() == ("", "")
