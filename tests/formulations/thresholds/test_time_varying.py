"""Nested WAIT under rates that vary in time: condition (13) and its least thresholds."""

from dataclasses import replace
from fractions import Fraction
from math import prod

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from formulations import CapabilityError, InputError
from formulations.fluid import FluidWorker, RateProfile, SinusoidalRates
from formulations.results import Termination
from formulations.thresholds import (
    LogArgument,
    NestedProblem,
    TimeVaryingProblem,
    drift_exponent,
    safety_buffer,
    solve,
    time_varying_violations,
)
from tests.formulations.fluid.test_rate_profile import profiles, sinusoids
from tests.formulations.thresholds.cases import loads, nested_problems, worker_for

WORKER = FluidWorker(Fraction(1, 2), Fraction(1, 100), 99)


def alternating(worker: FluidWorker = WORKER) -> TimeVaryingProblem:
    """Return l = 1, l' = (1, 2), rates (1, 2) for 2 s and (2, 1) for 2 s, in turn."""
    profile = RateProfile((0, 2), ((1, 2), (2, 1)), 4)  # type: ignore[arg-type]
    return TimeVaryingProblem(1, (1, 2), profile, worker)


def test_golden() -> None:
    """Together 3 at all times, p* = 2/3; s = (1 + 2, 3).

    ΔT* >= 0.5/(1 − 0.01·3·(3 + 2)) = 0.59: more than 1.76 is 2, more than 4/3 is 2. (2, 2) lasts
    0.5 + 0.12 = 0.62, and 1.86 < 2.
    """
    problem = alternating()
    assert problem.chain.passing == (Fraction(2, 3),)
    assert problem.load == Fraction(15, 100)
    for method in ("fixed-point", "brute-force"):
        result = solve(problem, method=method)
        assert (result.thresholds, result.objective, result.is_optimal) == ((2, 2), 12, True)
    assert time_varying_violations(problem, (2, 1)) == {"drift[2]": 1}
    assert time_varying_violations(problem, (1, 9)) == {"first": 2}
    assert time_varying_violations(problem, (2,)) == {"thresholds": 1}
    with pytest.raises(CapabilityError, match="varying"):
        solve(problem, method="cp-sat")


def test_mean_rates_are_not_enough() -> None:
    """The thresholds of the mean rates violate (13), and the checker sees where.

    One class at 9/s for 1 s, then at 1/s for 9 s: 1.8 on average. With d0 = 1, d1 = 0 a batch
    lasts 1 s: n = 2 for the mean, but 9 arrive in the busiest second, so that it takes 10.
    """
    worker = FluidWorker(Fraction(1), Fraction(0), 99)
    profile = RateProfile((0, 1), ((9,), (1,)), 10)  # type: ignore[arg-type]
    problem = TimeVaryingProblem(1, (1,), profile, worker)
    mean = NestedProblem.single(1, (1,), (profile.mean_rate((0,)),), worker)
    assert solve(mean).thresholds == (2,)
    assert time_varying_violations(problem, (2,)) == {"first": 8}
    assert solve(problem).thresholds == (10,)
    little = replace(problem, within_memory=True, worker=replace(worker, memory=29))
    assert time_varying_violations(little, (10,)) == {"memory": 1}
    assert solve(little).termination is Termination.INFEASIBLE


@given(nested_problems())
def test_constant_rates_are_nested_wait(problem: NestedProblem) -> None:
    """A constant profile gives the same thresholds and the same buffer."""
    strict = replace(problem, strict=True)
    same = TimeVaryingProblem(
        strict.group.prompt,
        strict.group.outputs,
        RateProfile.constant(strict.group.rates),
        strict.worker,
        strict.group.boundaries,
        strict.within_memory,
    )
    assert same.load == strict.load
    assert same.arriving == strict.arriving
    one, other = solve(same), solve(strict)
    assert (one.termination, one.thresholds) == (other.termination, other.thresholds)
    if one.thresholds is not None:
        buffers = [
            safety_buffer(p, one.thresholds, duration=50, probability="0.1")
            for p in (same, strict)
        ]
        assert buffers[0] == buffers[1]


@st.composite
def varying_problems(draw: st.DrawFn) -> TimeVaryingProblem:
    """Draw a profile or a sinusoid, and a worker for one of the usual loads."""
    outputs = tuple(sorted(draw(st.sets(st.integers(0, 9), min_size=1, max_size=3))))
    ends = [output for output in outputs[:-1] if draw(st.booleans())]
    rates = draw(st.one_of(profiles(len(outputs)), sinusoids(len(outputs))))
    problem = TimeVaryingProblem(
        draw(st.integers(1, 5)), outputs, rates, WORKER, (*ends, outputs[-1])
    )
    work = problem.load / WORKER.d1
    if work == 0:
        return problem
    return replace(problem, worker=worker_for(draw(st.just(Fraction(1, 2))), work, draw(loads)))


@given(varying_problems())
def test_iteration_is_enumeration(problem: TimeVaryingProblem) -> None:
    """The least thresholds; none with a load of 1 or more; no entry can be lowered."""
    result = solve(problem)
    assert (result.thresholds is None) == (problem.load >= 1)
    if result.thresholds is None:
        return
    assert time_varying_violations(problem, result.thresholds) == {}
    upper = problem.conditions.upper_vector()
    assert time_varying_violations(problem, upper) == {}
    for i, n in enumerate(result.thresholds):
        lower = [*result.thresholds]
        lower[i] = n - 1
        assert time_varying_violations(problem, lower)
    if prod(upper) <= 300:
        assert solve(problem, method="brute-force").thresholds == result.thresholds


@given(varying_problems(), st.integers(0, 200))
def test_thresholds_hold_in_every_window(problem: TimeVaryingProblem, start: int) -> None:
    """(13) itself, at the time of a full batch and of a shorter one, from some moment on."""
    result = solve(problem)
    assume(result.thresholds is not None)
    assert result.thresholds is not None
    n = result.thresholds
    begin = Fraction(start, 8)
    full = problem.worker.d0 + problem.worker.d1 * (result.objective or 0)
    for length in (full, full / 7):
        arrived = [
            problem.profile.integral(j, begin, begin + length) for j in range(len(problem.outputs))
        ]
        assert sum(arrived) < n[0]
        entries = problem.group.entries
        reach = [
            sum(a for a, o in zip(arrived, problem.outputs, strict=True) if o >= e)
            for e in entries
        ]
        for i in range(1, len(n)):
            assert n[i] * reach[i - 1] >= n[i - 1] * reach[i] * (1 - 1e-9)


def test_the_buffer_uses_the_largest_share() -> None:
    """(17): a larger share means a smaller exponent, and more memory."""
    profile = RateProfile((0, 2), ((4, 1), (1, 1)), 4)  # type: ignore[arg-type]
    problem = TimeVaryingProblem(1, (1, 2), profile, WORKER)
    n = (8, 6)
    buffer = safety_buffer(
        problem, n, duration=100, probability="0.1", argument=LogArgument.TIME_VARYING
    )
    # p* = 1/2 in the second half; on average 2 of 7 go on.
    assert buffer.exponents == (drift_exponent(8, 6, Fraction(1, 2)),)
    mean = NestedProblem.single(1, (1, 2), (Fraction(5, 2), Fraction(1)), WORKER)
    average = safety_buffer(mean, n, duration=100, probability="0.1")
    assert buffer.exponents[0] < average.exponents[0]
    assert (buffer.total or 0) > (average.total or 0)


def test_sinusoidal_rates() -> None:
    """Rates 2 + sin and 2 − sin: p* = 3/4, the sum is 4 at all times.

    With d0 = 1/2, d1 = 1/100: (3, 3) has M = 18, ΔT = 0.68, 2.72 < 3 and 3/3 > 3/4.
    """
    rates = SinusoidalRates((2, 2), ("1/2", "1/2"), 9, (0, "1/2"))  # type: ignore[arg-type]
    problem = TimeVaryingProblem(1, (1, 2), rates, WORKER)
    assert solve(problem).thresholds == (3, 3)
    one_class = replace(problem, boundaries=(2,))
    assert one_class.chain.passing == ()


def test_bad_data() -> None:
    """As many rates as outputs, and lengths that increase."""
    profile = alternating().profile
    with pytest.raises(InputError, match="2 classes for 1 outputs"):
        TimeVaryingProblem(1, (1,), profile, WORKER)
    with pytest.raises(InputError, match=r"outputs\[1\]: 1 does not exceed 1"):
        TimeVaryingProblem(1, (1, 1), profile, WORKER)
    with pytest.raises(InputError, match="prompt"):
        TimeVaryingProblem(0, (1, 2), profile, WORKER)
