"""Every backend against enumeration, and results that claim no more than is proven."""

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from bfio.testing.instances import step_problem, step_problems
from formulations import InputError
from formulations.results import BoundKind, Termination
from formulations.step import (
    Objective,
    StepProblem,
    StepResult,
    lower_bound,
    solve,
    solve_by_enumeration,
)
from tests.formulations.test_check import OPTIMAL, P1

#: Spec section 9, P2: optimum 32, unique.
P2 = step_problem([1, 1], [[50, 51, 22], [30, 31, 32]], [[20, 21, 22], [8, 9, 10], [31, 0, 0]])
BACKENDS = ("cp-sat", "highs", "pyomo")
SOLVERS: dict[str, Callable[[StepProblem], StepResult]] = {
    "brute-force": solve_by_enumeration,
    **{name: (lambda p, name=name: solve(p, backend=name)) for name in BACKENDS},  # type: ignore[misc]
}


@pytest.mark.parametrize("name", SOLVERS)
def test_golden_p1(name: str) -> None:
    """P1: loads 58, 60, 60, so 3·60 − 178 = 2, attained once."""
    result = SOLVERS[name](P1)
    assert (result.objective, list(result.required_solution())) == (2, OPTIMAL)
    assert result.violations == {}


@pytest.mark.parametrize("name", SOLVERS)
def test_golden_p2(name: str) -> None:
    """P2: 58,60,32 and 61,31,32 over the window: 2·61 − 119 + 2·60 − 91 + 0 = 32."""
    result = SOLVERS[name](P2)
    assert (result.objective, list(result.required_solution())) == (32, [None, 0, 1])


def _agree(problem: StepProblem, names: tuple[str, ...]) -> None:
    truth = solve_by_enumeration(problem)
    for name in names:
        result = SOLVERS[name](problem)
        assert result.objective == truth.objective, name
        assert result.violations == {}, name
        if result.bound is not None and result.bound_kind is BoundKind.INTEGER:
            assert truth.objective is not None
            assert result.bound <= truth.objective, name
        infeasible = truth.termination is Termination.INFEASIBLE
        assert (result.termination is Termination.INFEASIBLE) == infeasible, name


@given(step_problems())
def test_cp_sat_agrees_with_enumeration(problem: StepProblem) -> None:
    """All objectives, weights and options; infeasible where enumeration finds nothing."""
    _agree(problem, ("cp-sat",))


@given(step_problems(max_requests=5))
def test_float_solvers_agree_with_enumeration(problem: StepProblem) -> None:
    """HiGHS and Pyomo reach the same integer."""
    _agree(problem, ("highs", "pyomo"))


@pytest.mark.parametrize("name", SOLVERS)
def test_weights_with_a_common_factor(name: str) -> None:
    """Weights 4, 4, 3, 2 in units of 250,000: SCIP 10 has taken 325,012,250,000 for optimal.

    Request 3 (99951) beside 0 and 2 (1 each), request 1 (118) where 228 is: the peak is 99953 at
    all four steps, (4 + 4 + 3 + 2) · 250000 · 99953 = 324847250000.
    """
    base = [[0] * 8, [0] * 6 + [10412, 0], [0] * 6 + [228, 1]]
    problem = StepProblem(
        capacity=np.array([3, 0, 1]),
        base=np.array(base),
        contribution=np.repeat([[1], [118], [1], [99951]], 8, axis=1),
        weights=(0, 0, 0, 0, 1000000, 1000000, 750000, 500000),
        scale=1000000,
        objective=Objective.MAX_LOAD,
    )
    result = SOLVERS[name](problem)
    assert (result.objective, list(result.required_solution())) == (324847250000, [0, 2, 0, 0])
    assert result.scale == 1000000
    assert result.bound is not None
    assert 324840000000 < result.bound <= 324847250000


@pytest.mark.deep
@settings(max_examples=3000)
@given(step_problems(max_requests=7))
def test_all_solvers_agree_deep(problem: StepProblem) -> None:
    """Thousands of problems: enumeration, HiGHS, CP-SAT and Pyomo agree to the integer."""
    _agree(problem, BACKENDS)


@pytest.mark.deep
@settings(max_examples=1000)
@given(st.data())
def test_all_solvers_agree_over_long_horizons(data: st.DataObject) -> None:
    """The same with H up to 50."""
    _agree(data.draw(step_problems(max_workers=3, max_requests=5, max_horizon=50)), BACKENDS)


@given(step_problems())
def test_the_combinatorial_bound_is_a_bound(problem: StepProblem) -> None:
    """The bound never exceeds the enumerated optimum, for any objective and options."""
    truth = solve_by_enumeration(problem)
    assume(truth.objective is not None)
    assert truth.objective is not None
    assert lower_bound(problem) <= truth.objective


def test_the_combinatorial_bound_closes_easy_steps() -> None:
    """Margins 3 and 0, requests 3 and 9 for one slot: 2·10 − (7 + 10 + 3) = 0 is met exactly."""
    problem = step_problem([1, 0], [[7], [10]], [[3], [1]])
    result = solve(problem, backend="highs")
    assert result.is_optimal
    assert (result.objective, result.bound) == (0, 0)


@pytest.mark.parametrize(
    ("base", "contribution", "required", "least"),
    [
        # Whichever worker takes the 10, one step has a peak of 19: 2·10 - 19 and 2·19 - 19.
        ([[0, 9], [9, 0]], [[10, 10]], None, 20),
        # Peaks of 14, 20 and 24: 2·14 - (4 + 20).
        ([[0], [4]], [[10], [10]], None, 4),
        # Only the 10 must be in, the 20 may: 2·14 - (4 + 4 + 30) is below 0.
        ([[4], [4]], [[10], [0], [20]], [True, False, False], 0),
        # 2·14 - (4 + 9 + 11), or 2·19 - 24.
        ([[4], [9]], [[10], [0], [1]], [True, False, False], 4),
    ],
)
def test_the_heaviest_required_are_on_some_worker(
    base: list[list[int]], contribution: list[list[int]], required: list[bool] | None, least: int
) -> None:
    """A required request stays on one worker at all steps; optional requests add no bound."""
    problem = step_problem(
        [1, 1], base, contribution, required=None if required is None else np.array(required)
    )
    truth = solve_by_enumeration(problem)
    assert truth.objective is not None
    assert lower_bound(problem) == least <= truth.objective


@pytest.mark.parametrize("capacity", [[0, 0], [2, 1]])
@pytest.mark.parametrize("requests", [0, 2])
def test_nothing_to_choose(capacity: list[int], requests: int) -> None:
    """Without slots or requests the answer is empty and optimal, with the loads' objective."""
    if requests and sum(capacity):
        return
    problem = step_problem(capacity, [[5], [9]], [[1]] * requests)
    result = solve(problem)
    assert result.assignment == (None,) * requests
    assert (result.objective, result.is_optimal) == (4, True)


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=4),
    st.lists(st.integers(1, 30), min_size=1, max_size=4),
)
def test_one_slot_each_is_a_bottleneck_matching(base: list[int], sizes: list[int]) -> None:
    """With caps 1 and N <= G the total is fixed, so the optimum is the bottleneck matching's."""
    assume(len(sizes) <= len(base))
    problem = step_problem([1] * len(base), [[b] for b in base], [[s] for s in sizes])
    total = sum(base) + sum(sizes)
    candidates = sorted({*base, *(b + s for b in base for s in sizes)})
    peak = next(m for m in candidates if m >= max(base) and _matching_exists(base, sizes, m))
    assert solve(problem).objective == len(base) * peak - total


def _matching_exists(base: list[int], sizes: list[int], peak: int) -> bool:
    graph = nx.Graph()
    left = [("request", i) for i in range(len(sizes))]
    graph.add_nodes_from(left)
    for i, s in enumerate(sizes):
        graph.add_edges_from(
            (("request", i), ("worker", g)) for g, b in enumerate(base) if b + s <= peak
        )
    matching = nx.bipartite.maximum_matching(graph, top_nodes=left)
    return sum(1 for node in matching if node[0] == "request") == len(sizes)


def test_a_hint_is_kept_when_time_is_up() -> None:
    """Without time, CP-SAT returns the hinted solution or none, and claims no optimum."""
    rng = np.random.default_rng(7)
    problem = StepProblem(
        rng.integers(1, 5, 16), rng.integers(0, 9000, (16, 1)), rng.integers(1, 3000, (64, 1))
    )
    hint: list[int | None] = [None] * 64
    slots = [g for g, cap in enumerate(problem.capacity.tolist()) for _ in range(cap)]
    for i, g in enumerate(slots[: problem.num_admitted]):
        hint[i] = g
    result = solve(problem, time_limit=0.05, hint=hint)
    assert result.termination in (Termination.TIME_LIMIT, Termination.OPTIMAL)
    if result.objective is not None and result.bound is not None:
        assert result.bound <= result.objective
    assert result.violations == {}


@pytest.mark.parametrize("hint", [[0.5, None], [0, 0], [None, None], [1]])
@pytest.mark.parametrize("backend", ["cp-sat", "highs"])
def test_an_infeasible_hint_is_ignored(backend: str, hint: list[int | None]) -> None:
    """One slot: half a worker, two requests, none, or a list for one request."""
    result = solve(step_problem([1], [[0]], [[4], [5]]), backend=backend, hint=hint)
    assert result.assignment == (None, 0) or result.assignment == (0, None)


def test_the_objective_is_scaled_with_a_fractional_discount() -> None:
    """Weights 1 and 9/10 become 10^6 and 900,000, and the result says so."""
    problem = step_problem([1], [[0, 0]], [[4, 5]], discount=["1", "9/10"], objective="max-load")
    result = solve(problem)
    # One worker, one request: peaks 4 and 5, so 4·10^6 + 5·900,000.
    assert (result.objective, result.scale) == (8_500_000, 10**6)
    assert result.to_mapping()["scale"] == 10**6


def test_an_unknown_backend_is_named() -> None:
    """One line: where, what, remedy."""
    with pytest.raises(InputError, match="backend: 'cplex' is unknown; use one of"):
        solve(P1, backend="cplex")
    with pytest.raises(InputError, match="pyomo:nope: Pyomo has no solver of this name"):
        solve(P1, backend="pyomo:nope")


def test_a_result_cannot_contradict_itself() -> None:
    """Optimal without an equal integer bound is refused at construction."""
    with pytest.raises(ValueError, match="an optimal result needs"):
        StepResult(
            method="x",
            termination=Termination.OPTIMAL,
            objective=3,
            bound=3,
            bound_kind=BoundKind.FLOAT,
            assignment=(0,),
        )
    with pytest.raises(ValueError, match="come together"):
        StepResult(method="x", termination=Termination.FEASIBLE, objective=3)


def test_the_three_objectives_differ() -> None:
    """Base 0, 4, 10, one slot on worker 0, sizes 3 and 20: each objective by hand."""
    values = {}
    for objective in Objective:
        problem = step_problem([1, 0, 0], [[0], [4], [10]], [[3], [20]], objective=objective)
        values[objective] = solve(problem).objective
    # Admit 3: loads 3, 4, 10: imbalance 13, peak 10, gap 7. Admit 20: 20, 4, 10: 26, 20, 16.
    assert values == {Objective.IMBALANCE: 13, Objective.MAX_LOAD: 10, Objective.GAP: 7}
