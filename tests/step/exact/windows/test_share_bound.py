"""Theorem: any shares with sum at most 1 and any prices give a bound on the objective."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from formulations.errors import InputError
from formulations.step import StepProblem
from formulations.step.certificate import Certificate, certified_bound
from formulations.step.problem import Objective
from formulations.step.share_bound import (
    MAX_VALUE,
    Mode,
    PricedRound,
    Share,
    ShareRound,
    Windows,
    largest_objective,
)
from tests.step.exact.windows.cases import optimum, small_problems

Times = list[int]


def sets_of(problem: StepProblem, worker: int) -> list[tuple[tuple[int, ...], Times]]:
    """Return the sets of requests that a worker may take, and its times with each, by hand."""
    slots = int(problem.capacity[worker])
    fills = problem.num_admitted == int(problem.capacity.sum())
    rows, tau = problem.contribution.tolist(), int(problem.time_weights[worker])
    found = []
    for number in range(slots if fills else 0, slots + 1):
        for chosen in combinations(range(problem.num_requests), number):
            loads = problem.base[worker].tolist()
            for i in chosen:
                loads = [a + b for a, b in zip(loads, rows[i], strict=True)]
            limit = problem.token_capacity
            if limit is None or max(loads) <= int(limit[worker]):
                times = [tau * load for load in loads]
                if problem.objective is Objective.GAP:
                    times += [-time for time in times]
                found.append((chosen, times))
    return found


def pays_of(problem: StepProblem) -> list[int]:
    """Return what the objective pays per unit of each peak, and trough for the gap."""
    if problem.objective is Objective.IMBALANCE:
        return [problem.num_workers * w for w in problem.weights]
    twice = 2 if problem.objective is Objective.GAP else 1
    return list(problem.weights) * twice


def random_round(problem: StepProblem, scale: int, rng: np.random.Generator) -> ShareRound:
    """Return shares within the whole of random levels, and prices of any size and right sign."""
    pays = pays_of(problem)
    reach = int(problem.base.max() + problem.contribution.sum()) * int(problem.time_weights.max())
    shares: list[Share] = []
    for step, pay in enumerate(pays):
        marks = np.unique(rng.integers(-1, reach + 2, int(rng.integers(1, 4))))
        if step >= problem.num_steps:
            marks = np.unique(-marks)
        for above, to in zip(marks[:-1].tolist(), marks[1:].tolist(), strict=True):
            whole = scale * pay
            for _ in range(int(rng.integers(1, 4))):
                weight = int(rng.integers(0, whole + 1))
                whole -= weight
                worker = int(rng.integers(problem.num_workers))
                shares.append((step, worker, int(above), int(to), weight))
    most = 1 + scale * max(pays) * int(rng.choice([1, 10]))
    prices = rng.integers(0, most, problem.num_requests)
    free = np.full(problem.num_requests, problem.num_admitted == problem.num_requests)
    if problem.required is not None:
        free |= problem.required
    prices = np.where(free & (rng.random(len(free)) < 0.5), -prices, prices)
    return ShareRound(tuple(shares), tuple(prices.tolist()), int(rng.integers(-most, most)))


def plain_bound(problem: StepProblem, given: ShareRound, scale: int) -> int | None:
    """Return the bound of one round as the theorem states it; None if a worker fits nothing."""
    choices = [sets_of(problem, g) for g in range(problem.num_workers)]
    if not all(choices):
        return None
    pays = pays_of(problem)
    floors = [
        max(min(times[s] for _, times in sets) for sets in choices) for s in range(len(pays))
    ]
    counts = problem.objective is Objective.IMBALANCE
    weights = [w if counts else 0 for w in problem.weights]
    total = scale * sum(p * level for p, level in zip(pays, floors, strict=True))
    total -= sum(given.prices) + given.admit_price * problem.num_admitted
    for g, sets in enumerate(choices):
        costs = []
        for chosen, times in sets:
            cost = sum(given.prices[i] for i in chosen) + given.admit_price * len(chosen)
            cost -= scale * sum(w * t for w, t in zip(weights, times, strict=False))
            for step, worker, above, to, weight in given.shares:
                begins = max(above, floors[step])
                if worker == g and to > begins:
                    cost += weight * (min(max(times[step], begins), to) - begins)
            costs.append(cost)
        total += min(costs)
    return total


def rounds_of(seed: int, number: int, largest: int) -> list[tuple[StepProblem, int, ShareRound]]:
    """Return feasible problems with at least one admission, with a scale and a random round."""
    rng = np.random.default_rng(seed)
    return [
        (problem, scale, random_round(problem, scale, rng))
        for problem in small_problems(seed, number)
        for scale in (int(rng.choice([1, 7, 1 << 10])),)
        if problem.num_admitted and optimum(problem) is not None
        if max(problem.base.max(), problem.contribution.max()) <= largest
        if 1000 * scale * largest_objective(problem) <= MAX_VALUE
    ]


def certificate_of(kind: str, claim: int, scale: int, given: ShareRound) -> Certificate:
    """Return the certificate of one round."""
    return Certificate(
        kind,
        claim,
        (given.prices,),
        scale,
        shares=(given.shares,),
        admit_prices=(given.admit_price,),
    )


def check_the_theorem(seed: int, number: int) -> int:
    """Assert that no bound exceeds the optimum, and that the verifier derives each of them.

    Returns how many bounds are above the trivial ones.
    """
    strong = 0
    for problem, scale, given in rounds_of(seed, number, 10**6):
        best = optimum(problem)
        bound = plain_bound(problem, given, scale)
        assert best is not None
        assert bound is not None
        assert bound <= scale * best
        # With token limits the verifier's floors of the gap are those of sums in between.
        if problem.token_capacity is None:
            claim = -(-bound // scale)
            assert certified_bound(problem, certificate_of("shares", claim, scale, given)) == claim
        with pytest.raises(InputError, match=r"does not prove|limit"):
            certified_bound(problem, certificate_of("shares", best + 1, scale, given))
        strong += bound > 0
    return strong


def test_any_shares_and_prices_bound_the_objective() -> None:
    """Of 200 random rounds none proves more than the optimum, each what the theorem says."""
    assert check_the_theorem(21, 200) > 10


def level_by_level(made: PricedRound, mode: Mode) -> list[int]:
    """Return what the shares above the floors cost a mode at each of its sums, by hand."""
    problem = made.windows.problem
    paid = []
    for added in range(mode.low, mode.high + 1):
        times = [int(problem.time_weights[mode.worker]) * (b + added) for b in mode.loads.tolist()]
        times += [-time for time in times]
        cost = 0
        for step, worker, above, to, weight in made.shares.shares:
            begins = max(above, int(made.floors[step]))
            if worker == mode.worker and to > begins:
                cost += weight * (min(max(times[step], begins), to) - begins)
        paid.append(cost)
    return paid


def test_costs_of_sums_are_those_of_the_levels_they_reach() -> None:
    """Costs computed from the kinks of all shares are those of each share at each sum."""
    speeds, troughs = 0, 0
    for problem, scale, given in rounds_of(24, 600, 400):
        windows = Windows.of(problem)
        modes = windows.modes()
        made = PricedRound(windows, scale, given, windows.floors(modes), 0, 0)
        bare = PricedRound(windows, scale, replace(given, shares=()), made.floors, 0, 0)
        for mode in modes:
            of_shares = made.costs(mode) - bare.costs(mode)
            assert of_shares.tolist() == level_by_level(made, mode)
            speeds += bool(of_shares.any()) and int(problem.time_weights[mode.worker]) > 1
            troughs += bool(of_shares.any()) and problem.objective is Objective.GAP
    assert min(speeds, troughs) > 10


@pytest.mark.deep
def test_any_shares_and_prices_bound_the_objective_by_the_thousand() -> None:
    """The same for 10,000 rounds."""
    assert check_the_theorem(22, 10_000) > 500


def test_searches_decide_every_claim() -> None:
    """With any shares and prices, a search proves the optimum and refuses one more."""
    for problem, scale, given in rounds_of(23, 150, 1000):
        best = optimum(problem)
        assert best is not None
        claim = certificate_of("shares-search", best, scale, given)
        assert certified_bound(problem, claim) == best
        with pytest.raises(InputError, match="does not prove"):
            certified_bound(problem, certificate_of("shares-search", best + 1, scale, given))


def test_a_bound_by_hand() -> None:
    """Two workers at 10 and 8, a slot each, sizes 1 and 5: best is the 5 on the lower, J = 2.

    No peak is below 11. Worker 1 holds the levels 12 and 13, worker 0 those above, and the
    objective pays 2 for each: worker 0 costs -11 with the 1, or -15 + 2·2 with the 5; worker 1
    costs -9 with the 1, or -13 + 2·2 with the 5. So J >= 2·11 - 11 - 9 = 2, without any price.
    Held by halves, the same levels prove 0: a 5 costs 1 less on worker 0, and 2 on worker 1.
    """
    problem = StepProblem(np.array([1, 1]), np.array([[10], [8]]), np.array([[1], [5]]))
    assert optimum(problem) == 2
    best = ShareRound(((0, 1, 11, 13, 2), (0, 0, 13, 15, 2)), (0, 0))
    assert plain_bound(problem, best, 1) == 2
    assert certified_bound(problem, certificate_of("shares", 2, 1, best)) == 2
    halves = ShareRound(((0, 0, 11, 15, 1), (0, 1, 11, 15, 1)), (0, 0))
    assert plain_bound(problem, halves, 1) == 22 - 11 - 11
