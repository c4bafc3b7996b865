"""Safety buffers, segment choice and batch limits."""

from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from math import exp, inf, log

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bfio.testing.instances import fluid_problem
from formulations import CapabilityError, InputError
from formulations.fluid import FluidWorker
from formulations.results import Termination
from formulations.thresholds import (
    BatchRule,
    LogArgument,
    NestedProblem,
    batch_limit_thresholds,
    best_plan,
    cheapest_thresholds,
    corrected_batch_limit_thresholds,
    drift_exponent,
    equal_boundaries,
    equal_plans,
    largest_batch_count,
    nested_batch_limit_thresholds,
    nested_violations,
    plan,
    safety_buffer,
    solve_segments,
    whole_thresholds,
)
from formulations.thresholds.buffer import printed_segment_memory
from proofs_checks.papers.fluid.equilibrium import printed_exponent_bound
from tests.formulations.fluid.cases import plain
from tests.formulations.thresholds.cases import nested_problems, spec_example


@pytest.mark.parametrize(
    ("before", "threshold", "share", "theta"),
    [
        (4, 3, "1/2", 2.437511),
        (100, 51, "1/2", 0.0800213),
        (10, 9, "1/2", 6.921614),
        (100, 60, "1/2", 0.822163),
        (20, 13, "3/5", 0.431806),
    ],
)
def test_golden_exponents(before: int, threshold: int, share: str, theta: float) -> None:
    """Spec section 5, lemma 8."""
    found = drift_exponent(before, threshold, Fraction(share))
    assert found == pytest.approx(theta, rel=2e-6)


def test_an_exponent_by_hand() -> None:
    """With thresholds 2 and 1 and P = 1/4, x = exp(θ) solves (3/4 + x/4)² = x.

    That is x² − 10x + 9 = 0: x = 1 or 9, so θ = ln 9.
    """
    assert drift_exponent(2, 1, Fraction(1, 4)) == pytest.approx(log(9), rel=1e-12)
    # Small drifts D have θ ≈ 2 D/(n_{k−1} P (1 − P)): here D = 1/2, and 1/(10²⁴/4).
    assert drift_exponent(10**24 + 1, 5 * 10**23 + 1, Fraction(1, 2)) == pytest.approx(4e-24)


@given(
    st.integers(2, 3000).flatmap(
        lambda n: st.tuples(st.just(n), st.integers(1, n), st.fractions(0, 1, max_denominator=99))
    )
)
def test_exponents(case: tuple[int, int, Fraction]) -> None:
    """(16) holds with (18); more drift gives more; the limits are 0 and infinity."""
    before, threshold, share = case
    assume(share > 0)
    theta = drift_exponent(before, threshold, share)
    drift = threshold - before * share
    if threshold >= before:
        assert theta == inf
    elif drift <= 0:
        assert theta == 0
    else:
        assert theta >= float(8 * drift / before) * (1 - 1e-9)
        assert drift_exponent(before, threshold + 1, share) > theta
        if theta < 30:
            p = float(share)
            logarithm = before * log(1 - p + p * exp(theta))
            assert logarithm == pytest.approx(theta * threshold, rel=1e-6)


@given(
    st.one_of(st.integers(2, 10**9), st.integers(2, 10**40)).flatmap(
        lambda n: st.tuples(st.just(n), st.integers(1, n - 1), st.integers(1, 10**6))
    )
)
def test_exponents_are_not_above_the_root(case: tuple[int, int, int]) -> None:
    """With 200 digits g(θ) < 0, and not if θ is a millionth larger, however small the drift is."""
    before, passed, denominator = case
    share = Fraction(max(1, passed * denominator // before), denominator)
    threshold = int(before * share) + 1
    assume(threshold < before)
    theta = drift_exponent(before, threshold, share)
    with localcontext() as context:
        context.prec = 200
        p = Decimal(share.numerator) / share.denominator
        for factor, below in ((1, True), (1 + Decimal("1e-6"), False)):
            t = Decimal(theta) * factor
            g = before * (1 - p + p * t.exp()).ln() - threshold * t
            assert (g < 0) is below


def test_the_printed_bound_is_refuted() -> None:
    """Theorem 2's 8·1/51 = 0.157 exceeds the θ = 0.080 of (100, 51, 1/2)."""
    theta = drift_exponent(100, 51, Fraction(1, 2))
    assert printed_exponent_bound(100, 51, Fraction(1, 2)) == Fraction(8, 51)
    assert theta < Fraction(8, 51)


def test_golden_buffer() -> None:
    """Spec 4.6: S <= ⌈4000/1.004⌉ = 3985 whole batches; (12) 1473.5, the proof's bound 1467.3.

    1044 + 12·4 + 14·4 + 18·3 = 1202, and 18/.84024·ln(4·3984/.05) = 271.5 or ln(3·3984/.05)
    in its place 265.3.
    """
    problem, n = spec_example(), (4, 4, 4, 3)
    assert largest_batch_count(problem.worker, 10, 4, Fraction(4000)) == 3985
    printed = safety_buffer(
        problem, n, duration=4000, probability=0.05, argument=LogArgument.THEOREM
    )
    assert printed.exponents[:2] == (inf, inf)
    assert printed.exponents[2] == pytest.approx(0.84024, abs=5e-6)
    assert (printed.policy_memory, printed.waiting, printed.total) == (1044, 158, 1474)
    proof = safety_buffer(problem, n, duration=4000, probability="1/20")
    assert proof.total == 1468
    figures = safety_buffer(
        problem, n, duration=4000, probability="1/20", argument=LogArgument.FIGURES
    )
    later = safety_buffer(
        problem, n, duration=4000, probability="1/20", argument=LogArgument.TIME_VARYING
    )
    assert (figures.total, later.total) == (1468, 1468)


def test_a_tiny_probability_is_no_overflow() -> None:
    """δ = 1e-59 only lengthens a logarithm."""
    far = safety_buffer(spec_example(), (4, 4, 4, 3), duration=1, probability=Fraction(1, 10**59))
    assert far.deviation is not None
    # 18/.84024·(59·ln 10 + ln 3) = 21.42·136.95.
    assert far.deviation == pytest.approx(2934, abs=3)


def test_thresholds_without_drift_have_no_bound() -> None:
    """The experiments' ratios 15:14:12:8 are Λ's: equality in (10), θ = 0, infinite memory."""
    problem = spec_example()
    ratios = (15, 14, 12, 8)
    assert set(nested_violations(problem, ratios)) == {"drift[2]", "drift[3]", "drift[4]"}
    buffer = safety_buffer(problem, ratios, duration=10, probability="0.1")
    assert (buffer.exponents, buffer.deviation, buffer.total) == ((0, 0, 0), None, None)


def test_bad_horizons_and_probabilities() -> None:
    """Zero, one, and more than one."""
    for horizon, probability in ((0, "0.1"), (1, 0), (1, 1), (1, "3/2"), ("soon", "0.1")):
        with pytest.raises(InputError, match=r"duration|probability"):
            safety_buffer(spec_example(), (4, 4, 4, 3), duration=horizon, probability=probability)


@given(nested_problems())
def test_segment_programs_agree(problem: NestedProblem) -> None:
    """Enumeration of boundaries = integer program, infeasible ones included."""
    truth = solve_segments(problem, method="brute-force")
    exact = solve_segments(problem, method="cp-sat")
    assert (exact.termination, exact.objective) == (truth.termination, truth.objective)
    if exact.objective is not None:
        assert exact.is_optimal
        assert exact.boundaries is not None
        assert exact.thresholds is not None
        candidate = problem.with_boundaries(exact.boundaries)
        assert nested_violations(candidate, exact.thresholds) == {}


def test_golden_segments() -> None:
    """Two segments beat four on the spec's example: 1044 + 18·3 = 1098, not 1044 + 158."""
    for method in ("brute-force", "cp-sat", "highs"):
        result = solve_segments(spec_example(), method=method)
        assert (result.boundaries, result.thresholds) == ((8, 16), (4, 3))
        assert result.objective == 1098
    assert result.to_mapping()["boundaries"] == [8, 16]
    best = best_plan(spec_example(), duration=4000, probability="0.05")
    assert best is not None
    assert best.boundaries == (8, 16)
    whole = plan(spec_example(), duration=4000, probability="0.05")
    assert whole is not None
    assert best.memory is not None
    assert whole.memory is not None
    assert best.memory <= whole.memory


def lmsys_like(total: int, d1: str) -> NestedProblem:
    """Return section 7.2's setting: lengths 1..500, prefill 62, ten bins of the real data."""
    bins = (23, 11, 8, 7, 6, 4, 3, 2, 1, 1)
    rates = tuple(Fraction(total * weight, 66 * 50) for weight in bins for _ in range(50))
    worker = FluidWorker(Fraction(1, 100), Fraction(d1), 10**9)
    return NestedProblem.single(62, tuple(range(1, 501)), rates, worker)


@pytest.mark.parametrize(
    ("total", "d1", "memories"),
    [
        (50, "2.6e-7", {1: None, 2: 349_806, 4: 241_531, 5: 260_998, 10: 437_562}),
        (500, "2.6e-8", {4: 612_278, 5: 546_052, 10: 579_763}),
    ],
)
def test_the_u_shape(total: int, d1: str, memories: dict[int, int | None]) -> None:
    """Spec 4.9's totals (rounded up): L = 1 is unstable, the least is inside, at 4 or 5."""
    plans = equal_plans(
        lmsys_like(total, d1),
        memories,
        duration=200,
        probability="0.1",
        argument=LogArgument.FIGURES,
    )
    found = {count: p and p.memory for count, p in plans.items()}
    assert found == memories
    counts = [p.num_segments for p in plans.values() if p is not None]
    assert counts == [count for count, memory in memories.items() if memory is not None]


def test_printed_segment_memory_is_refuted() -> None:
    """L = 1, two segments of 2 of lengths 1..4, n = (3, 2).

    Exactly 3·(1 + 2 + 3) + 2·(4 + 5) = 36; printed 3·(1 + 1)·2 + 2·(1 + 2)·2 = 24.
    """
    rates = (Fraction(1),) * 4
    problem = NestedProblem.single(
        1, (1, 2, 3, 4), rates, FluidWorker(Fraction(1), Fraction(0), 9), (2, 4)
    )
    assert [3 * s for s in problem.weights[:1]] + [2 * s for s in problem.weights[1:]] == [18, 18]
    assert printed_segment_memory(1, 2, (3, 2)) == 24


def test_raised_thresholds_by_hand() -> None:
    """Spec's example: n_4 = 4 costs 180 + 18 more than 3, and saves the deviation of 266.

    M = 4·306 = 1224, waiting 4·44 = 176, no deviation: 1400 instead of 1468; ΔT = 1.1224 < 4/3.
    """
    problem = spec_example()
    n = cheapest_thresholds(problem, duration=4000, probability="0.05")
    assert n == (4, 4, 4, 4)
    assert nested_violations(problem, n) == {}
    raised = plan(problem, duration=4000, probability="0.05", raised=True)
    least = plan(problem, duration=4000, probability="0.05")
    assert raised is not None
    assert least is not None
    assert (raised.memory, least.memory) == (1400, 1468)
    best = best_plan(problem, duration=4000, probability="0.05", raised=True)
    assert best is not None
    # Two segments: 4·126 + 4·180 + 18·4 = 1296 without a deviation, or 1195 with n = (4, 3).
    assert (best.thresholds, best.memory) == ((4, 3), 1195)


@given(nested_problems(max_classes=3), st.sampled_from(["0.5", "0.01", "1e-6"]))
def test_cheapest_thresholds(problem: NestedProblem, probability: str) -> None:
    """No vector of enumeration needs less memory of (12)."""
    strict = replace(problem, strict=True, within_memory=False)
    found = cheapest_thresholds(strict, duration=50, probability=probability)
    if strict.load >= 1:
        assert found is None
        return
    assert found is not None
    assert nested_violations(strict, found) == {}
    total = safety_buffer(strict, found, duration=50, probability=probability).total
    assert total is not None
    # Any better n_1 has a full first segment below that memory.
    most = total // strict.weights[0]
    assume(most ** len(found) <= 3000)
    for n in product(range(1, most + 1), repeat=len(found)):
        if not nested_violations(strict, n):
            other = safety_buffer(strict, n, duration=50, probability=probability).total
            assert other is None or other >= total


def test_boundaries_must_divide() -> None:
    """500 lengths do not make 3 equal segments; 40 lengths have too many choices."""
    assert equal_boundaries((1, 2, 3, 4), 2) == (2, 4)
    with pytest.raises(InputError, match="divide"):
        equal_boundaries(range(1, 501), 3)
    with pytest.raises(CapabilityError, match="choices"):
        best_plan(lmsys_like(50, "2.6e-7"), duration=1, probability="0.1")


def test_unstable_whatever_the_segments() -> None:
    """A load of 1 with the finest segments has no plan."""
    rates = (Fraction(1), Fraction(1))
    problem = NestedProblem.single(1, (1, 2), rates, FluidWorker(Fraction(1), Fraction(1, 9), 99))
    assert problem.load == 1
    assert plan(problem, duration=1, probability="0.1") is None
    assert best_plan(problem, duration=1, probability="0.1") is None
    assert solve_segments(problem).termination is Termination.INFEASIBLE


def test_batch_limits() -> None:
    """Section 6.1 high, B = 1806: the printed rule gives the third class 1806/6/301 = 1."""
    classes = fluid_problem(1, [(6000, 20, 100), (4000, 20, 200), (2000, 20, 300)]).classes
    printed = batch_limit_thresholds(classes, 1806, BatchRule.PRINTED)
    assert printed[2] == 1
    balanced = batch_limit_thresholds(classes, 1806)
    for thresholds in (printed, balanced):
        pairs = zip(classes, thresholds, strict=True)
        assert sum(n * kind.iterations for kind, n in pairs) == 1806
    # n/λ is alike for all classes, as (9) wants; the printed rule starves the longest.
    assert len({n / k.rate for k, n in zip(classes, balanced, strict=True)}) == 1
    spread = [n / k.rate for k, n in zip(classes, printed, strict=True)]
    assert spread == sorted(spread, reverse=True)
    # 1806/2/101 = 8.94, 1806/3/201 = 2.995; with B = 1 each still gets its one.
    assert whole_thresholds(printed) == (8, 2, 1)
    assert whole_thresholds(batch_limit_thresholds(classes, 1)) == (1, 1, 1)
    with pytest.raises(InputError, match="limit"):
        batch_limit_thresholds(classes, 0)


def test_nested_batch_limits() -> None:
    """Ratios 15:14:12:8 of section 6.2 fill 15·3 + 14·2 + 12·4 + 8·8 = 185 places.

    Corrected, n_1 = 15 needs 15, 15, 13, 9: 45 + 30 + 52 + 72 = 199; 14 needs 14, 14, 13, 9: 194;
    13 has 13, 13, 12, 9: 185.
    """
    problem = spec_example()
    assert nested_batch_limit_thresholds(problem, 185) == plain(15, 14, 12, 8)
    assert corrected_batch_limit_thresholds(problem, 199) == (15, 15, 13, 9)
    assert corrected_batch_limit_thresholds(problem, 198) == (14, 14, 13, 9)
    assert corrected_batch_limit_thresholds(problem, 185) == (13, 13, 12, 9)
    assert whole_thresholds(nested_batch_limit_thresholds(problem, 1)) == (1, 1, 1, 1)
    with pytest.raises(InputError, match="16 prompts are too few; use 17 or more"):
        corrected_batch_limit_thresholds(problem, 16)
    # 15·14/15·1.2 = 16.8 is cut to 15, then 15·6/7·1.2 = 15.4 to 15, and 15·2/3·1.2 = 12.
    assert corrected_batch_limit_thresholds(problem, 231, "1/5") == (15, 15, 15, 12)
    for bad in (-1, "much", True):
        with pytest.raises(InputError, match="slack"):
            corrected_batch_limit_thresholds(problem, 231, bad)


@given(nested_problems(), st.integers(1, 400), st.fractions(0, 2, max_denominator=9))
def test_corrected_limits(problem: NestedProblem, limit: int, slack: Fraction) -> None:
    """They drift strictly, are within the limit, and one more of n_1 would not be."""
    strict = replace(problem, strict=True)
    stages = strict.groups[0].chain.stages

    def batch(thresholds: tuple[int, ...]) -> int:
        return sum(n * k for n, k in zip(thresholds, stages, strict=True))

    ratios = nested_batch_limit_thresholds(strict, limit)
    assert sum(n * k for n, k in zip(ratios, stages, strict=True)) == limit
    assert {n / rate for n, rate in zip(ratios, strict.arriving, strict=True)} == {
        ratios[0] / strict.arriving[0]
    }
    try:
        found = corrected_batch_limit_thresholds(strict, limit, slack)
    except InputError:
        assert limit < 2 * sum(stages)
        return
    assert batch(found) <= limit
    assert not [v for v in nested_violations(strict, found) if v.startswith("drift")]
    after = corrected_batch_limit_thresholds(strict, limit + 1, slack)
    assert after == found or batch(after) == limit + 1
