"""The interval relaxation: never above the optimum, and as good as its linear program."""

from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.step.interval_bound import _flow, interval_bound
from bfio.testing.instances import step_problem, step_problems
from formulations.errors import InputError
from formulations.step import StepProblem, solve_by_enumeration
from formulations.step.bound import interval_relaxation, lower_bound


@given(step_problems(max_requests=5))
def test_no_feasible_assignment_is_below(problem: StepProblem) -> None:
    """Every objective, capacity, speed, required request, number to admit and discount."""
    optimum = solve_by_enumeration(problem).objective
    bound = interval_bound(problem)
    assert optimum is None or lower_bound(problem) <= bound <= optimum


@given(step_problems(max_requests=5), st.data())
def test_any_multipliers_bound(problem: StepProblem, data: st.DataObject) -> None:
    """Weak duality: for any flow and price, the value is a lower bound."""
    relaxation = interval_relaxation(problem)
    optimum = solve_by_enumeration(problem).objective
    if relaxation is None or optimum is None:
        return
    flow = np.zeros_like(relaxation.times)
    for h, supply in enumerate(relaxation.supply.tolist()):
        g = data.draw(st.integers(0, len(flow) - 1))
        part = data.draw(st.integers(0, supply))
        flow[g, h] += part
        flow[data.draw(st.integers(0, len(flow) - 1)), h] += supply - part
    price = data.draw(st.integers(-50, 50))
    assert relaxation.bound(flow, price) <= optimum


def growing(rng: np.random.Generator, G: int, steps: int, free: int) -> StepProblem:
    """Draw a step with full slots, ends of active requests and requests that grow."""
    base = rng.integers(300, 900, (G, 1)) - rng.integers(0, 40, (G, steps)).cumsum(axis=1)
    sizes = rng.integers(1, 200, (3 * free, 1))
    return StepProblem(
        np.bincount(rng.integers(0, G, free), minlength=G),
        np.maximum(base, 0),
        sizes + np.arange(steps),
        weights=tuple(rng.integers(0, 4, steps).tolist()),
    )


def by_network_simplex(problem: StepProblem) -> int:
    """Solve the relaxation without its limit on the total as a flow of largest gain."""
    G, weights = problem.num_workers, problem.weights
    sizes = sorted(problem.contribution[:, 0].tolist())
    pull = sum(weights)
    graph: Any = nx.DiGraph()
    graph.add_node("end", demand=G * pull)
    constant = 0
    for g, count in enumerate(problem.capacity.tolist()):
        most, least = sum(sizes[len(sizes) - count :]), sum(sizes[:count])
        graph.add_edge(("worker", g), ("asked", g), capacity=pull, weight=-most)
        graph.add_edge(("asked", g), "end", weight=0)
        graph.add_edge(("worker", g), "end", weight=-least)
        constant += pull * most
        for h, weight in enumerate(weights):
            load = int(problem.base[g, h]) + count * h
            graph.add_edge(("step", h), ("worker", g), weight=-load)
            constant += weight * load
    for h, weight in enumerate(weights):
        graph.nodes["step", h]["demand"] = -G * weight
    cost, _ = nx.network_simplex(graph)
    return -int(cost) - constant


def test_the_flow_is_that_of_network_simplex() -> None:
    """Thirty steps of up to eight workers and six look-ahead steps, some of weight 0."""
    rng = np.random.default_rng(3)
    raised = 0
    for _ in range(30):
        problem = growing(rng, int(rng.integers(2, 9)), int(rng.integers(1, 7)), 6)
        relaxation = interval_relaxation(problem)
        if relaxation is None:
            assert not any(problem.weights)
            continue
        # Steps of weight 0 are left out, and growth is counted from the first one kept.
        first = np.flatnonzero(problem.weights)[0]
        expected = by_network_simplex(
            StepProblem(
                problem.capacity,
                problem.base[:, first:],
                problem.contribution[:, first:],
                weights=problem.weights[first:],
            )
        )
        assert relaxation.bound(_flow(relaxation, 0), 0) == expected
        raised += interval_bound(problem) > lower_bound(problem)
    assert raised > 15


def test_golden_window() -> None:
    """Two workers, one slot on worker 0, sizes 2 and 9 that grow by 1; loads (10, 3), (6, 8).

    Worker 0 has (10, 4) + Δ with Δ in 2..9, worker 1 (6, 8). With Δ = 4 the peaks are (14, 8):
    8 + 0 = 8; less leaves 6 + Δ and 4 - Δ, and more adds 1 at each step. No size is 4: 2 costs
    6 + 2 = 8 as well, so the bound is met.
    """
    problem = step_problem([1, 0], [[10, 3], [6, 8]], [[2, 3], [9, 10]])
    assert interval_bound(problem) == 8
    assert solve_by_enumeration(problem).objective == 8
    assert lower_bound(problem) < 8


def test_requests_that_grow_differently_have_the_plain_bound() -> None:
    """If a request ends inside the window there is no relaxation, only the bound per step."""
    problem = step_problem([1, 0], [[1, 1], [5, 6]], [[3, 4], [3, 0]])
    assert interval_relaxation(problem) is None
    assert interval_bound(problem) == lower_bound(problem)


@pytest.mark.parametrize("flow", [[[2, 1], [0, 0]], [[3, -1], [-1, 3]], [[2], [0]]])
def test_a_flow_that_is_none_is_refused(flow: list[list[int]]) -> None:
    """Supplies of 2 and 2: one not used up, a negative one, another shape."""
    relaxation = interval_relaxation(step_problem([1, 0], [[1, 1], [5, 6]], [[3, 4]]))
    assert relaxation is not None
    with pytest.raises(InputError, match="flow"):
        relaxation.bound(np.array(flow), 0)


def test_a_bound_of_what_nobody_fits_comes_to_an_end() -> None:
    """Both workers have room for 1 token, the two requests need 10: any number is a bound."""
    problem = StepProblem(
        np.array([1, 1]),
        np.array([[4], [4]]),
        np.array([[1], [9]]),
        token_time=np.array([1, 100_000]),
        token_capacity=np.array([5, 5]),
    )
    assert interval_bound(problem) >= lower_bound(problem)
