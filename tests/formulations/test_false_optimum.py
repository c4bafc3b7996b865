"""A float solver may report a false optimum; our results need a proof in integers."""

from dataclasses import replace

import numpy as np
import pytest

from bfio.testing.instances import step_problem
from formulations.backends import SolveLimits
from formulations.backends.highs import Highs
from formulations.results import BoundKind, Termination
from formulations.standard_form import StandardForm
from formulations.step import (
    Objective,
    StepProblem,
    StepProgram,
    assess,
    solve,
    solve_by_enumeration,
)

_PROMPTS = [
    *(1036683, 1560339, 974293, 904323, 3335943, 4474800, 3189361),
    *(2750750, 478628, 2246773, 1354427, 3390057, 1589955),
]
#: The optimum is 43,889,056 (CP-SAT and enumeration).
OPTIMUM = 43_889_056
INSTANCE = step_problem(
    [1, 0, 3],
    [[38145497, 38145510], [16688428, 16688440], [32071513, 32071560]],
    [[s, s + 1] for s in _PROMPTS],
)


class _LooseProgram:
    """The program of the instance, with 0 as the only bound on the peaks M."""

    model = None

    @property
    def standard_form(self) -> StandardForm:
        """The stated form without upper bounds on the peaks."""
        form = StepProgram(INSTANCE).standard_form
        peak = np.array([name.startswith("M") for name in form.column_names])
        return replace(
            form,
            lower=np.where(peak, 0.0, form.lower),
            upper=np.where(peak, np.inf, form.upper),
        )


def test_highs_claims_a_false_optimum_without_peak_bounds() -> None:
    """HiGHS 1.13.1 alone reports 43,894,278 as optimal; our result does not claim it."""
    outcome = Highs(challenge=False).solve(_LooseProgram(), SolveLimits(), None)
    assert outcome.termination is Termination.OPTIMAL
    assert outcome.bound_kind is BoundKind.FLOAT
    assert outcome.values is not None
    x = outcome.values[: len(_PROMPTS) * 3].reshape(len(_PROMPTS), 3)
    assignment = [int(row.argmax()) if row.max() > 0.5 else None for row in x]
    result = assess(INSTANCE, assignment, method="highs")
    assert result.objective == 43_894_278
    assert result.termination is Termination.FEASIBLE


def test_a_challenge_refutes_the_false_optimum() -> None:
    """A second run finds a point of lower cost; refuted claims are counted."""
    outcome = Highs().solve(_LooseProgram(), SolveLimits(), None)
    assert round(outcome.bound or 0) <= OPTIMUM
    assert outcome.details["refuted_claims"] >= 1  # type: ignore[operator]
    assert outcome.details["challenged"] is True


@pytest.mark.parametrize(
    ("capacity", "sizes"), [([0, 2, 1, 1], [0, 1, 8472]), ([2, 0, 1, 1], [1, 8472])]
)
def test_highs_is_right_on_tiny_problems_it_gets_wrong_alone(
    capacity: list[int], sizes: list[int]
) -> None:
    """All start: 4·8472 − 8473 = 25,415; one run says 25,419, with or without presolve."""
    problem = step_problem(capacity, [[0]] * 4, [[s] for s in sizes])
    assert solve(problem, backend="highs").objective == 25_415
    assert solve(problem, backend="cp-sat").objective == 25_415


@pytest.mark.parametrize("name", ["highs", "pyomo"])
def test_float_solvers_reach_the_optimum_but_do_not_prove_it(name: str) -> None:
    """The stated program bounds M; the answer is right, but not proven optimal."""
    result = solve(INSTANCE, backend=name)
    assert result.objective == OPTIMUM
    assert result.termination is Termination.FEASIBLE
    assert result.bound_kind is BoundKind.FLOAT


def test_cp_sat_and_enumeration_prove_it() -> None:
    """Both give 43,889,056 with a proof."""
    assert solve(INSTANCE, backend="cp-sat").objective == OPTIMUM
    assert solve(INSTANCE, backend="cp-sat").is_optimal


def test_enumeration_agrees_on_a_part() -> None:
    """The first nine prompts: CP-SAT equals enumeration of all 4^9 assignments."""
    part = StepProblem(INSTANCE.capacity, INSTANCE.base, INSTANCE.contribution[:9])
    assert solve(part).objective == solve_by_enumeration(part).objective


def test_false_infeasibility() -> None:
    """CP-SAT's presolve calls this step of loads by the hundred billion infeasible; it is not."""
    steps = np.arange(21)
    first = np.where(steps < 7, 115545713997 + 2 * steps, 0)
    first[7:9] = 51105298253, 51105298255
    second = np.where(steps == 0, 290066100948, np.where(steps == 1, 98546666614, 0))
    third = np.concatenate(
        [
            843701084115 + 3 * steps[:5],
            [735430116399],
            685726775949 + 3 * steps[:4],
            652096316584 + 3 * steps[:10],
            [539309118283],
        ]
    )
    problem = StepProblem(
        np.array([1, 1, 1]),
        np.stack([first, second, third]),
        np.full((2, 21), 300_000_000_000),
        objective=Objective.GAP,
    )
    assert solve(problem, backend="cp-sat").objective == 8243022544465
