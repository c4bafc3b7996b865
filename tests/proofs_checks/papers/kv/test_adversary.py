"""Sums and bounds of the adversarial instances, against runs, enumeration and hand."""

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.kvcache.lower_bounds import limit_6_4, printed_bound_6_4
from formulations.hindsight_latency import (
    Convention,
    total_latency,
    violations,
)
from proofs_checks.papers.kv.adversary import Attack, program_costs, theorem_6_2
from proofs_checks.papers.kv.arrivals import ratio
from proofs_checks.papers.kv.model import (
    algorithm,
    jobs,
    peak,
    problem_of,
)
from proofs_checks.papers.kv.randomized import (
    expected_ratio,
    last_display,
    least_ratio,
    limit,
    mean_ratio,
    without_one,
)


def test_the_last_display_by_hand() -> None:
    """ε = 1/4: 1/4·(4/3 + 2) = 5/6 = H_3 − 1; with c = 2 it is 1/2 + 5/12 = 11/12."""
    assert last_display(4, 2) == printed_bound_6_4(Fraction(1, 4), 2) == Fraction(11, 12)
    assert without_one(Fraction(1, 4), 2) == Fraction(17, 12)


def test_the_mended_distribution_by_hand() -> None:
    """ε = 1/4, c = 1: k = 1/4, ..., 6/4.

    A start at 0 leaves M/2 and M/4 at the first two: 2 and 1 at a time in place of 3, so 3/2 and
    3, and 1 at four more: ½ + ½·(17/2)/6. A start at 2 costs 2 + 3/4 over 3/4 where nothing comes.
    The bound is 1 + ½·(5/6 − 1)/2. With ε = 1/100, c = 1.35 it is about 1.68.
    """
    assert mean_ratio(4, 1, Fraction(0)) == Fraction(29, 24)
    assert mean_ratio(4, 1, Fraction(2)) == (Fraction(11, 3) + 1) / 2
    assert least_ratio(4, 1) == Fraction(23, 24)
    assert limit(100) == pytest.approx(1.676, abs=1e-3)


@given(
    st.integers(3, 7), st.integers(1, 2), st.integers(0, 2), st.integers(0, 6), st.integers(0, 6)
)
def test_sums_of_the_attack_are_optima(
    memory: int, prompt: int, num: int, release: int, start: int
) -> None:
    """With the long request fixed, no schedule of the short ones costs less."""
    attack = Attack(memory, prompt, num, release)
    data = jobs(attack.problem())
    starts = (range(release, release + 16) for _ in range(num))
    schedules = ((start, *short) for short in product(*starts))
    costs = (
        total_latency(attack.problem(), list(p)) for p in schedules if peak(data, p) <= memory
    )
    if num == 0:
        assert attack.with_long_at(start) == start + memory - prompt
    elif start <= release:
        assert attack.with_long_at(start) == min(costs)


@pytest.mark.parametrize(("steps", "multiple"), [(3, 1), (4, 1), (5, 2)])
def test_costs_of_keeping_and_waiting_are_simulated(steps: int, multiple: int) -> None:
    """Under appendix B.1: Algorithm 2 keeps; the schedule that waits is rebuilt here."""
    prompt = steps * multiple
    memory = steps * prompt
    release = memory - 2 * prompt
    problem = problem_of(
        memory,
        [prompt] * (prompt + 1),
        [memory - prompt, *[1] * prompt],
        Convention.PRINTED,
        [0, *[release] * prompt],
    )
    keep, _, wait = program_costs(steps, prompt)
    assert total_latency(problem, algorithm(jobs(problem))) == keep
    waiting = [release + multiple, *(release + k // steps for k in range(prompt))]
    assert not violations(problem, waiting, wait)


@pytest.mark.parametrize(("steps", "constant"), [(4, 1), (10, 2), (25, 3)])
def test_expected_ratios_tend_to_the_limit(steps: int, constant: int) -> None:
    """From below, as M grows."""
    limit = limit_6_4(Fraction(1, steps), constant, Convention.HALF_OPEN)
    found = [expected_ratio(steps, constant, prompt) for prompt in (1, 100, 10**4)]
    assert found == sorted(found)
    assert found[-1] < limit < found[-1] + Fraction(1, 4)


@given(st.integers(3, 8), st.integers(1, 6), st.integers(1, 30))
def test_the_ratio_of_the_attack_is_that_of_its_runs(steps: int, prompt: int, num: int) -> None:
    """Nothing fits beside the long request, so the closed form is exact."""
    case = theorem_6_2(steps, prompt, 0, num)
    assert ratio(steps, prompt, num) == Fraction(case.with_long_at(0), case.best())
