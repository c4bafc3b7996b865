"""Throughput under limits on latency and TTFT: hand values, enumeration, program, slopes."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bfio.testing.instances import fluid_problem
from formulations import InputError
from formulations.backends import ModelProgram, SolveLimits, backend, run_backend
from formulations.fluid import (
    FluidObjective,
    FluidProblem,
    FluidWorker,
    LimitedResult,
    RequestClass,
    ServiceLimits,
    build_limited_throughput,
    knapsack,
    limited_bound,
    limited_violations,
    solve_limited_throughput,
    throughput_of,
)
from tests.formulations.fluid.cases import gains, golden, plain

small = st.builds(Fraction, st.integers(1, 12), st.integers(1, 6))
kinds = st.builds(RequestClass, small, st.integers(1, 6), st.integers(0, 5))
slopes = st.one_of(st.just(Fraction(0)), st.builds(Fraction, st.just(1), st.integers(4, 60)))
machines = st.builds(FluidWorker, small, slopes, st.integers(1, 30))
problems = st.builds(
    lambda rows, machine: FluidProblem(tuple(rows), (machine,)),
    st.lists(kinds, min_size=1, max_size=3),
    machines,
)
wishes = st.one_of(st.none(), st.builds(Fraction, st.integers(1, 60), st.integers(1, 3)))
objectives = st.sampled_from(FluidObjective)


def corners(problem: FluidProblem, limits: ServiceLimits) -> Iterator[list[Fraction]]:
    """Yield rates that include an optimum: all at 0 or λ, but one, which a constraint decides.

    At most one rate is in between, and then the memory or one limit of one class binds: the
    iteration time is that of full memory, or a limit over the iterations of a class.
    """
    worker = problem.workers[0]
    times = {worker.d0 + worker.d1 * worker.memory}
    for kind in problem.classes:
        first = min(1, kind.output)
        times |= {
            limit / (number + Fraction(3, 2))
            for number, limit in ((kind.output, limits.latency), (first, limits.ttft))
            if limit is not None
        }
    works = [worker.memory / (worker.d0 + worker.d1 * worker.memory)]
    if worker.d1:
        works += [(1 - worker.d0 / time) / worker.d1 for time in times]
    for choice in product((0, 1, None), repeat=len(problem.classes)):
        if choice.count(None) > 1:
            continue
        pairs = list(zip(problem.classes, choice, strict=True))
        rates = [kind.rate * (share or 0) for kind, share in pairs]
        if None not in choice:
            yield rates
            continue
        j = choice.index(None)
        kind = problem.classes[j]
        taken = sum(k.work * x for k, x in zip(problem.classes, rates, strict=True))
        for work in works:
            x = (work - taken) / kind.work
            if 0 <= x <= kind.rate:
                yield [*rates[:j], x, *rates[j + 1 :]]


@given(problems, wishes, wishes, objectives)
def test_it_equals_enumeration(
    problem: FluidProblem,
    latency: Fraction | None,
    ttft: Fraction | None,
    objective: FluidObjective,
) -> None:
    """Exactly; and prices prove it, where cheaper ones prove nothing below the optimum."""
    limits = ServiceLimits(latency, ttft)
    result = solve_limited_throughput(problem, latency=latency, ttft=ttft, objective=objective)
    best = max(
        throughput_of(problem, [(x,) for x in rates], objective)
        for rates in corners(problem, limits)
        if not limited_violations(problem, rates, limits)
    )
    assert result.is_optimal
    assert result.value == best
    for times, x in zip(result.latencies, result.admitted, strict=True):
        assert (times is None) == (x == 0)
        assert times is None or latency is None or times[0] <= latency
        assert times is None or ttft is None or times[1] <= ttft
    for factor in (Fraction(0), Fraction(1, 2), Fraction(2)):
        other = {s: factor * price for s, price in result.work_prices.items()}
        bound = limited_bound(problem, limits, other, objective)
        assert bound is not None
        assert bound >= best


@given(problems, wishes, wishes)
def test_the_stated_program_agrees(
    problem: FluidProblem, latency: Fraction | None, ttft: Fraction | None
) -> None:
    """HiGHS on the Pyomo statement, with its binary choice of classes, finds the same value."""
    limits = ServiceLimits(latency, ttft)
    program = ModelProgram(lambda: build_limited_throughput(problem, limits))
    outcome, _ = run_backend(backend("highs"), program, SolveLimits())
    exact = solve_limited_throughput(problem, latency=latency, ttft=ttft).value
    assert outcome.bound is not None
    assert -float(outcome.bound) == pytest.approx(float(exact or 0), rel=1e-5, abs=1e-5)


@given(problems, wishes, wishes)
def test_prices_are_the_slopes(
    problem: FluidProblem, latency: Fraction | None, ttft: Fraction | None
) -> None:
    """A little more of one limit adds its price times that, at the same choice of classes."""
    result = solve_limited_throughput(problem, latency=latency, ttft=ttft)
    worker, little = problem.workers[0], Fraction(1, 10**9)
    cases = (
        (latency, result.latency_price, (little, 0)),
        (ttft, result.ttft_price, (0, little)),
    )
    for limit, price, (later, more_ttft) in cases:
        if limit is None:
            assert price == 0
            continue
        more = solve_limited_throughput(
            problem,
            latency=None if latency is None else latency + later,
            ttft=None if ttft is None else ttft + more_ttft,
        )
        gain = ((more.value or 0) - (result.value or 0)) / little
        chosen = [
            [r.limits.iteration_rate(kind) <= r.iteration_rate for kind in problem.classes]
            for r in (result, more)
        ]
        jumps = worker.d1 == 0 or chosen[0] != chosen[1]
        assert jumps or gain == pytest.approx(float(price), rel=1e-4, abs=1e-4)


@given(problems, wishes, wishes, objectives)
@example(golden(), None, None, FluidObjective.STAGES)
def test_rate_prices_are_the_gains(
    problem: FluidProblem,
    latency: Fraction | None,
    ttft: Fraction | None,
    objective: FluidObjective,
) -> None:
    """Also where capacity is full, and where two choices of classes are best."""

    def solved(other: FluidProblem) -> LimitedResult:
        return solve_limited_throughput(other, latency=latency, ttft=ttft, objective=objective)

    assert solved(problem).rate_prices == gains(problem, lambda other: solved(other).value)


def test_the_memory_price_at_a_tie() -> None:
    """Of two best choices of classes, one is limited by memory: it gains by more of it."""
    problem = fluid_problem(9, [(2, 1, 1), (2, 1, 2), (2, 1, 3)], "1/2", "1/18")
    result = solve_limited_throughput(
        problem, latency=Fraction(9, 2), objective=FluidObjective.DECODE
    )
    assert len(result.best) == 2
    assert result.memory_price == Fraction(1, 6)


def test_by_hand() -> None:
    """I0: d0 = 1/2, d1 = 1/18, w = (3, 6), λ = (1, 1), C = 9, ΔT* = 1 at A = 9.

    Then class 0 takes (1 + 3/2) s and class 1 takes 7/2 s. A limit of 14/5 s forces
    ΔT <= 4/5 for class 1, hence A <= 18 (1 − 5/8) = 27/4: class 0 in full, 15/4 of 6 of class 1,
    2 + 3·(5/8) = 31/8. Without class 1 it would be 2. One more second: p = 1/2, K' = 18·(d0·s)/L
    with s = 5/4, that is 225/56, so 225/112.
    """
    result = solve_limited_throughput(golden(), latency=Fraction(14, 5))
    assert plain(result.value, *result.admitted) == (Fraction(31, 8), 1, Fraction(5, 8))
    assert (result.iteration_time, result.latency_price) == (Fraction(4, 5), Fraction(225, 112))
    assert result.latencies[1] == (Fraction(14, 5), Fraction(2))
    assert result.memory_price == 0
    # ΔT <= 4/5 by the limit on TTFT: (1 + 3/2)·4/5 = 2, for both classes.
    same = solve_limited_throughput(golden(), ttft=Fraction(2))
    assert plain(same.value, same.latency_price) == (Fraction(31, 8), 0)
    # Class 1 cannot finish within 7/2·d0 = 7/4 s; class 0 alone needs ΔT = (1/2)/(1 − 1/6) = 3/5.
    short = solve_limited_throughput(golden(), latency=Fraction(3, 2))
    assert plain(short.value, *short.admitted) == (2, 1, 0)
    assert solve_limited_throughput(golden(), latency=Fraction(1)).value == 0
    assert solve_limited_throughput(golden()).value == knapsack(golden()).value


def test_the_checker_sees_each_limit() -> None:
    """A planted excess of a tenth of a second is reported for its class and limit."""
    rates, limits = (Fraction(1), Fraction(1)), ServiceLimits(Fraction(17, 5), Fraction(5, 2))
    assert limited_violations(golden(), rates, limits) == {"latency[1]": Fraction(1, 10)}
    late = ServiceLimits(ttft=Fraction(12, 5))
    found = limited_violations(golden(), rates, late, value=Fraction(5))
    assert found == {"ttft[0]": Fraction(1, 10), "ttft[1]": Fraction(1, 10)}
    assert limited_bound(golden(), limits, {}) is None


def test_it_refuses() -> None:
    """Limits of 0, and several workers."""
    with pytest.raises(InputError, match="latency"):
        ServiceLimits(latency=Fraction(0))
    two = replace(golden(), workers=golden().workers * 2)
    with pytest.raises(InputError, match="give one worker"):
        solve_limited_throughput(two, latency=Fraction(1))
