"""Laws, enumerations and closed forms behind the claims, against brute force."""

import re
from collections.abc import Callable
from fractions import Fraction
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import proofs_checks
from proofs_checks.papers.balance import (
    algorithms,
    average_gap,
    model,
    rounds,
    slots,
    theorem1,
    theorem2,
)
from proofs_checks.papers.balance.rounds import (
    fewest_maximisers,
    is_perfect,
    optimal_rounds,
    smallest_overloaded,
)
from proofs_checks.papers.balance.separation import (
    Step,
    verify_objective,
    verify_program,
    violating_step,
)
from proofs_checks.papers.fluid.blind_throughput import State, certified_rate, states
from proofs_checks.papers.route import br0
from proofs_checks.papers.route.br0 import verify_stage1
from proofs_checks.papers.route.probes import verify_kinks
from proofs_checks.runs import (
    Cell,
    blind_sizes,
    gap,
    groups_with_loads,
    imbalance,
    level_sizes,
    mean_gaps,
    reachable_loads,
    two_sizes,
)
from proofs_checks.statistics import (
    binomial_tail,
    bounded_mean,
    deviation,
    expected_imbalance,
    expected_maximum,
    law,
    mean,
    mean_estimate,
    room,
    slope_estimate,
    snapshot_law,
    sum_law,
)

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


@given(
    st.lists(st.integers(0, 12), min_size=2, max_size=3),
    st.data(),
    st.integers(2, 6),
)
def test_two_sizes_are_chosen_as_the_program_would(
    base: list[int], data: st.DataObject, largest: int
) -> None:
    """Against every assignment from a pool that holds enough of both."""
    slots = [data.draw(st.integers(0, 2)) for _ in base]
    pool = [size for size in (1, largest) for _ in range(sum(slots))]
    ends = np.array([[[i < c for i in range(2)] for c in slots]])
    reached = reachable_loads(base, slots, pool)
    for measure, by_gap in ((imbalance, False), (gap, True)):
        rng = np.random.default_rng(0)
        sizes = two_sizes(np.array([base]), ends, largest, rng, by_gap=by_gap)
        admitted = np.where(ends, sizes, 0)[0]
        loads = tuple(int(b + row.sum()) for b, row in zip(base, admitted, strict=True))
        assert loads in reached
        assert measure(loads) == min(map(measure, reached))


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


@pytest.mark.parametrize(("workers", "slots", "mean_output"), [(2, 1, 2), (2, 9, 3), (55, 4, 20)])
def test_the_bound_on_ages_lies_below_their_exact_imbalance(
    workers: int, slots: int, mean_output: int
) -> None:
    """Theorem 2: against convolution; (2, 1, 2) by hand, v = 2, 4·2/(12 + 1/2) = 0.64, root 0."""
    exact = expected_imbalance(snapshot_law(law([0]), 1 / mean_output), slots, workers)
    least = theorem2.least_age_imbalance(workers, slots, mean_output)
    assert exact / 10 - 1 <= least <= exact


def test_policies_differ_by_no_more_than_their_prompts() -> None:
    """Theorem 2: two ways to fill the same slots; ages alike, prompts 1 or s_max."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        G, B, s = rng.integers(2, 6), rng.integers(1, 5), rng.integers(2, 5)
        ages = rng.geometric(0.2, (G, B)).sum(axis=1)
        one, other = (
            imbalance((ages + rng.integers(1, s + 1, (G, B)).sum(axis=1)).tolist())
            for _ in range(2)
        )
        assert abs(one - other) <= 2 * (G - 1) * B * (s - 1)


def test_rounds_from_an_overloaded_pool_by_hand() -> None:
    """Two sizes, two workers: two equal prompts always wait; independent ones are equal in 1/2."""
    assert rounds.perfect_chances(2, 1, 2) == (Fraction(1), Fraction(1, 2))
    # Three sizes: 1, 2, 3 in any order (2/9) leave no equal pair among the first three arrivals.
    assert rounds.perfect_chances(2, 1, 3) == (Fraction(7, 9), Fraction(1, 3))


@given(st.integers(2, 3), st.lists(st.integers(0, 7), min_size=2, max_size=3))
def test_smallest_overloaded_pools_lie_within_all_others(workers: int, counts: list[int]) -> None:
    """Definition 1 holds for a pool iff it contains one of the smallest."""
    found = [c for _, _, c in smallest_overloaded(workers, 1, len(counts))]
    within = any(all(a <= b for a, b in zip(c, counts, strict=True)) for c in found)
    assert within == rounds.overloaded(tuple(counts), workers)
    assert all(is_perfect(workers, 2, c) for _, _, c in smallest_overloaded(workers, 2, 2))


def test_fcfs_by_hand() -> None:
    """Two workers, one slot: request 1 ends first, so request 2 joins worker 1."""
    for rule in (algorithms.most_free, algorithms.lowest_index):
        assert algorithms.placements(rule, [2, 1, 1, 1], 2, 1) == [0, 1, 1, 0]
    # Two slots: the emptiest by turns; by index two on each; the fullest as by index.
    for rule, placed in (
        (algorithms.most_free, [0, 1, 0, 1]),
        (algorithms.lowest_index, [0, 0, 1, 1]),
        (algorithms.least_free, [0, 0, 1, 1]),
    ):
        assert algorithms.placements(rule, [1] * 4, 2, 2) == placed


def test_the_shortest_queue_by_hand() -> None:
    """Three workers, two rounds: two short requests fill the others to 1, and the tie is lost."""
    assert algorithms.heavies_by_counts(3, 2) == [2, 0, 0]
    assert algorithms.heavies_by_counts(3, 2, burst=1) == [1, 0, 1]


def test_weights_under_drift_by_hand() -> None:
    """Increments 1, 2, 4, prompt 5, steps 1 to 3: 5 + 1 + 2 by age, 5 + 2 + 4 by step."""
    arguments = ((1, 2, 4), 5, 1, 3)
    assert model.weight_by_age(*arguments) == 8
    assert model.weight_by_step(*arguments) == 11
    assert model.late_weight(*arguments) == 9


def test_the_released_constants_of_a_step() -> None:
    """(0.0006·72 + 0.035)/16 s = 4.8875 ms and 1.5·2·576·61 µs/2^20 = 0.1005 µs per token."""
    assert float(model.RELEASED[0]) == pytest.approx(4.8875e-3)
    assert float(model.RELEASED[1]) == pytest.approx(1.00525e-7, rel=1e-5)


def test_a_mean_that_cannot_be_negative_has_no_negative_interval() -> None:
    """0, 0, 0, 4: mean 1, half width 3.18·2/2; the bound of 8.36 is twice the upper end."""
    measured = bounded_mean("m", [0, 0, 0, 4], "b", 8.364)
    assert (measured.estimate.low, measured.estimate.accepted) == (0, True)
    assert measured.estimate.high == pytest.approx(4.182, abs=1e-3)
    assert "is 2 to inf times what is measured" in room([measured])
    # 1, 1, 1, 3: 1.5 ± 1.59 is cut off at 0 too; 9, 9, 9, 11: 9.5 ± 1.59.
    both = bounded_mean("m", [9, 9, 9, 11], "b", 22.182)
    assert "is 2 to 2.8 times what is measured" in room([both])
    assert not bounded_mean("m", [0, 0, 0, 4], "b", 4).estimate.accepted


def test_the_best_partition_of_rare_ones() -> None:
    """G = 3, B = 2: N < G ones among twos have N as least imbalance, and N at most under FCFS."""
    for ones in range(7):
        prompts = [1] * ones + [2] * (6 - ones)
        loads = [
            [sum(order[2 * g : 2 * g + 2]) for g in range(3)]
            for order in set(permutations(prompts))
        ]
        values = [3 * max(load) - sum(load) for load in loads]
        assert max(values) <= ones
        assert min(values) == ones or ones >= 3
    # n = 4: 1/(1 − 1/4 − 1/1000).
    assert theorem1.largest_ratio(4) == Fraction(1000, 749)
    assert theorem1.verify_rare({"rarity": 3, "doublings": 12, "thousandths": 67}) is None


def test_br_0_by_hand() -> None:
    """A step of three workers with J = 2, by stage 2 alone: 30 and 5 fill the margin, then 18."""
    step = ((1, 2, 0), (40, 25, 60), (18, 9, 30, 22, 5))
    assert br0.decisions(*step, br0.Rules(3, 5)) == {((18,), (5, 30), ())}
    # Two slots, margin 10: stage 1 sends 8 and is left with 5; stage 2 sends 5 and 5.
    for threshold, sizes in ((1, (5, 8)), (2, (5, 5))):
        found = br0.decisions((2, 0), (0, 10), (8, 5, 5), br0.Rules(threshold, 3))
        assert found == {(sizes, ())}
    # With one candidate, the largest, stage 2 goes one by one.
    assert br0.decisions((2, 0), (0, 10), (8, 5, 5), br0.Rules(2, 1)) == {((5, 8), ())}


def test_br_0_follows_all_choices_among_equal_scores() -> None:
    """Two workers, margin 2: sizes 1 and 3 both score 1 (3 − 2·1); either may go."""
    both = br0.decisions((0, 1), (4, 2), (1, 3), br0.Rules(0, 2))
    assert both == {((), (1,)), ((), (3,))}


_STEP = {"workers": [{"base": 0, "slots": 1}] * 3, "pool": [6, 4, 4, 1, 1]}
_HEAVY = [{"base": 12, "slots": 1}] * 2
_PROGRAM = {"workers": [*_HEAVY, {"base": 0, "slots": 1}], "pool": [11, 10, 11, 1, 7]}
_THEOREM2 = dict(workers=60, slots=400, largest=2, mean_output=1000, thousandths=67)
_LEMMA7 = dict(tenths=5, workers=2, doublings=30, largest=2, increment=2)
_ROUND = {"workers": 2, "slots": 1, "values": 2}
_SLOT = {"prompts": [1, 2], "tenths": 1, "increments": [1], "start": 1}
_GROWN = {"prompts": [1, 2], "tenths": 1, "increment": 1, "prompt": 1, "survives": 0}
_STAGE1 = {"slots": 4, "threshold": 1, "active": [[100], [10, 10]], "waiting": [30, 20]}

#: Verifier, a counterexample, changes to it each of which breaks a hypothesis or the failure.
_VERIFIERS: list[tuple[Callable[[Any], str | None], dict[str, Any], list[dict[str, Any]]]] = [
    (theorem2.verify, _THEOREM2,
     [{"workers": 20}, {"slots": 20}, {"mean_output": 10}, {"thousandths": 68}, {"largest": 1}]),
    # (32) fails at B = 2^10; with increments of 1 the step is right.
    (average_gap.verify_step, _LEMMA7, [{"doublings": 10}, {"increment": 1}, {"largest": 1}]),
    (theorem1.verify_maximum, {"values": [1, 3], "workers": 2, "t": 1},
     [{"workers": 1}, {"t": 2}]),
    # E max = 100, and 100 + 1/2 on the right, but for a load that does not vary.
    (theorem1.verify_family, {"variables": [[99, 101], [1, 3]], "t": 1},
     [{"variables": [[100], [1, 3]]}, {"variables": [[1, 3], [1, 3]]}]),
    (slots.verify_variance, _SLOT, [{"prompts": [1]}, {"increments": []}, {"start": 0}]),
    (slots.verify_moment, _SLOT | {"tenths": 5, "start": 220, "constant": 10**4},
     [{"constant": 100}, {"start": 2}]),
    (slots.verify_decomposition, _GROWN, [{"prompts": [1]}, {"increment": 0}]),
    (rounds.verify_selection, _ROUND, [{"workers": 1}, {"values": 1}]),
    # Without one of the ones the pool is not overloaded.
    (verify_objective, _STEP,
     [{"pool": [6, 4, 4, 1]}, {"workers": [{"base": 0, "slots": 1}] * 2}]),
    (verify_program, _PROGRAM, [{"pool": [11, 10, 11, 1]}]),
    (verify_kinks, {"sizes": [1, 1], "margins": [2, 1, 1]},
     [{"margins": [2]}, {"margins": [2, 0, 0]}]),
    # Few slots, two emptiest workers, an idle one, a light one.
    (verify_stage1, _STAGE1,
     [{"threshold": 5}, {"active": [[100], [10]]}, {"active": [[], [10, 10]]},
      {"active": [[10], [100, 10]]}]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("verify", "data", "changes"),
    _VERIFIERS,
    ids=[f"{v.__module__.rpartition('.')[2]}.{v.__name__}" for v, _, _ in _VERIFIERS],
)
def test_verifiers_test_every_hypothesis(
    verify: Callable[[Any], str | None], data: dict[str, Any], changes: list[dict[str, Any]]
) -> None:
    """A counterexample is one; with one hypothesis broken it is none."""
    assert verify(data) is not None
    for change in changes:
        assert verify(data | change) is None, change


PROOFS = Path(proofs_checks.__file__).parent / "proofs"
_ROW = re.compile(r"\| (\d+) \| (\d+) \| (\d+(?:, \d+)*) \|")


def printed_potential() -> dict[State, int]:
    """Read the table of proposition5.md: ten times h(u, k, v)."""
    text = (PROOFS / "proposition5.md").read_text(encoding="utf-8")
    return {
        (u, int(k), int(v)): int(entry)
        for v, k, entries in _ROW.findall(text)
        for u, entry in enumerate(entries.split(","))
    }


def test_the_printed_potential_proves_24_fifths() -> None:
    """All 3,592 inequalities, on the printed table."""
    potential = printed_potential()
    assert sorted(potential) == sorted(states(9))
    assert potential[0, 0, 0] == min(potential.values()) == 0
    half, eighteenth = Fraction(1, 2), Fraction(1, 18)
    assert certified_rate(potential, 10, 9, half, eighteenth) <= Fraction(24, 5)


def test_a_printed_potential_that_evictions_raise_is_refused() -> None:
    """One entry changed so that an eviction pays."""
    potential = printed_potential()
    potential[1, 0, 0] = -1
    with pytest.raises(ArithmeticError, match="eviction"):
        certified_rate(potential, 10, 9, Fraction(1, 2), Fraction(1, 18))
