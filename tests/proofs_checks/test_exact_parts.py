"""Laws, enumerations and closed forms that claims compute with, against brute force."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofs_checks.ample_pool import Cell, blind_sizes, level_sizes, mean_gaps
from proofs_checks.laws import (
    binomial_tail,
    deviation,
    expected_imbalance,
    expected_maximum,
    law,
    mean,
    snapshot_law,
    sum_law,
)
from proofs_checks.papers.balance.lemma1 import fewest_maximisers, optimal_rounds
from proofs_checks.papers.balance.separation import Step
from proofs_checks.separation_search import violating_step
from proofs_checks.statistics import mean_estimate, slope_estimate
from proofs_checks.step_enumeration import gap, groups_with_loads, imbalance, reachable_loads

small_steps = st.integers(1, 3).flatmap(
    lambda G: st.tuples(
        st.lists(st.integers(0, 9), min_size=G, max_size=G),
        st.lists(st.integers(0, 2), min_size=G, max_size=G),
        st.lists(st.integers(1, 9), max_size=5),
    )
)


@given(small_steps)
def test_reachable_loads_are_those_of_all_assignments(
    step: tuple[list[int], list[int], list[int]],
) -> None:
    """Against every map of requests to workers or nowhere that uses min(N, slots) slots."""
    base, slots, sizes = step
    G, found = len(base), set()
    for chosen in product(range(G + 1), repeat=len(sizes)):
        counts = [chosen.count(g) for g in range(G)]
        if sum(counts) == min(len(sizes), sum(slots)) and all(
            c <= s for c, s in zip(counts, slots, strict=True)
        ):
            found.add(
                tuple(
                    b + sum(s for s, g in zip(sizes, chosen, strict=True) if g == h)
                    for h, b in enumerate(base)
                )
            )
    assert reachable_loads(base, slots, sizes) == found
    if len(sizes) >= sum(slots):
        for loads in found:
            groups = groups_with_loads(base, slots, sizes, loads)
            assert groups is not None
            assert tuple(b + sum(g) for b, g in zip(base, groups, strict=True)) == loads


def test_the_golden_round_of_the_specification() -> None:
    """Prompts uniform on 1..10, B = 8, G = 4: the exact mean imbalance is 33.51028507989."""
    assert expected_imbalance(law(range(1, 11)), 8, 4) == pytest.approx(33.51028507989, abs=1e-9)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True), st.integers(1, 4))
def test_sums_and_maxima_against_enumeration(values: list[int], count: int) -> None:
    """All draws written out."""
    draws = list(product(values, repeat=count))
    pmf = law(values)
    total = sum_law(pmf, count)
    assert mean(total) == pytest.approx(sum(map(sum, draws)) / len(draws))
    assert deviation(total) ** 2 == pytest.approx(count * deviation(pmf) ** 2, abs=1e-9)
    assert expected_maximum(pmf, count) == pytest.approx(sum(map(max, draws)) / len(draws))


def test_convolution_by_transform_agrees_with_direct_convolution() -> None:
    """Long laws take the other path; their moments are known."""
    pmf = law(range(1, 2001))
    assert mean(sum_law(pmf, 4)) == pytest.approx(4 * 1000.5, rel=1e-10)
    assert deviation(sum_law(pmf, 4)) == pytest.approx(2 * deviation(pmf), rel=1e-9)


@pytest.mark.parametrize("increment", [0, 1, 3])
def test_the_snapshot_law_has_the_moments_of_the_paper(increment: int) -> None:
    """Mean μ + δ(1 − p)/p and variance σ² + δ²(1 − p)/p²."""
    prompts, p = law([2, 5]), 0.25
    pmf = snapshot_law(prompts, p, increment)
    assert mean(pmf) == pytest.approx(3.5 + increment * 3)
    assert deviation(pmf) ** 2 == pytest.approx(2.25 + increment**2 * 12)


def test_binomial_tails_are_exact() -> None:
    """Two fair coins miss exactly one head with probability 1/2; outside 0..2 never."""
    assert binomial_tail(2, Fraction(1, 2), range(1, 2)) == Fraction(1, 2)
    assert binomial_tail(2, Fraction(1, 3), range(-5, 9)) == 0


@given(
    st.lists(st.integers(0, 12), min_size=2, max_size=2),
    st.data(),
    st.integers(1, 3),
)
def test_the_level_rule_minimises_gap_and_imbalance(
    base: list[int], data: st.DataObject, largest: int
) -> None:
    """Against every assignment from a pool that holds enough of every size."""
    slots = [data.draw(st.integers(1, 2)) for _ in base]
    pool = [size for size in range(1, largest + 1) for _ in range(sum(slots))]
    ends = np.array([[[i < c for i in range(2)] for c in slots]])
    sizes = level_sizes(np.array([base]), ends, largest, np.random.default_rng(0))
    admitted = np.where(ends, sizes, 0)[0]
    assert admitted.max() <= largest
    loads = tuple(int(b + row.sum()) for b, row in zip(base, admitted, strict=True))
    reached = reachable_loads(base, slots, pool)
    assert loads in reached
    assert gap(loads) == min(map(gap, reached))
    assert imbalance(loads) == min(map(imbalance, reached))


def test_the_array_simulation_reproduces_the_exact_mean_of_fcfs() -> None:
    """FCFS at stationarity: simulated imbalance against convolution, within its interval."""
    cell = Cell(workers=4, slots=6, completion=0.5, largest=5)
    _, imbalances = mean_gaps(cell, 400, 40, np.random.default_rng(1), blind_sizes)
    exact = expected_imbalance(snapshot_law(law(range(1, 6)), 0.5), 6, 4)
    half = 4 * imbalances.std() / 20
    assert abs(imbalances.mean() - exact) < half


def test_the_violating_step_is_absent_where_enumeration_finds_none() -> None:
    """Two workers: imbalance is gap, so the program must be infeasible; sizes up to 4, by hand."""
    assert violating_step(2, 4, 4, 6, seed=0) is None
    found = violating_step(3, 5, 11, 12, seed=3)
    assert found is not None
    workers = found["workers"]
    step = Step(tuple(w["base"] for w in workers), (1, 1, 1), tuple(found["pool"]))
    assert step.overloaded
    assert min(map(gap, step.minimisers(imbalance))) > step.bound


@given(
    st.sampled_from([(2, 2), (3, 3), (2, 2, 2)]).flatmap(
        lambda slots: st.tuples(
            st.just(slots),
            st.lists(st.integers(1, 9), min_size=sum(slots), max_size=sum(slots)),
        )
    )
)
def test_lemma_1_as_corrected(round_: tuple[tuple[int, ...], list[int]]) -> None:
    """Any sizes: the tie-broken optimum has M − m ≤ s_max − s_min."""
    slots, sizes = round_
    reached = reachable_loads([0] * len(slots), slots, sizes)
    best = min(map(fewest_maximisers, reached))
    for loads in reached:
        if fewest_maximisers(loads) == best:
            assert gap(loads) <= max(sizes) - min(sizes)


def test_optimal_rounds_are_complete() -> None:
    """One worker pair, sizes 1..2: three multisets of two, one load vector each."""
    assert [(s, x) for _, s, x in optimal_rounds([(1, 1)], 2, fewest_maximisers)] == [
        ((2, 2), (2, 2)),
        ((2, 1), (1, 2)),
        ((1, 1), (1, 1)),
    ]


def test_intervals_cover_what_they_should() -> None:
    """Mean of 1..9: 5 ± 2.306·2.7386/3; an exact line has an interval of width 0."""
    estimate = mean_estimate("m", range(1, 10), "any", lambda low, high: True)
    assert estimate.value == 5
    assert estimate.high - 5 == pytest.approx(2.306 * 2.7386 / 3, rel=1e-3)
    line = slope_estimate("s", [1, 2, 3], [5, 7, 9], "2", lambda low, high: low == high)
    assert line.value == pytest.approx(2)
    assert line.high - line.low == pytest.approx(0)
