"""Steps with benefits of placements, memory, speeds and required requests."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from bfio.step.exact import solve_exact
from bfio.step.exact.benefit import _most_worth
from bfio.step.solve import solve_step
from formulations.errors import InputError
from formulations.results import Termination
from formulations.second import second_problem
from formulations.step import Objective, StepProblem, lower_bound, solve, solve_by_enumeration
from formulations.step.bound import most_benefit
from formulations.step.certificate import certified_bound
from formulations.step.check import violations
from formulations.step.problem import geometric_weights

#: Loads of half the weight pull one way, a prefix on the fullest worker the other.
HAND = {
    "capacity": [1, 1, 0],
    "base": [[10], [14], [20]],
    "contribution": [[8], [6], [5]],
    "benefit": [[0, 9, 0], [0, 4, 0], [0, 0, 7]],
}


def random_problem(seed: int) -> StepProblem:
    """Return a small step with any of memory, speeds, required requests, and always a benefit."""
    rng = np.random.default_rng(seed)
    G, steps = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    N = int(rng.integers(1, 7 if G < 3 else 6))
    most = int(rng.choice([3, 20, 1000]))
    base = rng.integers(0, 3 * most, (G, steps))
    sizes = rng.integers(1, most + 1, (N, 1))
    growth = rng.integers(0, 3) * np.arange(steps)
    alike = rng.random() < 0.6
    contribution = sizes + (growth if alike else rng.integers(0, most + 1, (N, steps)))
    capacity = rng.integers(0, 4, G)
    weights, scale = geometric_weights(Fraction(9, 10), steps) if rng.random() < 0.3 else ((), 1)
    given: dict[str, Any] = {}
    if rng.random() < 0.6:
        given["token_capacity"] = base.max(axis=1) + rng.integers(0, 4 * most, G)
    if rng.random() < 0.5:
        given["token_time"] = rng.integers(1, 4, G)
    if rng.random() < 0.5:
        given["required"] = rng.random(N) < 0.4
    if rng.random() < 0.3:
        given["admit"] = int(rng.integers(0, min(N, int(np.minimum(capacity, N).sum())) + 1))
    return StepProblem(
        capacity=capacity,
        base=base,
        contribution=contribution,
        weights=weights,
        scale=scale,
        objective=rng.choice(list(Objective), p=[0.7, 0.15, 0.15]),
        benefit=rng.integers(0, 3 * most, (N, G)) * (rng.random((N, G)) < 0.6) * scale,
        **given,
    )


def agree(seed: int) -> bool:
    """Compare enumeration, CP-SAT and the exact method; return whether there is a solution."""
    problem = random_problem(seed)
    truth = solve_by_enumeration(problem)
    other = solve(problem, backend="cp-sat")
    assert (other.objective, other.termination) == (truth.objective, truth.termination)
    found = solve_exact(problem)
    assert found.to_step_result(problem).termination is truth.termination
    assert found.objective == truth.objective
    if truth.objective is None:
        return False
    assert lower_bound(problem) <= truth.objective
    own = solve_exact(problem, fallback=None)
    assert own.bound is not None
    assert own.bound <= truth.objective
    if own.certificate is not None:
        assert certified_bound(problem, own.certificate) == own.bound
    if own.assignment is not None:
        assert violations(problem, own.assignment, own.objective) == {}
    return True


@pytest.mark.parametrize("chunk", range(4))
def test_equals_enumeration(chunk: int) -> None:
    """Brute force, the exact method and CP-SAT agree to the integer."""
    assert sum(agree(seed) for seed in range(8 * chunk, 8 * chunk + 8)) > 0


@pytest.mark.deep
@pytest.mark.parametrize("chunk", range(20))
def test_equals_enumeration_deep(chunk: int) -> None:
    """The same on 2,000 problems, nine in ten of which have a solution."""
    assert sum(agree(seed) for seed in range(100 * chunk, 100 * chunk + 100)) > 60


def test_what_cp_sat_closes_in_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Imbalance at one speed with memory, required requests and requests alike, left open."""
    monkeypatch.setattr("bfio.step.exact.solve._TINY", 0)
    closed = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        # Every other one small, so that many assignments have the least imbalance.
        most = 30 if seed % 2 else 4
        base, sizes = rng.integers(0, most, (3, 1)), rng.integers(1, most, (6, 1))
        sizes[1] = sizes[0]
        benefit = rng.integers(0, 2 * most, (6, 3))
        benefit[1] = benefit[0]
        problem = StepProblem(
            capacity=rng.integers(1, 3, 3),
            base=base,
            contribution=sizes,
            benefit=benefit,
            token_capacity=base[:, 0] + rng.integers(most, 2 * most, 3) if seed % 4 else None,
            required=np.array([seed % 3 > 0, False, False, rng.random() < 0.5, False, False]),
        )
        truth, found = solve_by_enumeration(problem), solve_exact(problem)
        assert found.to_step_result(problem).termination is truth.termination
        assert found.objective == truth.objective
        closed += found.method == "cp-sat"
    assert closed > 10


@pytest.mark.parametrize("seed", [2, 5, 14, 18])
def test_the_least_imbalance_may_be_kept(seed: int) -> None:
    """The best has the least imbalance, and more benefit than the one found without it."""
    rng = np.random.default_rng(seed)
    problem = StepProblem(
        capacity=np.array([1, 1, 1]),
        base=rng.integers(0, 4, (3, 1)),
        contribution=rng.integers(1, 4, (6, 1)),
        benefit=rng.integers(0, 6, (6, 3)),
    )
    assert solve_exact(problem).objective == solve_step(problem, method="brute-force").objective


def test_slot_prices_are_the_dual_of_the_transportation_problem() -> None:
    """With slots and requests to spare in turn: what they bound is what the best placement is."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        N, G = int(rng.integers(1, 9)), int(rng.integers(1, 5))
        problem = StepProblem(
            capacity=rng.integers(0, 3, G),
            base=np.zeros((G, 1), dtype=np.int64),
            contribution=np.ones((N, 1), dtype=np.int64),
            benefit=rng.integers(0, 20, (N, G)) + (np.arange(G) == 0),
        )
        if problem.num_admitted == 0:
            continue
        assert problem.benefit is not None
        slots = np.repeat(np.arange(G), problem.capacity)
        pairs = linear_sum_assignment(problem.benefit[:, slots], maximize=True)
        most = int(problem.benefit[:, slots][pairs].sum())
        prices, placed = _most_worth(problem)
        assert placed is not None
        assert problem.benefit_of(placed) == most
        assert most_benefit(problem, prices) == most


def test_by_hand() -> None:
    """One request on each of workers 0 and 1, worker 2 is full with 20 tokens.

    r0->w0, r1->w1: loads 18, 20, 20, imbalance 2, worth 4: -2. r1->w0, r0->w1: loads 16, 22, 20,
    imbalance 8, worth 9: -1. r2->w0, r1->w1: 15, 20, 20, imbalance 5, worth 4: 1. r2->w0, r0->w1:
    15, 22, 20, imbalance 9, worth 9: 0. r0->w0, r2->w1: 18, 19, 20, imbalance 3. Without the
    benefit r0 and r1 alike, at 2. What r2 would be worth on the full worker counts nothing.
    """
    problem = StepProblem.from_mapping(HAND)
    for method in ("exact", "cp-sat", "brute-force", "two-stage"):
        result = solve_step(problem, method=method)
        assert (result.objective, result.assignment) == (-2, (0, 1, None)), method
    dearer = StepProblem.from_mapping(HAND | {"benefit": [[0, 12, 0], [0, 4, 0], [0, 0, 7]]})
    for method in ("exact", "cp-sat", "brute-force"):
        result = solve_step(dearer, method=method)
        assert (result.objective, result.assignment) == (-4, (1, 0, None)), method


def test_the_two_stage_heuristic_adds_it_to_the_score() -> None:
    """Worker 1 alone, margin 6: r0 scores 8 - 3·2 = 2, r1 6, r2 5; with 12 more r0 scores 14."""
    alone = HAND | {"capacity": [0, 1, 0], "benefit": [[0] * 3] * 3}
    plain = solve_step(StepProblem.from_mapping(alone), method="two-stage")
    assert plain.assignment == (None, 1, None)
    worth = alone | {"benefit": [[0, 12, 0], [0, 4, 0], [0, 0, 7]]}
    result = solve_step(StepProblem.from_mapping(worth), method="two-stage")
    assert result.assignment == (1, None, None)


def test_prices_bound_what_placements_are_worth() -> None:
    """One free slot that two want is worth 9 at most; without its price both would count."""
    problem = StepProblem(
        capacity=np.array([1, 1]),
        base=np.array([[0], [0]]),
        contribution=np.array([[3], [3]]),
        benefit=np.array([[9, 0], [8, 0]]),
    )
    prices, placed = _most_worth(problem)
    assert prices == (8, 0)
    assert placed == (0, 1)
    assert most_benefit(problem, prices) == 9
    assert most_benefit(problem, (0, 0)) == 17
    with pytest.raises(InputError, match="slot_prices"):
        most_benefit(problem, (-1, 0))
    result = solve_exact(problem, fallback=None)
    assert result.proven
    assert result.certificate is not None
    assert certified_bound(problem, result.certificate) == result.objective == -9


def test_what_no_open_worker_offers_is_nothing() -> None:
    """The exact method keeps its own proof where benefit is on full workers only."""
    benefit = [[0, 0, 9], [0, 0, 4], [0, 0, 7]]
    problem = StepProblem.from_mapping(HAND | {"benefit": benefit})
    result = solve_exact(problem, fallback=None)
    assert result.proven
    assert result.objective == 2
    assert result.certificate is not None
    assert certified_bound(problem, result.certificate) == 2


def test_a_benefit_of_zeros_is_none() -> None:
    """So that it costs nothing."""
    assert StepProblem.from_mapping(HAND | {"benefit": [[0] * 3] * 3}).benefit is None


def test_documents_are_in_units_of_the_objective() -> None:
    """Half a token, or a discount, makes the scale a million; reading back gives the same."""
    halves = StepProblem.from_mapping(HAND | {"benefit": [["1/2", 0, 0], [0, 1, 0], [0, 0, 0]]})
    assert halves.scale == 10**6
    assert halves.benefit is not None
    assert halves.benefit.tolist() == [[500_000, 0, 0], [0, 10**6, 0], [0, 0, 0]]
    again = StepProblem.from_mapping(halves.to_mapping())
    assert again.to_mapping() == halves.to_mapping()
    discounted = StepProblem.from_mapping(HAND | {"discount": ["1/2"]})
    assert discounted.benefit is not None
    assert discounted.benefit[0, 1] == 9 * 10**6


@pytest.mark.parametrize(
    ("benefit", "error"),
    [
        ([[0, 9, 0]], "benefit: 1 entry where 3"),
        ([[0, 9]] * 3, r"benefit\[?0?\]?: 2 entries where 3"),
        ([[0, -9, 0]] * 3, r"benefit\[0\]\[1\]: -9 is out of range"),
        ([["1/3", 0, 0]] * 3, r"benefit\[0\]\[0\]: 1/3 is not a multiple of 1/1000000; round it"),
        (7, "benefit: a number; write a list"),
    ],
)
def test_bad_benefit(benefit: object, error: str) -> None:
    """One line says where and what."""
    with pytest.raises(InputError, match=error):
        StepProblem.from_mapping(HAND | {"benefit": benefit})


def test_second_objectives_refuse_it() -> None:
    """No choice among optima that would forget what placements are worth."""
    problem = StepProblem.from_mapping(HAND)
    with pytest.raises(InputError, match="benefit"):
        second_problem(problem, 0, "age")
    with pytest.raises(InputError, match="benefit"):
        solve_step(problem, second="age")


def test_a_work_limit_leaves_a_bound_and_an_answer() -> None:
    """Where the limit strikes before CP-SAT, what is in hand is feasible, not called optimal."""
    rng = np.random.default_rng(1)
    problem = StepProblem(
        capacity=rng.integers(0, 3, 8),
        base=rng.integers(900, 1000, (8, 1)),
        contribution=rng.integers(1, 100, (30, 1)),
        benefit=rng.integers(0, 200, (30, 8)),
    )
    result = solve_step(problem, work_limit=0)
    assert result.termination in (Termination.WORK_LIMIT, Termination.FEASIBLE)
    assert result.bound is not None
    assert result.objective is not None
    assert result.bound <= result.objective


def test_a_tiny_step_of_large_loads_is_enumerated_at_once() -> None:
    """Tables that grow with loads took it 545,000 ticks, more than a second."""
    problem = StepProblem.from_mapping(
        {
            "capacity": [3, 1, 1, 0],
            "base": [[5], [25], [5], [0]],
            "contribution": [[5395831], [1], [1], [2697915]],
            "discount": ["1000000"],
            "objective": "gap",
            "required": [True, False, False, False],
            "benefit": [
                [8093745, 8093742, 8093744, 8093742],
                [8093741, 8093741, 8093742, 8093743],
                [8093744, 8093744, 8093743, 8093745],
                [8093744, 8093743, 8093741, 8093743],
            ],
        }
    )
    result = solve_exact(problem)
    assert (result.objective, result.proven) == (5_395_803_625_027, True)
    assert result.ticks < 50_000
