"""The stated program, its vectorised form, and every constraint family alone."""

import tracemalloc

import pyomo.environ as pyo
import pytest
from hypothesis import given

from bfio.testing.instances import step_problem, step_problems
from formulations import CapabilityError
from formulations.backends import ModelProgram, SolveLimits, backend
from formulations.results import Termination
from formulations.standard_form import compile_model
from formulations.step import StepProblem, StepProgram, build
from tests.formulations.forms import assert_same_form, assert_written_as_stated
from tests.formulations.test_check import P1


@given(step_problems(max_requests=5).filter(lambda p: p.num_requests > 0))
def test_the_vectorised_builder_writes_the_stated_program(problem: StepProblem) -> None:
    """Every row, side, column, bound and cost of the statement, and no other."""
    assert_written_as_stated(StepProgram(problem))


def test_a_changed_statement_is_noticed() -> None:
    """The comparison detects a single additional coefficient."""
    model = build(P1)
    model.capacity[1].set_value(model.capacity[1].body + model.x[0, 1] <= 2)
    with pytest.raises(AssertionError):
        assert_same_form(StepProgram(P1).standard_form, compile_model(model))


def _pinned(pins: dict[tuple[int, int], int], **options: object) -> Termination:
    """Solve P1 with some x fixed, and return the termination."""
    problem = StepProblem.from_mapping(P1.to_mapping() | options)
    model = build(problem)
    model.pins = pyo.ConstraintList()
    for key, value in pins.items():
        model.pins.add(model.x[key] == value)
    return (
        backend("cp-sat").solve(ModelProgram(lambda: model), SolveLimits(10.0), None).termination
    )


@pytest.mark.parametrize(
    ("pins", "options"),
    [
        ({(0, 0): 1, (0, 1): 1}, {}),  # (1) request 0 twice
        ({(0, 0): 1, (1, 0): 1}, {}),  # (2) two requests in one slot
        ({(0, 2): 1}, {}),  # (2) no slot at all
        ({(i, g): 0 for i in range(3) for g in range(3)}, {}),  # (3) 2 left for 3 slots
        ({(2, 1): 1, (3, 1): 1}, {"token_capacity": [99, 76, 99]}),  # (6) 25 + 30 + 22 = 77
        ({(4, g): 0 for g in range(3)}, {"required": [False] * 4 + [True]}),  # (7)
    ],
)
def test_each_family_forbids_what_it_should(
    pins: dict[tuple[int, int], int], options: dict[str, object]
) -> None:
    """Pinned against one family, the program is infeasible."""
    assert _pinned(pins, **options) is Termination.INFEASIBLE


@pytest.mark.parametrize(
    ("pins", "options"),
    [
        ({(0, 0): 1, (1, 1): 1}, {}),
        ({(i, g): 0 for i in range(2) for g in range(3)}, {}),  # 3 left for 3 slots
        ({(2, 1): 1, (3, 1): 1}, {"token_capacity": [99, 77, 99]}),
        ({(4, 1): 1}, {"required": [False] * 4 + [True]}),
    ],
)
def test_each_family_allows_what_it_should(
    pins: dict[tuple[int, int], int], options: dict[str, object]
) -> None:
    """Pinned just inside every family, the program has an optimum."""
    assert _pinned(pins, **options) is Termination.OPTIMAL


def test_rows_can_be_added_to_a_given_model() -> None:
    """`build` adds to a model handed in, so that a claim can state rows of its own."""
    model = pyo.ConcreteModel()
    model.note = pyo.Param(initialize=1)
    assert build(P1, model) is model
    assert model.find_component("x[0,0]") is not None


def test_a_fractional_or_continuous_program_is_refused_by_cp_sat() -> None:
    """The refusal names the column and a method that can."""
    model = pyo.ConcreteModel()
    model.y = pyo.Var(bounds=(0, 1))
    model.objective = pyo.Objective(expr=model.y)
    model.row = pyo.Constraint(expr=0.5 * model.y >= 0.25)
    with pytest.raises(
        CapabilityError, match=r"y: cp-sat does not support continuous.*method=\"highs\""
    ):
        backend("cp-sat").solve(ModelProgram(lambda: model), SolveLimits(), None)
    model.y.domain = pyo.Integers
    with pytest.raises(CapabilityError, match="does not support fractions"):
        backend("cp-sat").solve(ModelProgram(lambda: model), SolveLimits(), None)


def test_highs_solves_a_continuous_program() -> None:
    """Minimise y subject to y >= 1/2: the bound is the optimum, 1/2."""
    model = pyo.ConcreteModel()
    model.y = pyo.Var(bounds=(0, 1))
    model.objective = pyo.Objective(expr=model.y)
    model.row = pyo.Constraint(expr=2 * model.y >= 1)
    outcome = backend("highs").solve(ModelProgram(lambda: model), SolveLimits(), None)
    assert outcome.values is not None
    assert outcome.values[0] == pytest.approx(0.5)
    assert outcome.bound == pytest.approx(0.5)


def test_coefficients_that_float64_would_round_are_refused() -> None:
    """10^11 tokens at weight 10^5 leave the integers float64 holds: no solver gets wrong data."""
    problem = step_problem([1], [[0]], [[10**11 + 1]], discount=[10**5])
    with pytest.raises(CapabilityError, match="beyond 2\\^53"):
        _ = StepProgram(problem).standard_form


def test_a_large_step_is_written_in_little_memory() -> None:
    """10,000 requests on two workers: a dense square of requests alone would take 800 MB."""
    problem = step_problem([50, 50], [[0], [0]], [[1]] * 10_000)
    tracemalloc.start()
    form = StepProgram(problem).standard_form
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (form.num_rows, form.num_columns) == (10_000 + 2 + 1 + 2, 20_001)
    assert most < 50e6
