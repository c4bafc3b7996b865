"""Arrivals: exact times, streams of their own, rates that vary, requests of a trace."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.wait.arrivals import even_instance, poisson_instance, varying_instance, workload_instance
from bfio.wait.policy import StageClock, StageInstance
from bfio.workloads import Workload
from formulations.errors import InputError
from formulations.fluid import FluidProblem, FluidWorker, RateProfile
from tests.wait.cases import I0

WORKER = I0.workers[0]
THREE = Workload(
    np.array([5, 1, 2]), np.array([1, 2, 3]), (Fraction(0), Fraction(1, 3), Fraction(7))
)


@given(st.fractions(Fraction(1, 9), 9, max_denominator=9), st.integers(1, 30))
def test_even_arrivals_are_exact(rate: Fraction, horizon: int) -> None:
    """The k-th comes at k/λ, rounded up to the clock, for all k/λ <= T."""
    kinds = ({"rate": str(rate), "prompt": 1, "output": 1},)
    problem = FluidProblem.from_mapping(
        {"classes": list(kinds), "d0": "1/2", "d1": "1/18", "memory": 9}
    )
    data = even_instance(problem, horizon)
    units = data.clock.units_per_second
    expected = [
        -(-k * units * rate.denominator // rate.numerator)
        for k in range(1, int(horizon * rate) + 1)
    ]
    assert data.arrival.tolist() == expected
    assert len(data) == int(horizon * rate)


def test_poisson_counts_have_mean_and_variance_of_the_rate() -> None:
    """2000 windows of a second: mean and variance 1 within 4 deviations; lengths as asked."""
    data = poisson_instance(I0, 2000, seed=6)
    for output in (1, 2):
        times = data.arrival[data.output == output] / data.clock.units_per_second
        counts = np.bincount(times.astype(np.int64), minlength=2000)[:2000]
        # The fourth central moment of a Poisson variable with mean 1 is 4.
        assert abs(counts.mean() - 1) < 4 / 2000**0.5
        assert abs(((counts - 1) ** 2).mean() - 1) < 4 * (3 / 2000) ** 0.5


def test_classes_draw_from_streams_of_their_own() -> None:
    """Without its second class the first comes at the same times; equal seeds, equal draws."""
    one = FluidProblem(I0.classes[:1], I0.workers)
    both = poisson_instance(I0, 50, seed=3)
    alone = poisson_instance(one, 50, seed=3)
    assert np.array_equal(both.arrival[both.output == 1], alone.arrival)
    again = poisson_instance(I0, 50, seed=3)
    assert np.array_equal(both.arrival, again.arrival)
    assert not np.array_equal(both.arrival, poisson_instance(I0, 50, seed=4).arrival[: len(both)])


def test_rates_that_vary() -> None:
    """Nothing comes while the rate is 0; else what its integral says, within 4 deviations."""
    profile = RateProfile((0, 10), ((0, 2), (3, 2)), period=20)  # type: ignore[arg-type]
    data = varying_instance(I0, profile, 1000, seed=2)
    seconds = data.arrival / data.clock.units_per_second
    first = seconds[data.output == 1]
    assert first.min() % 20 >= 10
    assert np.all(first % 20 >= 10)
    assert abs(len(first) - 1500) < 4 * 1500**0.5
    assert abs(np.count_nonzero(data.output == 2) - 2000) < 4 * 2000**0.5


def test_a_constant_profile_is_poisson() -> None:
    """Thinned from rates that never change, nothing is left out."""
    profile = RateProfile.constant([kind.rate for kind in I0.classes])
    data = varying_instance(I0, profile, 50, seed=3)
    assert np.array_equal(data.arrival, poisson_instance(I0, 50, seed=3).arrival)


def test_a_trace_at_its_own_times() -> None:
    """1/3 s is rounded up to the clock; twice the rate is half the time."""
    data = workload_instance(THREE, WORKER)
    units = data.clock.units_per_second
    assert data.arrival.tolist() == [0, -(-units // 3), 7 * units]
    assert (data.prompt.tolist(), data.output.tolist()) == ([5, 1, 2], [1, 2, 3])
    fast = workload_instance(THREE, WORKER, rate_scale=2)
    assert fast.arrival.tolist() == [0, -(-units // 6), 7 * units // 2]


def test_a_trace_at_poisson_times() -> None:
    """Its requests in their order, at other times."""
    data = workload_instance(Workload(*(np.ones((2, 5000), dtype=np.int64))), WORKER, rate="2.5")
    seconds = data.arrival / data.clock.units_per_second
    # The sum of 5000 exponentials of mean 0.4 has deviation 0.4·√5000 = 28.3.
    assert abs(seconds[-1] - 2000) < 4 * 28.3


def test_the_clock_counts_both_times_exactly() -> None:
    """1/3 and 1/7 s have the unit 1/21 s or a fraction of it; d0 has a million units or more."""
    clock = StageClock.of(FluidWorker(Fraction(1, 3), Fraction(1, 7), 9))
    assert clock.units_per_second % 21 == 0
    assert (3 * clock.fixed, 7 * clock.per_token) == (clock.units_per_second,) * 2
    assert clock.fixed >= 10**6
    # A nanosecond per token beside 10 ms: 1e-9 s is the unit already.
    fine = StageClock.of(FluidWorker(Fraction(1, 100), Fraction(1, 10**9), 9))
    assert (fine.units_per_second, fine.fixed, fine.per_token) == (10**9, 10**7, 1)


def _raising(make: object) -> str:
    with pytest.raises(InputError) as caught:
        make()  # type: ignore[operator]
    return str(caught.value)


def test_wrong_values_are_named() -> None:
    """Each says which and why."""
    two = FluidProblem(I0.classes, I0.workers * 2)
    profile = RateProfile.constant([Fraction(1)])
    timeless = Workload(THREE.prompt_tokens, THREE.output_tokens)
    late = Workload(THREE.prompt_tokens, THREE.output_tokens, (Fraction(10**15),) * 3)
    rare = "1e-12"
    fine = FluidProblem(I0.classes, (FluidWorker(Fraction(1, 2), Fraction(1, 10**9), 9),))
    ones = np.ones(2, dtype=np.int64)
    errors = {
        "horizon: 0 is not allowed": lambda: poisson_instance(I0, 0),
        "horizon: about 2e+09 requests": lambda: poisson_instance(I0, 10**9),
        "horizon: is too long for the clock": lambda: even_instance(fine, 10**12),
        "seed: expected an integer": lambda: poisson_instance(I0, 1, seed=0.5),  # type: ignore[arg-type]
        "workers: found 2": lambda: poisson_instance(two, 1),
        "profile: 1 rate for 2 classes": lambda: varying_instance(I0, profile, 1),
        "the requests have no arrival times": lambda: workload_instance(timeless, WORKER),
        "rate: 0 is not allowed": lambda: workload_instance(THREE, WORKER, rate=0),
        "rate_scale: 0 is out of range": lambda: workload_instance(THREE, WORKER, rate_scale=0),
        "the last arrival is too late": lambda: workload_instance(late, WORKER),
        "arrivals: the last arrival is": lambda: workload_instance(THREE, WORKER, rate=rare),
        "arrival[1]: is earlier than the previous arrival": lambda: StageInstance(
            9, StageClock(1, 1, 0), np.array([1, 0]), ones, ones
        ),
        "requests: the arrays have different lengths": lambda: StageInstance(
            9, StageClock(1, 1, 0), np.zeros(1, dtype=np.int64), ones, ones
        ),
        "prompt[0]: 0 is out of range": lambda: StageInstance(
            9, StageClock(1, 1, 0), 0 * ones, 0 * ones, ones
        ),
        "a batch of all requests lasts too long": lambda: StageInstance(
            9, StageClock(1, 1, 2**60), 0 * ones, ones, ones
        ),
        "no common unit": lambda: StageClock.of(
            FluidWorker(Fraction(1, 2**60 - 1), Fraction(1, 2**61 - 1), 9)
        ),
        "fixed: 0 is out of range": lambda: StageClock(1, 0, 1),
    }
    for message, make in errors.items():
        assert message in _raising(make)
