"""The closed form, its identities, and the linear program that must give the same."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.testing.instances import fluid_problem, fluid_problems, stable_fluid_problems
from formulations import InputError
from formulations.fluid import FluidProblem, FluidWorker, RequestClass, equilibrium
from formulations.fluid.solver import solve_equilibrium
from formulations.results import Termination
from proofs_checks.papers.fluid.equilibrium import (
    printed_active,
    printed_balance,
    printed_throughput,
)
from tests.formulations.fluid.cases import golden, plain


def test_the_golden_instance() -> None:
    """I0: ρ = 1/2, ΔT* = 1, n* = (2, 3), M* = 9, 2 + 3 stages and 1 + 2 decode tokens."""
    state = equilibrium(golden().classes, golden().workers[0])
    assert plain(state.work_rate, state.load) == (9, Fraction(1, 2))
    assert plain(state.memory, state.iteration_time) == (9, 1)
    assert plain(*state.active, *state.per_stage) == (2, 3, 1, 1)
    assert plain(state.throughput, state.decode_throughput) == (5, 3)
    # d0 = 0.4: M* = 0.4*9/(1/2) = 7.2.
    slower = golden(d0="0.4")
    assert equilibrium(slower.classes, slower.workers[0]).memory == Fraction("7.2")


@pytest.mark.parametrize(
    ("rows", "work"),
    [
        # Section 6.1 low: 1000*11*(10+5) + 1000*21*(10+10) = 165,000 + 420,000.
        ([(1000, 10, 10), (1000, 10, 20)], 585_000),
        # High: 6000*101*70 + 4000*201*120 + 2000*301*170 = 42.42e6 + 96.48e6 + 102.34e6.
        ([(6000, 20, 100), (4000, 20, 200), (2000, 20, 300)], 241_240_000),
    ],
)
def test_the_experiments(rows: list[tuple[int, int, int]], work: int) -> None:
    """The work rates of the paper's settings, and the loads they become unstable at."""
    problem = fluid_problem(10**6, rows, "0.01", Fraction(1, work))
    assert problem.work_rate == work
    with pytest.raises(InputError, match="no equilibrium exists"):
        equilibrium(problem.classes, problem.workers[0])
    slower = FluidWorker("0.01", Fraction(1, work + 1), 10**6)  # type: ignore[arg-type]
    assert equilibrium(problem.classes, slower).load < 1


@given(stable_fluid_problems())
def test_identities(problem: FluidProblem) -> None:
    """Balance, (1), (2), (4), (5) and (8) hold exactly, of all classes and of one alone."""
    worker = problem.workers[0]
    state = equilibrium(problem.classes, worker)
    assert state.iteration_time == worker.d0 + worker.d1 * state.memory
    pairs = list(zip(problem.classes, state.active, strict=True))
    assert state.memory == sum(n * kind.footprint for kind, n in pairs)
    assert all(n == state.iteration_time * k.rate * k.iterations for k, n in pairs)
    assert sum(state.active) * (1 - state.load) / worker.d0 == state.throughput
    alone = equilibrium(problem.classes[:1], worker)
    n, footprint = alone.active[0], problem.classes[0].footprint
    assert n / (worker.d0 + worker.d1 * n * footprint) == alone.throughput


@given(stable_fluid_problems(), st.integers(2, 9))
def test_heavy_traffic_scaling(problem: FluidProblem, zeta: int) -> None:
    """λ·ζ, d/ζ: load, memory and counts stay, time is divided and throughput multiplied."""
    worker = problem.workers[0]
    before = equilibrium(problem.classes, worker)
    classes = [RequestClass(k.rate * zeta, k.prompt, k.output) for k in problem.classes]
    after = equilibrium(classes, FluidWorker(worker.d0 / zeta, worker.d1 / zeta, 1))
    assert (after.load, after.memory, after.active) == (before.load, before.memory, before.active)
    assert after.iteration_time == before.iteration_time / zeta
    assert after.throughput == before.throughput * zeta


@given(stable_fluid_problems())
def test_capacity_is_where_the_equilibrium_fills_the_memory(problem: FluidProblem) -> None:
    """M* <= C iff A <= C/(d0 + d1 C)."""
    worker = problem.workers[0]
    fits = equilibrium(problem.classes, worker).memory <= worker.memory
    assert fits == (problem.work_rate <= worker.capacity)


@given(fluid_problems())
def test_the_linear_program_is_the_closed_form(problem: FluidProblem) -> None:
    """Exactly, its floats to 1e-9; infeasible, with a Farkas proof, iff the load is 1 or more."""
    worker = problem.workers[0]
    result = solve_equilibrium(problem)
    if worker.d1 * problem.work_rate >= 1:
        assert result.termination is Termination.INFEASIBLE
        assert result.farkas is not None
        return
    state = equilibrium(problem.classes, worker)
    assert result.is_optimal
    assert (result.value, result.iteration_time) == (state.memory, state.iteration_time)
    assert result.per_stage == state.per_stage
    assert (result.claimed is None) or result.claimed == pytest.approx(
        float(state.memory), rel=1e-9
    )


@given(stable_fluid_problems())
def test_the_linear_program_within_memory(problem: FluidProblem) -> None:
    """With the memory enforced it is feasible iff M* <= C."""
    worker = problem.workers[0]
    result = solve_equilibrium(problem, within_memory=True)
    fits = equilibrium(problem.classes, worker).memory <= worker.memory
    assert result.termination is (Termination.OPTIMAL if fits else Termination.INFEASIBLE)


def test_another_backend_gives_the_same() -> None:
    """Pyomo's solver of I0, and its exact vertex."""
    result = solve_equilibrium(golden(), backend="pyomo:highs")
    assert plain(result.value, result.is_optimal) == (9, True)


def test_printed_formulas_are_refuted() -> None:
    """On I0 each printed formula differs from what balance demands."""
    classes, worker = golden().classes, golden().workers[0]
    # (d0 + d1 M*) λ_j = 1 each, but 2 and 3 are active: 2*1.5 + 3*2 = 9, 1*1.5 + 1*2 = 3.5.
    assert plain(*printed_balance(classes, worker)) == (1, 1)
    assert plain(*printed_active(classes, worker)) == (3, 6)
    # 2*(2+3)*(1 − 9) = −80, not 5.
    assert printed_throughput(classes, worker) == -80
