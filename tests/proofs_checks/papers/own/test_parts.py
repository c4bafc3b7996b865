"""Functions behind our own claims, against brute force and by hand."""

from fractions import Fraction
from itertools import permutations, product
from math import exp, isclose, log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.testing.balance import C, contraction
from proofs_checks.papers.balance.rounds import (
    has_layers,
    is_overloaded,
    is_perfect,
    sharp_round,
    threshold,
)
from proofs_checks.papers.balance.separation import Step, deficit_bounds, levelled
from proofs_checks.papers.own.gaps import (
    Constants,
    distance_bound,
    floor,
    growth_tail,
    least_slots,
    longest_step,
    residue_distance,
)


@st.composite
def overloaded_steps(draw: st.DrawFn) -> Step:
    """Draw steps of two or three workers whose pool is overloaded."""
    slots = draw(st.lists(st.integers(1, 2), min_size=2, max_size=3))
    base = draw(st.lists(st.integers(0, 40), min_size=len(slots), max_size=len(slots)))
    size = st.integers(1, 5)
    pool = draw(st.lists(size, min_size=sum(slots) + 1, max_size=sum(slots) + 3))
    while not Step(tuple(base), tuple(slots), tuple(pool)).overloaded:
        pool.append(draw(size.filter(lambda s: pool.count(s) < len(pool) / 2)))
    return Step(tuple(base), tuple(slots), tuple(pool))


@given(overloaded_steps())
def test_some_assignment_levels_every_worker(step: Step) -> None:
    """The theorem of separation-levels.md, and both of its consequences."""
    chosen, least_gap, least_imbalance = levelled(step)
    bounds = deficit_bounds(step)
    for loads in chosen:
        top = max(loads)
        assert all(top - load <= bound for load, bound in zip(loads, bounds, strict=True))
    assert least_gap <= max(bounds)
    assert least_imbalance <= sum(bounds) - min(bounds)


def test_the_bounds_of_a_step_by_hand() -> None:
    """Γ = 3·2 − 2·2 = 2; the lighter worker is 9 below, so at most 7 after, the other 2."""
    step = Step((9, 0), (2, 2), (3, 3, 1, 1, 2, 2, 3, 1))
    assert contraction(step.slots, step.pool) == 2
    assert deficit_bounds(step) == [2, 7]


@pytest.mark.parametrize(("workers", "p", "largest"), [(2, 0.9, 2), (16, 0.5, 10), (4, 0.3, 5)])
def test_one_slot_less_does_not_meet_the_condition(workers: int, p: float, largest: int) -> None:
    """The least B is the least, and (IO) asks for no fewer."""
    slots = least_slots(workers, p, largest)
    assert Constants(workers, slots, p, largest).met()
    assert not Constants(workers, slots - 1, p, largest).met()
    assert least_slots(workers, p, largest, program=True) >= slots


def test_the_noise_of_one_slot_by_hand() -> None:
    """At p = 1/2, ±N/2 with N = 0, 1, 2 cut off; P(N/2 ≥ 1/2, plus sign) = 1/2·1/2."""
    assert growth_tail(1, 2, 0.5) == 0.25
    assert growth_tail(1, 2, 1.0) == 0.125
    assert growth_tail(4, 12, 0.0) > 0.5


@pytest.mark.parametrize(("period", "workers"), [(1, 2), (3, 2), (4, 3), (5, 4)])
def test_the_floor_is_the_mean_over_all_residues(period: int, workers: int) -> None:
    """By enumeration of all residues."""
    steps = [longest_step(r, period) for r in product(range(period), repeat=workers)]
    assert floor(period, workers) == period - Fraction(sum(steps), len(steps))


def test_longest_steps_by_hand() -> None:
    """Residues 0 and 3 of 10: 3 one way, 7 the other; one residue alone: all around."""
    assert longest_step((0, 3), 10) == 7
    assert longest_step((4, 14, 4), 10) == 10
    assert longest_step((0, 1, 2), 3) == 1


def test_residues_of_two_by_hand() -> None:
    """Even with 1/(2 − p): at p = 1/2 two of three; the bound is met with equality at m = 2."""
    assert isclose(residue_distance(2, 0.5, 1), 2 / 3 - 1 / 2)
    assert isclose(distance_bound(2, 0.5, 1), 1 / 6)
    assert residue_distance(7, 0.1, 16) <= distance_bound(7, 0.1, 16) < exp(-1)


@given(st.integers(2, 8), st.integers(2, 12))
def test_the_sharp_round_is_one_request_short(workers: int, sizes: int) -> None:
    """At B = T(K, G) it is overloaded and B − 1 layers are all it has."""
    slots = threshold(sizes, workers)
    assert slots == (sizes - 1) ** 2 - sizes * -(-(sizes - 1) // workers)
    if slots >= 1:
        _, _, counts = case = sharp_round(workers, sizes)
        assert is_overloaded(*case)
        assert not has_layers(*case)
        assert has_layers(workers, slots - 1, counts)


def test_three_requests_of_three_sizes_do_not_balance() -> None:
    """Two workers, a slot each, sizes 1, 2, 3, one of each; with two of each they do."""
    assert threshold(3, 2) == 1
    assert not is_perfect(2, 1, (1, 1, 1))
    assert is_perfect(2, 1, (2, 1, 1))


def test_ties_of_one_step_leave_a_gap_above_the_spread() -> None:
    """The step of lemma4-smax.md: minimisers of the imbalance have the gaps 3, 4 and 5; w = 4."""
    pool = (1, 3, 4, 5, 5, 5)
    assert Step((0, 5, 5), (1, 1, 1), pool).overloaded
    reached = {
        tuple(a + s for a, s in zip((0, 5, 5), chosen, strict=True))
        for chosen in permutations(pool, 3)
    }
    least = min(3 * max(loads) - sum(loads) for loads in reached)
    optima = [loads for loads in reached if 3 * max(loads) - sum(loads) == least]
    assert least == 5
    assert {max(loads) - min(loads) for loads in optima} == {3, 4, 5}
    assert (5, 10, 10) in optima


def test_the_mended_constant_for_fcfs() -> None:
    """The constant c'' of lemma4-smax.md from log G = 4 on: G is 55 at least."""
    workers = 55
    assert log(workers) >= 4 > log(workers - 1)
    assert C - 0.75 ** (workers - 1) / (2 * sqrt(log(workers))) >= max(C - 5e-8, 0.067)
