"""Lower-bound instances: golden totals."""

from fractions import Fraction

import pytest

from bfio.kvcache.lower_bounds import (
    costs_6_2,
    delayed_starts,
    limit_6_2,
    limit_6_4,
    printed_bound_6_4,
    square_root_bound,
    theorem_6_2,
    theorem_6_4,
)
from bfio.kvcache.simulation import serve
from formulations.errors import InputError
from formulations.hindsight_latency import (
    Convention,
    total_latency,
    violations,
)

#: Convention, M, ε, total latency of Algorithm 2, and of the schedule that waits.
GOLDEN = [
    ("A", 100, "0.1", 212, 184),
    ("A", 400, "0.1", 2180, 868),
    ("A", 1000, "0.1", 12112, 2834),
    ("A", 1000, "0.05", 3636, 1990),
    ("B", 100, "0.1", 190, 181),
    ("B", 400, "0.1", 2017, 784),
    ("B", 1000, "0.1", 11341, 2260),
    ("B", 1000, "0.05", 3488, 1942),
    ("C", 100, "0.1", 201, 182),
    ("C", 400, "0.1", 2070, 794),
    ("C", 1000, "0.1", 11506, 2317),
    ("C", 1000, "0.05", 3543, 1945),
]


@pytest.mark.parametrize(("convention", "memory", "epsilon", "greedy", "waiting"), GOLDEN)
def test_theorem_6_2(
    convention: str, memory: int, epsilon: str, greedy: int, waiting: int
) -> None:
    """First row by hand: s = 10, o = 90, ten short ones at 80; a round holds nine (9·11 = 99).

    Waiting: nine start at 80 and hold two rounds, the tenth at 82, the long one with it: 9·1 + 3
    + 172 = 184.
    """
    data = theorem_6_2(memory, Fraction(epsilon), Convention(convention))
    assert serve(data, "mc-sf").total_latency == greedy
    delayed = delayed_starts(data)
    assert violations(data, delayed, waiting) == {}


@pytest.mark.parametrize(
    ("memory", "ratio"), [(64, 1.205), (256, 1.945), (1024, 3.413), (4096, 6.347)]
)
def test_square_root_bound(memory: int, ratio: float) -> None:
    """The ratio doubles when M, and with it n, grows fourfold."""
    data = square_root_bound(memory, Convention.HALF_OPEN)
    greedy = serve(data, "mc-sf").total_latency
    assert greedy is not None
    delayed = delayed_starts(data)
    assert violations(data, delayed) == {}
    assert greedy / total_latency(data, delayed) == pytest.approx(ratio, abs=5e-4)


def test_number_of_short_requests_is_critical() -> None:
    """Remark 6.3: the ratio is small for very few and for very many short requests."""
    ratios = []
    for num_short in (1, 100, 10_000):
        data = theorem_6_2(1000, Fraction(1, 10), Convention.HALF_OPEN, num_short)
        greedy = serve(data, "mc-sf").total_latency
        assert greedy is not None
        ratios.append(greedy / total_latency(data, delayed_starts(data)))
    assert ratios[1] > 4 * ratios[0]
    assert ratios[1] > 4 * ratios[2]


def test_bad_parameters_are_refused() -> None:
    """ε·M has to be whole and ε below 1/2."""
    for epsilon in (Fraction(1, 3), Fraction(1, 2), Fraction(0)):
        with pytest.raises(InputError, match="epsilon"):
            theorem_6_2(100, epsilon, Convention.CLOSED)


def test_printed_costs_of_theorem_6_2() -> None:
    """ε = 1/10, M = 1000: 0.0105·10⁶ + 950; 5000 + 1950; 500 + 1850."""
    assert [int(cost) for cost in costs_6_2(1000, Fraction(1, 10))] == [11450, 6950, 2350]


def test_instances_of_theorem_6_4() -> None:
    """ε = 1/10, M = 100, c = 2: releases at 80, 90, ..., 280, ten short ones of 10 tokens each."""
    drawn = theorem_6_4(100, Fraction(1, 10), 2, Convention.HALF_OPEN)
    assert [data.arrival[-1] for data in drawn] == list(range(80, 290, 10))
    first = drawn[0]
    assert first.prompt.tolist() == [10] * 11
    assert (first.arrival[0], first.output.tolist()) == (0, [90] + [1] * 10)
    # The first of them is the instance of Theorem 6.2.
    assert first.to_mapping() == theorem_6_2(100, Fraction(1, 10), first.convention).to_mapping()


@pytest.mark.parametrize(
    ("epsilon", "two", "five"),
    [("0.1", 1.414, 1.166), ("0.01", 2.589, 1.635), ("0.001", 3.742, 2.097)],
)
def test_printed_bound_of_theorem_6_4(epsilon: str, two: float, five: float) -> None:
    """(1 - 1/c) + (H - 1)/c with the harmonic number of 1/ε - 1; H - 1 is 1.829, 4.177, 6.484."""
    for constant, expected in ((2, two), (5, five)):
        bound = printed_bound_6_4(Fraction(epsilon), constant)
        assert float(bound) == pytest.approx(expected, abs=5e-4)


@pytest.mark.parametrize(("convention", "limit"), [("A", 4), ("B", 9), ("C", 7)])
def test_mc_sf_goes_to_its_limit_on_theorem_6_2(convention: str, limit: int) -> None:
    """ε = 1/4: C 1 + 2·3, B 1 + 2·4, A 1 + 2·3/2; from below."""
    assert limit_6_2(Fraction(1, 4), Convention(convention)) == limit
    ratios = []
    for memory in (100, 1000, 8000):
        data = theorem_6_2(memory, Fraction(1, 4), Convention(convention))
        at_once = total_latency(data, delayed_starts(data, 0))
        ratios.append(at_once / total_latency(data, delayed_starts(data)))
    assert ratios == sorted(ratios)
    assert 0.97 * limit < ratios[-1] < limit


@pytest.mark.parametrize("convention", list(Convention))
def test_mc_sf_goes_to_its_limit_on_theorem_6_4(convention: Convention) -> None:
    """ε = 1/4, c = 1, five instances: C 1 + 2·3/5, B 1 + 2·4/5, A 1 + 3/5; from below."""
    limit = limit_6_4(Fraction(1, 4), 1, convention)
    assert limit == {"A": Fraction(8, 5), "B": Fraction(13, 5), "C": Fraction(11, 5)}[convention]
    ratios = []
    for memory in (100, 1000, 4000):
        drawn = theorem_6_4(memory, Fraction(1, 4), 1, convention)
        attained = reference = 0
        for data in drawn:
            at_once = total_latency(data, delayed_starts(data, 0))
            attained += at_once
            reference += min(at_once, total_latency(data, delayed_starts(data)))
        ratios.append(attained / reference)
    assert ratios == sorted(ratios)
    assert 0.97 * limit < ratios[-1] < limit


def test_the_argument_for_theorem_6_4_fails_for_small_epsilon() -> None:
    """It is to hold for every algorithm, and MC-SF's own limit lies below from ε = 1/50 on."""
    for steps, fails in ((10, False), (50, True), (1000, True)):
        epsilon = Fraction(1, steps)
        limit = limit_6_4(epsilon, 2, Convention.HALF_OPEN)
        assert (limit < printed_bound_6_4(epsilon, 2)) is fails


@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 2), Fraction(3, 10)])
def test_bad_steps_are_refused(epsilon: Fraction) -> None:
    """1/ε has to be whole and above 2, and to divide M."""
    with pytest.raises(InputError, match="epsilon"):
        theorem_6_4(100, epsilon, 2, Convention.CLOSED)
    with pytest.raises(InputError, match="dividing M"):
        theorem_6_4(101, Fraction(1, 10), 2, Convention.CLOSED)
