"""Worst cases of one KV cache: anchors, agreement with plain enumeration, the proven limits."""

from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bfio.kvcache.simulation import serve
from bfio.worst_cases.cache import CacheSpace, CacheTarget, least_within, steady
from bfio.worst_cases.search import exhaustive, local
from formulations.hindsight_latency import Convention, LatencyProblem, brute_force, total_latency
from tests.pairs import pairs
from tests.worst_cases.instances import ALGORITHM_1, at_once, cache

ALGORITHM = CacheTarget("semi-online")
MC_SF = CacheTarget("mc-sf")


@st.composite
def problems(draw: st.DrawFn, most: int = 4, latest: int = 3) -> LatencyProblem:
    """Return a few requests of one prompt, of any convention."""
    convention = draw(st.sampled_from([*Convention]))
    prompt, memory = draw(st.integers(1, 2)), draw(st.integers(3, 7))
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, latest), st.integers(1, memory - prompt)),
            min_size=1,
            max_size=most,
        )
    )
    arrival, output = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    return LatencyProblem(memory, arrival, np.full_like(output, prompt), output, convention)


@pytest.mark.parametrize(
    ("requests", "memory", "ratio"),
    [(3, 8, Fraction(1)), (4, 6, Fraction(9, 8)), (5, 6, Fraction(8, 7))],
)
def test_anchors_of_algorithm_1(requests: int, memory: int, ratio: Fraction) -> None:
    """Convention A, s = 1; three requests are served optimally (kv.theorem4.2)."""
    found = exhaustive(ALGORITHM, CacheSpace(requests, memory, convention=Convention.CLOSED))
    assert found.case.ratio == ratio
    assert found.is_maximal
    assert found.case.violations() == {}


@pytest.mark.parametrize(
    ("sizes", "convention"), pairs(("4 5 0", "2 5 3", "3 4 2"), ("A", "B", "C"), each=1)
)
def test_agreement_with_plain_enumeration(sizes: str, convention: str) -> None:
    """Every list of so many requests with so much memory, the last of them so late."""
    requests, memory, late = map(int, sizes.split())
    target = MC_SF if late else ALGORITHM
    space = CacheSpace(requests, memory, last_arrival=late, convention=Convention(convention))
    largest = Fraction(0)
    for m in space.memories:
        kinds = list(product(range(late + 1), space.outputs(m)))
        for rows in product(kinds, repeat=requests):
            if rows != tuple(sorted(rows)) and requests > 2:
                continue
            problem = cache(m, convention, list(rows))
            cost = serve(problem, target.name, engine="reference").total_latency
            assert cost is not None
            largest = max(largest, Fraction(cost, brute_force(problem)[0]))
    assert exhaustive(target, space).case.ratio == largest


@pytest.mark.parametrize("problem", [problem for problem, _ in ALGORITHM_1])
def test_the_order_of_requests_does_not_matter(problem: LatencyProblem) -> None:
    """What the space leaves out is alike: no order of the requests costs another total."""
    outputs = problem.output.tolist()
    totals = {
        total_latency(listed, MC_SF.schedule(listed))
        for order in {*permutations(outputs)}
        for listed in [at_once(problem.memory, problem.convention, *order)]
    }
    assert len(totals) == 1


@given(problems())
@settings(max_examples=60)
def test_order_and_origin_of_time_do_not_matter(problem: LatencyProblem) -> None:
    """With arrivals neither, and neither does a later origin."""
    rows = list(zip(problem.arrival.tolist(), problem.output.tolist(), strict=True))
    cost = total_latency(problem, MC_SF.schedule(problem))
    for listed in (rows[::-1], [(a + 2, o) for a, o in rows]):
        arrival, output = (np.array(c, dtype=np.int64) for c in zip(*listed, strict=True))
        other = LatencyProblem(problem.memory, arrival, problem.prompt, output, problem.convention)
        assert total_latency(other, MC_SF.schedule(other)) == cost


@given(problems(), st.integers(-1, 2))
@settings(max_examples=80)
def test_least_within_is_the_optimum_or_none(problem: LatencyProblem, slack: int) -> None:
    """Against enumeration: at the limit there is a schedule, below the optimum there is none."""
    least, _ = brute_force(problem)
    found = least_within(problem, least + slack)
    assert (found is None) == (slack < 0)
    assert found is None or total_latency(problem, found) == least


def areas(problem: LatencyProblem) -> list[int]:
    """Return tokens times rounds of each request, ascending."""
    convention = problem.convention
    rows = zip(problem.prompt.tolist(), problem.output.tolist(), strict=True)
    return sorted(
        sum(s + age for age in range(convention.first_age, convention.last_age(o) + 1))
        for s, o in rows
    )


@given(problems(most=12, latest=0))
@settings(max_examples=100)
def test_the_starts_of_algorithm_1(problem: LatencyProblem) -> None:
    """Proposition 4 of docs/worst-cases.md: p_i M <= 2 V_(i - 1)."""
    starts, before = sorted(ALGORITHM.schedule(problem)), 0
    for start, area in zip(starts, areas(problem), strict=True):
        assert start * problem.memory <= 2 * before
        before += area


@given(problems(latest=0))
@settings(max_examples=80)
def test_the_proven_limit_of_algorithm_1(problem: LatencyProblem) -> None:
    """The optimum is at least (V - A/2)/M + O/3, and the ratio below 7/3; under A with n added."""
    more = problem.num_requests * (problem.convention is Convention.CLOSED)
    least = brute_force(problem)[0] + more
    sums = np.cumsum(areas(problem))
    outputs = int(problem.output.sum()) + more
    assert least >= outputs
    assert 6 * problem.memory * least >= (
        6 * int(sums.sum()) - 3 * int(sums[-1]) + 2 * problem.memory * outputs
    )
    assert total_latency(problem, ALGORITHM.schedule(problem)) + more < Fraction(7, 3) * least


def test_a_starting_bound_without_the_factor_fails() -> None:
    """The factor is not for nothing: the areas over M alone are exceeded."""
    problem = at_once(11, "C", *[10] * 4)
    starts, before = sorted(ALGORITHM.schedule(problem)), [0, *np.cumsum(areas(problem)).tolist()]
    assert any(s * problem.memory > b for s, b in zip(starts, before, strict=False))


def test_equal_requests_in_a_long_queue() -> None:
    """O = 8, A: the steady schedule is feasible, and the ratio rises towards 2·9/10."""
    found = [
        steady(ALGORITHM, CacheSpace(n, 45, longest=8, convention=Convention.CLOSED)).case
        for n in (50, 200)
    ]
    assert [case.violations() for case in found] == [{}, {}]
    first, second = (float(case.ratio or 0) for case in found)
    assert first < second < 18 / 10


def test_local_search_is_reproducible_and_checked() -> None:
    """Equal seeds give equal results; the ratio is certified, and not said to be the largest."""
    space = CacheSpace(6, 8, last_arrival=2, convention=Convention.CLOSED)
    first, again = (local(MC_SF, space, steps=40, seed=3) for _ in range(2))
    assert first.to_mapping() == again.to_mapping()
    assert not first.is_maximal
    assert first.case.violations() == {}
    assert first.case.ratio is not None
    assert first.case.ratio >= 1


@pytest.mark.parametrize(("problem", "ratio"), ALGORITHM_1)
def test_minimal_worst_instances(problem: LatencyProblem, ratio: Fraction) -> None:
    """Kept: the ratio of Algorithm 1 on each is what it was."""
    cost = total_latency(problem, ALGORITHM.schedule(problem))
    best = least_within(problem, cost)
    assert best is not None
    assert Fraction(cost, total_latency(problem, best)) == ratio


@pytest.mark.parametrize("memory", [8, 16, 40, 100])
def test_two_requests_against_mc_sf(memory: int) -> None:
    """Under C (5M/2 - 4) / (3M/2 - 1), which tends to 5/3 (docs/worst-cases.md)."""
    problem = cache(memory, "C", [(0, memory - 1), (1, memory // 2 - 1)])
    cost = total_latency(problem, MC_SF.schedule(problem))
    best = least_within(problem, cost)
    assert best is not None
    assert (2 * cost, 2 * total_latency(problem, best)) == (5 * memory - 8, 3 * memory - 2)
