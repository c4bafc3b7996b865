"""Admission under limited memory: linear program, knapsack, duals, several workers."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from bfio.testing.instances import fluid_problem, fluid_problems
from formulations import CapabilityError
from formulations.fluid import (
    AdmissionResult,
    FluidObjective,
    FluidProblem,
    FluidWorker,
    RequestClass,
    admission_price_violations,
    admission_violations,
    equilibrium,
    knapsack,
    margin_bound,
    margin_violations,
    solve_margin,
    solve_throughput,
)
from formulations.results import Termination
from tests.formulations.fluid.cases import gains, golden, plain

objectives = st.sampled_from(FluidObjective)


def test_half_the_memory_by_hand() -> None:
    """I0 with C = 4: K = 4/(1/2 + 4/18) = 72/13; class 0 takes 3, the rest 33/13 of 6.

    Densities 2/3 and 3/6. Throughput 2 + 3*(33/78) = 2 + 33/26 = 85/26. A further unit of work is
    worth 1/2; dK/dC = (1/2)/(13/18)² = 162/169, so a token is worth 81/169. u_0 = 2 − 3/2.
    """
    result = knapsack(golden(memory=4))
    assert plain(*result.fractions) == (1, Fraction(33, 78))
    assert result.value == Fraction(85, 26)
    assert result.memory_prices == (Fraction(81, 169),)
    assert result.memory_prices_below == result.memory_prices
    assert plain(*result.rate_prices) == (Fraction(1, 2), 0)


def test_the_kink_at_the_equilibrium() -> None:
    """I0 with C = M* = 9: one more token adds nothing, one less costs 1/2 · 1/2."""
    result = knapsack(golden())
    assert plain(result.value, *result.memory_prices) == (5, 0)
    assert result.memory_prices_below == (Fraction(1, 4),)
    roomy = knapsack(golden(memory=10))
    assert roomy.memory_prices_below == (Fraction(0),)


def test_the_objectives_differ() -> None:
    """Prefill-only requests complete stages but no decode tokens: they come last there."""
    problem = fluid_problem(4, [(9, 1, 0), (9, 5, 5)], 1, 0)
    # K = 4. Stages: density 1 and 6/45; decode tokens: 0 and 5/45.
    assert plain(*knapsack(problem).admitted) == (4, 0)
    decode = knapsack(problem, objective=FluidObjective.DECODE)
    assert plain(*decode.admitted) == (0, Fraction(4, 45))
    assert decode.value == Fraction(20, 45)


@given(fluid_problems(), objectives)
def test_program_knapsack_and_closed_form_agree(
    problem: FluidProblem, objective: FluidObjective
) -> None:
    """Exactly, the program's floats to 1e-9; all is admitted iff M* fits."""
    greedy = knapsack(problem, objective=objective)
    result = solve_throughput(problem, objective=objective)
    assert greedy.is_optimal
    assert result.is_optimal
    assert greedy.value == result.value
    if result.claimed is not None:
        assert result.claimed == pytest.approx(float(greedy.value or 0), rel=1e-9)
    whole = sum(kind.rate * objective.worth(kind) for kind in problem.classes)
    worker = problem.workers[0]
    fits = problem.work_rate <= worker.capacity
    if objective is FluidObjective.STAGES:
        assert (greedy.value == whole) == fits
    assert set(greedy.fractions) == {1} or not fits
    state = equilibrium(problem.classes, worker, greedy.admitted)
    assert state.memory <= worker.memory
    below = greedy.work_prices_below
    assert below is not None
    assert greedy.work_prices[0] <= result.work_prices[0] <= below[0]


@given(fluid_problems())
def test_prices_are_the_slopes(problem: FluidProblem) -> None:
    """Throughput is concave in C: a token more adds at most its price, one less costs at least."""
    worker = problem.workers[0]
    assume(1 < worker.memory < 10**12)

    def value(memory: int) -> Fraction:
        other = replace(problem, workers=(replace(worker, memory=memory),))
        found = knapsack(other).value
        assert found is not None
        return found

    here = knapsack(problem)
    below = here.memory_prices_below
    assert below is not None
    at, price, loss = value(worker.memory), here.memory_prices[0], below[0]
    assert value(worker.memory + 1) - at <= price <= loss <= at - value(worker.memory - 1)


@given(fluid_problems(max_workers=3), objectives)
@example(golden(), FluidObjective.STAGES)
def test_rate_prices_are_the_gains(problem: FluidProblem, objective: FluidObjective) -> None:
    """Where memory is full to the token, a request more displaces what is worth least."""
    found = knapsack(problem, objective=objective)
    assert found.rate_prices == gains(
        problem, lambda other: knapsack(other, objective=objective).value
    )


@given(fluid_problems(max_workers=4, confined=True), objectives)
def test_several_workers(problem: FluidProblem, objective: FluidObjective) -> None:
    """The exact vertex and prices prove each other, on any routes; pooled ones are a knapsack."""
    result = solve_throughput(problem, objective=objective)
    assert result.is_optimal
    assert admission_violations(problem, result.routing, result.value, objective) == {}
    if problem.is_pooled:
        assert knapsack(problem, objective=objective).value == result.value
    pooled = FluidProblem(
        tuple(replace(kind, workers=None) for kind in problem.classes), problem.workers
    )
    most = knapsack(pooled, objective=objective).value
    assert result.value is not None
    assert most is not None
    assert result.value <= most


@given(fluid_problems(max_workers=4, confined=True))
def test_the_margin(problem: FluidProblem) -> None:
    """It is proven by prices; all can be admitted iff it is at least 1."""
    result = solve_margin(problem)
    program = solve_margin(problem, backend="highs")
    assert result.is_optimal
    assert program.is_optimal
    assert result.value == program.value
    everything = sum(kind.rate * kind.iterations for kind in problem.classes)
    assert result.is_stable == (solve_throughput(problem).value == everything)
    if result.is_stable:
        assert admission_violations(problem, result.balanced_routing) == {}
    else:
        # The prices separate the rates from the region.
        assert margin_bound(problem, result.work_prices) is not None
        assert (margin_bound(problem, result.work_prices) or 1) < 1


@given(fluid_problems(max_workers=3, confined=True))
def test_the_margin_scales(problem: FluidProblem) -> None:
    """Rates at the margin are on the boundary: critical, not beyond."""
    value = solve_margin(problem).value
    assert value is not None
    assume(value <= 10**9)
    classes = tuple(replace(kind, rate=kind.rate * value) for kind in problem.classes)
    assert solve_margin(replace(problem, classes=classes)).is_critical


def test_confined_classes_by_hand() -> None:
    """Both classes only on the first of two workers with K = 9: the margin is 9/18, not 18/18."""
    kinds = tuple(RequestClass(Fraction(2), 1, output, (0,)) for output in (1, 2))
    two = FluidProblem(kinds, (golden().workers[0],) * 2)
    result = solve_margin(two)
    assert (result.value, result.is_stable) == (Fraction(1, 2), False)
    # 18/18 = 1 if both may go anywhere: critical.
    free = tuple(replace(kind, workers=None) for kind in kinds)
    assert solve_margin(FluidProblem(free, two.workers)).is_critical
    # Prices (1, 0): the classes pay 2*3 + 2*6 = 18 where the worker earns 9.
    assert margin_bound(two, (Fraction(1), Fraction(0))) == Fraction(1, 2)
    assert margin_bound(two, (Fraction(0), Fraction(1))) is None
    assert margin_bound(two, (Fraction(-1), Fraction(1))) is None


def test_the_knapsack_needs_one_pool() -> None:
    """A confined class is for the linear program."""
    kinds = (RequestClass(Fraction(1), 1, 1, (1,)),)
    two = FluidProblem(kinds, (golden().workers[0],) * 2)
    with pytest.raises(CapabilityError, match="linear program"):
        knapsack(two)
    assert solve_throughput(two).value == 2


def test_the_checkers_see_every_constraint() -> None:
    """Too much of a class, of work, of a forbidden route, a negative rate, a wrong value."""
    worker = FluidWorker(Fraction(1), Fraction(0), 6)
    two = FluidProblem(
        (RequestClass(Fraction(2), 1, 1, (0,)), RequestClass(Fraction(1), 1, 2)), (worker,) * 2
    )
    one, no = Fraction(1), Fraction(0)
    assert admission_violations(two, [[one, no], [no, one]], Fraction(5)) == {}
    assert admission_violations(two, [[one, no], [no, one]], Fraction(6)) == {"objective": 1}
    assert admission_violations(two, [[no, one], [no, no]]) == {"x[0,1]": 1}
    assert admission_violations(two, [[-one, no], [no, no]]) == {"x[0,0]": 1}
    assert admission_violations(two, [[3 * one, no], [no, no]]) == {"rate[0]": 1, "work[0]": 3}
    assert margin_violations(two, [[one, no], [no, one]], one) == {"routed[0]": 1}
    assert admission_price_violations(two, [no, no], [one, -one]) == {
        "rate[1]": 1,
        "x[0,0]": 1,
        "x[1,0]": 4,
        "x[1,1]": 4,
    }


def test_a_wrong_knapsack_is_refused() -> None:
    """Admitting the longest first is feasible, but no prices prove it: not optimal."""
    right = knapsack(golden(memory=4))
    routing = ((Fraction(0),), (Fraction(12, 13),))
    value = Fraction(36, 13)
    assert admission_violations(right.problem, routing, value) == {}
    assert right.value is not None
    assert value < right.value
    with pytest.raises(ValueError, match="an optimal result needs"):
        AdmissionResult(
            method="longest first",
            termination=Termination.OPTIMAL,
            value=value,
            bound=right.bound,
            problem=right.problem,
            objective=right.objective,
            routing=routing,
            work_prices=right.work_prices,
            rate_prices=right.rate_prices,
        )
