"""No method of any program claims a false optimum, false infeasibility or a false bound."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bfio.hindsight.latency import solve_latency
from bfio.hindsight.makespan import solve_makespan
from bfio.pausing import solve_pausing
from bfio.step.solve import solve_step
from formulations import batch_composition, thresholds
from formulations.backends import Outcome, SolveLimits
from formulations.backends.cp_sat import CpSat
from formulations.errors import CapabilityError, InputError
from formulations.fluid import (
    FluidObjective,
    FluidProblem,
    solve_equilibrium,
    solve_margin,
    solve_throughput,
)
from formulations.formulation import trusted_outcome
from formulations.hindsight_latency import LatencyProblem, LatencyProgram
from formulations.hindsight_makespan import MakespanProgram
from formulations.pausing import PausingProblem
from formulations.pausing.problem import PricedPausing
from formulations.pausing.solver import PricedProgram
from formulations.results import BoundKind, Termination, origin
from formulations.second import Second
from formulations.stability import capacity, solve_capacity
from formulations.step import StepProblem, StepProgram, StepResult
from tests.formulations.proofs import cases

#: A time limit that strikes in Hypothesis's callback of the collector is lost: the solve goes on.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SEEDS = st.integers(0, 2**40)
#: Seconds for a solver on a tiny problem: where it does not end, it must not claim.
LIMIT = 0.5


def assert_true(result: Any, right: Any) -> None:
    """Check every claim of a result; ``right`` is the optimum, None if there is no solution."""
    assert not result.violations
    if result.termination is Termination.INFEASIBLE:
        assert right is None
        return
    if result.objective is not None:
        assert right is not None
        assert result.objective >= right
    if result.is_optimal:
        assert result.objective == right
    kind = getattr(result, "bound_kind", BoundKind.INTEGER)
    if result.bound is not None and kind is BoundKind.INTEGER and right is not None:
        assert result.bound <= right


def solved(solve: Callable[..., Any], problem: Any, **given: Any) -> Any:
    """Return the result; None if the method does not support the problem."""
    try:
        return solve(problem, **given)
    except CapabilityError:
        return None


def check(solve: Callable[..., Any], problem: Any, method: str, right: Any) -> None:
    """Solve, and compare with the result of enumeration."""
    result = solved(solve, problem, method=method, time_limit=LIMIT)
    if result is not None:
        assert_true(result, right)


def found(
    right: int,
    capacity: list[int],
    base: list[int],
    contribution: list[int],
    token_time: list[int],
    **others: Any,
) -> tuple[dict[str, Any], int]:
    """Return the document of a step of one window step, and its optimum."""
    document = {
        "capacity": capacity,
        "base": [[load] for load in base],
        "contribution": [[size] for size in contribution],
        "token_time": token_time,
    }
    return document | others, right


#: Where CP-SAT's presolve, and HiGHS, were found wrong: optimum, and the parts of the step.
FOUND = [
    found(
        4_624_973_718, [2, 3], [4932125, 2027961], [2870443, 1821623, 4970260], [50262, 73376],
        objective="gap",
    ),
    found(
        4_154_917_000, [2, 2, 2], [51638444, 60902921, 39499255], [57198620, 28618228],
        [100, 200, 100], objective="gap",
    ),
    found(1_327_657_617, [2, 1], [29910, 36295], [11337, 10540, 52747], [100525, 73376]),
    found(
        482_785_500, [1, 4], [3147825, 2793700], [5840342, 4129213, 15007994, 10220419],
        [100, 100], objective="gap",
    ),
    found(
        115_559_034, [2, 1000], [29033221, 41776203], [17571912, 79084216, 83834961, 5859410],
        [3, 4],
    ),
    # Without presolve CP-SAT calls it infeasible: a reach beyond 2^53.
    found(
        12_600_049_282_162_433, [2], [115652681136], [35866142964, 19675365201], [73601],
        objective="max-load", benefit=[[4113488132], [10131092336]],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("document", "right"), FOUND)
def test_found_instances_are_optimal(document: dict[str, Any], right: int) -> None:
    """The default method proves them; the oracle agrees."""
    problem = StepProblem.from_mapping(document)
    assert cases.least_of_step(problem) == right
    result = solve_step(problem)
    assert result.is_optimal
    assert result.objective == right


@pytest.mark.parametrize("method", ["cp-sat", "highs", "pyomo", "two-stage"])
@pytest.mark.parametrize(("document", "right"), FOUND)
def test_no_method_claims_what_is_false(document: dict[str, Any], right: int, method: str) -> None:
    """Floating-point solvers refuse numbers outside their range."""
    check(solve_step, StepProblem.from_mapping(document), method, right)


def test_a_solver_in_floating_point_names_its_range() -> None:
    """HiGHS refuses this step, on which its answer would be 29 % above the optimum."""
    problem = StepProblem.from_mapping(FOUND[4][0])
    with pytest.raises(CapabilityError, match=r"sums could reach 1\.7e\+09"):
        solve_step(problem, method="highs")


@pytest.mark.parametrize("method", ["exact", "cp-sat"])
@given(seed=SEEDS)
def test_steps(method: str, seed: int) -> None:
    """With every option."""
    problem = cases.drawn(cases.step, seed)
    check(solve_step, problem, method, cases.least_of_step(problem))


@pytest.mark.parametrize("method", ["highs", "pyomo:highs", "two-stage", "brute-force"])
@given(seed=SEEDS)
def test_steps_by_other_methods(method: str, seed: int) -> None:
    """Floats, the heuristic and the enumeration of the package."""
    problem = cases.drawn(cases.step, seed)
    check(solve_step, problem, method, cases.least_of_step(problem))


@given(seed=SEEDS)
def test_steps_that_are_left_to_cp_sat(seed: int) -> None:
    """Without enumeration, as for larger steps, CP-SAT solves them, aggregated or as stated."""
    problem = cases.drawn(cases.step, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bfio.step.exact.solve._TINY", 0)
        check(solve_step, problem, "exact", cases.least_of_step(problem))


@given(seed=SEEDS)
def test_tiny_steps_are_settled(seed: int) -> None:
    """The default method solves every tiny problem, for numbers of any size."""
    problem = cases.drawn(cases.step, seed)
    result = solve_step(problem)
    right = cases.least_of_step(problem)
    assert result.termination is (Termination.INFEASIBLE if right is None else Termination.OPTIMAL)


@given(seed=SEEDS, second=st.sampled_from([Second.AGE, Second.SMALLEST, Second.GAP]))
def test_second_objectives(seed: int, second: Second) -> None:
    """Both objectives."""
    problem = cases.drawn(cases.step, seed).without_benefit()
    result: Any = solve_step(problem, second=second, time_limit=LIMIT)
    assert_true(result, cases.least_of_step(problem))
    if result.second_proven:
        assert result.chosen.objective == cases.least_second(problem, second)


@pytest.mark.parametrize("method", ["exact", "cp-sat", "highs"])
@given(seed=SEEDS)
def test_latencies(method: str, seed: int) -> None:
    """Hindsight of one cache."""
    problem = cases.drawn(cases.latency, seed)
    check(solve_latency, problem, method, LatencyProgram(problem).brute_force()[0])


@given(seed=SEEDS)
def test_tiny_latencies_are_settled(seed: int) -> None:
    """Tiny problems are solved for numbers of any size."""
    assert solve_latency(cases.drawn(cases.latency, seed)).is_optimal


def test_a_few_requests_that_come_late_are_settled() -> None:
    """There are billions of start vectors, but only few are tried."""
    prompt = np.array([8751, 1093, 1109, 3848, 8770, 4778, 425])
    output = np.array([1, 9, 5, 2, 4, 11, 6])
    result = solve_latency(LatencyProblem(8776, np.full(7, 333_000_688), prompt, output))
    assert (result.is_optimal, result.objective) == (True, 59)


@pytest.mark.parametrize("method", ["exact", "cp-sat", "highs"])
@given(seed=SEEDS)
def test_makespans(method: str, seed: int) -> None:
    """Hindsight of workers in lockstep."""
    problem = cases.drawn(cases.makespan, seed)
    best = MakespanProgram(problem).brute_force()
    check(solve_makespan, problem, method, None if best is None else best[0])


@given(seed=SEEDS)
def test_tiny_makespans_are_settled(seed: int) -> None:
    """Unequal memories are included, which the state search does not support."""
    assert solve_makespan(cases.drawn(cases.makespan, seed)).is_optimal


@pytest.mark.parametrize("method", ["exact", "cp-sat", "highs"])
@given(seed=SEEDS)
# Its least times are beyond the numbers of a problem.
@example(seed=16351)
def test_pauses(method: str, seed: int) -> None:
    """Least time per token."""
    problem = cases.drawn(cases.pausing, seed)
    check(solve_pausing, problem, method, solve_pausing(problem, method="brute-force").objective)


@pytest.mark.parametrize("method", ["auto", "cp-sat", "highs"])
@given(seed=SEEDS)
def test_batches(method: str, seed: int) -> None:
    """The batch of one iteration."""
    problem = cases.drawn(cases.batch, seed)
    check(batch_composition.solve, problem, method, batch_composition.brute_force(problem)[0])


@pytest.mark.parametrize("method", ["cp-sat", "highs"])
@given(seed=SEEDS)
def test_thresholds(method: str, seed: int) -> None:
    """Least thresholds, by their iteration in rationals."""
    problem = cases.drawn(cases.wait, seed)
    check(thresholds.solve, problem, method, thresholds.solve(problem).objective)


@given(seed=SEEDS)
def test_fluid_equilibria(seed: int) -> None:
    """The memory of all classes on one worker; infeasible for a load of 1 or more."""
    problem = cases.drawn(cases.fluid, seed)
    worker = problem.workers[0]
    alone = FluidProblem(tuple(replace(k, workers=None) for k in problem.classes), (worker,))
    arriving = sum(k.rate * k.work for k in alone.classes)
    result = solved(solve_equilibrium, alone)
    if result is None:
        return
    if worker.d1 * arriving >= 1:
        assert result.termination is Termination.INFEASIBLE
    else:
        assert result.is_optimal
        assert result.value == worker.d0 * arriving / (1 - worker.d1 * arriving)


@given(seed=SEEDS, objective=st.sampled_from(FluidObjective))
def test_fluid_throughput(seed: int, objective: FluidObjective) -> None:
    """The throughput within limited memory, for any routes."""
    problem = cases.drawn(cases.fluid, seed)
    result = solved(solve_throughput, problem, objective=objective)
    if result is not None:
        assert result.is_optimal
        assert result.value == cases.most_worth(problem, objective)


@pytest.mark.parametrize("backend", ["exact", "highs"])
@given(seed=SEEDS)
def test_fluid_margins(backend: str, seed: int) -> None:
    """The factor on all rates that can be served."""
    problem = cases.drawn(cases.fluid, seed)
    result = solved(solve_margin, problem, backend=backend)
    if result is not None:
        assert result.is_optimal
        assert result.value == cases.most_factor(problem)


@pytest.mark.parametrize("solve", [capacity, solve_capacity])
@given(seed=SEEDS)
def test_capacities(solve: Callable[..., Any], seed: int) -> None:
    """The capacity of networks of agents."""
    network = cases.drawn(cases.network, seed)
    result = solved(solve, network)
    if result is not None:
        assert result.is_optimal
        assert result.factor == 1 / cases.highest_load(network)


@pytest.mark.parametrize("limit", [0.0, 1e-3, 1e-2, 2e-2])
def test_cp_sat_without_a_solution_bounds_nothing(limit: float) -> None:
    """Stopped at once, CP-SAT reports a bound of 0, above the optimum of a priced step."""
    problem = PausingProblem(
        capacity=np.array([2, 0, 2]),
        worker=np.array([2]),
        load=np.array([25]),
        paused=np.array([1]),
        waiting=np.array([39, 55]),
        max_pauses=3,
        step_overhead=[Fraction(13)] * 3,
        token_time=[Fraction(t) for t in (595, 739, 53)],
    )
    for _ in range(5):
        assert_true(solve_pausing(problem, method="cp-sat", time_limit=limit), 1338)
    priced = PricedProgram(PricedPausing.at(problem, Fraction(10**5)))
    outcome = CpSat().solve(priced, SolveLimits(work_limit=0), None)
    assert outcome.values is not None or outcome.bound is None


def test_where_our_search_gives_up_cp_sat_goes_on() -> None:
    """A memory of thousands of tokens is beyond our own search."""
    rows = np.array([[0, 7000, 3], [0, 5000, 1], [0, 3000, 2]])
    result = solve_latency(LatencyProblem(9000, rows[:, 0], rows[:, 1], rows[:, 2]))
    assert result.is_optimal
    assert result.objective == 8


# Planted faults: a solver with false claims.

SMALL = StepProblem(np.array([1, 1]), np.array([[9], [0]]), np.array([[5], [2], [1]]))
#: Requests 0 and 1 on workers 0 and 1: far from the optimum.
BAD = np.array([1, 0, 0, 1, 0, 0, 14], dtype=np.float64)


@pytest.mark.parametrize("kind", list(BoundKind))
@pytest.mark.parametrize("said", [Termination.OPTIMAL, Termination.INFEASIBLE])
def test_a_users_backend_that_lies_proves_nothing(
    tmp_path: Path, said: Termination, kind: BoundKind
) -> None:
    """Its claims of optimality or infeasibility are never accepted as proven."""
    file = tmp_path / "liar.py"
    point = BAD.tolist() if said is Termination.OPTIMAL else None
    file.write_text(
        "from formulations.backends import Outcome\n"
        "from formulations.results import BoundKind, Termination\n"
        "class Liar:\n"
        "    proves_integers = True\n"
        "    def solve(self, program, limits, hint):\n"
        f"        said, kind = Termination({said.value!r}), BoundKind({kind.value!r})\n"
        f"        return Outcome(said, {point}, 16, kind, 0.0)\n"
    )
    problem = StepProblem(
        SMALL.capacity, SMALL.base, SMALL.contribution, token_capacity=np.array([90, 90])
    )
    result = solve_step(problem, method=f"{file}:Liar")
    expected = Termination.FEASIBLE if said is Termination.OPTIMAL else Termination.FAILED
    assert result.termination is expected
    assert result.proof is None
    assert_true(result, cases.least_of_step(problem))


def _lying(monkeypatch: pytest.MonkeyPatch, *, bound: int | None, said: Termination) -> None:
    def solve(self: CpSat, program: Any, limits: SolveLimits, hint: object) -> Outcome:
        values = BAD if said is Termination.OPTIMAL else None
        return Outcome(said, values, bound, BoundKind.INTEGER, 0.0, {"name": "CP-SAT"})

    monkeypatch.setattr(CpSat, "solve", solve)


@pytest.mark.parametrize("said", [Termination.OPTIMAL, Termination.INFEASIBLE])
def test_a_claim_against_a_known_solution_is_dropped(
    monkeypatch: pytest.MonkeyPatch, said: Termination
) -> None:
    """A bound above the objective of the hint, or infeasibility despite the hint."""
    _lying(monkeypatch, bound=100, said=said)
    best = solve_step(SMALL, method="brute-force")
    result = StepProgram(SMALL).solved("cp-sat", hint=best.assignment)
    assert result.solver["refuted"] is True
    assert_true(result, best.objective)
    assert "a checked solution refutes the solver's claim" in result.origin()


def test_a_result_whose_bound_is_above_its_objective_is_an_error() -> None:
    """The constructor refuses it, for any method."""
    with pytest.raises(InputError, match=r"the lower bound 7 exceeds the objective 5"):
        StepResult(
            method="exact",
            termination=Termination.FEASIBLE,
            objective=5,
            bound=7,
            assignment=(None,),
        )


def test_a_word_of_floats_is_no_proof() -> None:
    """HiGHS calls feasible programs infeasible."""
    said = Outcome(Termination.INFEASIBLE, None, None, BoundKind.FLOAT, 0.0)
    assert trusted_outcome(said, None).termination is Termination.FAILED


def test_what_is_proven_is_said_once() -> None:
    """A summary with a proven bound does not also state that nothing is proven."""
    assert origin({}, None, bounded=True).endswith("the bound is proven, the optimum is not")
    assert origin({"finished": True}, None).endswith(
        "the solver claims optimality; not proven in integers"
    )
