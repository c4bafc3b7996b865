"""Least thresholds: iteration = integer program = enumeration, by golden values and at random."""

from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from math import prod

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bfio.testing.instances import fluid_problem
from formulations import CapabilityError, InputError
from formulations.fluid import equilibrium, solve_margin
from formulations.results import Termination
from formulations.thresholds import (
    NestedProblem,
    ThresholdProblem,
    ThresholdResult,
    WaitProblem,
    batch_time,
    conditions,
    nested_violations,
    policy_memory,
    solve,
    wait_violations,
)
from formulations.thresholds.solver import wait_answer
from proofs_checks.papers.fluid.equilibrium import printed_policy_memory
from tests.formulations.fluid.cases import golden
from tests.formulations.thresholds.cases import (
    grouped_problems,
    nested_problems,
    spec_example,
    wait_problems,
)

METHODS = ("fixed-point", "brute-force", "cp-sat", "highs", "pyomo")


@pytest.mark.parametrize("method", METHODS)
def test_golden_wait(method: str) -> None:
    """I0: n = (1, 1) lasts 1 = n/λ, M = 3 + 6; strictly (2, 2) lasts 1/2 + 18/18 = 1.5 < 2."""
    result = solve(WaitProblem(golden()), method=method)
    assert (result.thresholds, result.objective) == ((1, 1), 9)
    strict = solve(WaitProblem(golden(), strict=True), method=method)
    assert (strict.thresholds, strict.objective) == ((2, 2), 18)
    # d0 = 0.4: (1, 1) lasts 0.9 < 1, strict already.
    loose = solve(WaitProblem(golden(d0="0.4"), strict=True), method=method)
    assert (loose.thresholds, loose.objective) == ((1, 1), 9)
    if method in METHODS[:3]:
        assert result.is_optimal
        assert strict.is_optimal


@pytest.mark.parametrize("method", METHODS)
def test_golden_nested(method: str) -> None:
    """Spec 4.6: n = (4, 4, 4, 3), M = 4·33 + 4·27 + 4·66 + 3·180 = 1044; M* = 662.12."""
    problem = spec_example()
    assert problem.weights == (33, 27, 66, 180)
    # 3·33 + 2.8·27 + 2.4·66 + 1.6·180 = 99 + 75.6 + 158.4 + 288 = 621.
    assert problem.load == Fraction(621, 10**4)
    result = solve(problem, method=method)
    assert (result.thresholds, result.objective) == ((4, 4, 4, 3), 1044)
    state = equilibrium(problem.fluid().classes, problem.worker)
    assert float(state.memory) == pytest.approx(662.12, abs=0.005)


@pytest.mark.parametrize("method", METHODS)
def test_strict_drift(method: str) -> None:
    """P = 1/2: after n_1 = 2 strictly more than 1 is 2; with equality 1 is enough.

    n_1 = 1 forces n_2 = 1, M = 6, ΔT = 2/5 + 6/36 > 1/2. (2, 2): 2/5 + 12/36 < 1.
    """
    strict = NestedProblem.single_from_fluid(golden(d0="2/5", d1="1/36"))
    assert solve(strict, method=method).thresholds == (2, 2)
    assert solve(replace(strict, strict=False), method=method).thresholds == (2, 1)


@given(wait_problems())
def test_wait_methods_agree(problem: WaitProblem) -> None:
    """Also on what is infeasible: a load of 1 or more, too little memory."""
    _agree(problem)


@given(nested_problems())
def test_nested_methods_agree(problem: NestedProblem) -> None:
    """Also with merged segments and with equality allowed."""
    _agree(problem)


def _agree(problem: ThresholdProblem) -> None:
    ours = solve(problem)
    exact = solve(problem, method="cp-sat")
    assert exact.termination is ours.termination
    assert (exact.thresholds, exact.objective) == (ours.thresholds, ours.objective)
    assert (ours.termination is Termination.INFEASIBLE) == (ours.thresholds is None)
    if problem.load >= 1:
        assert ours.termination is Termination.INFEASIBLE
        return
    if prod(problem.conditions.upper_vector()) <= 3000:
        truth = solve(problem, method="brute-force")
        assert (truth.termination, truth.thresholds) == (ours.termination, ours.thresholds)
    # HiGHS refuses what is beyond its range.
    with suppress(CapabilityError):
        floats = solve(problem, method="highs")
        assert (floats.thresholds, floats.objective) == (ours.thresholds, ours.objective)


@given(wait_problems())
def test_least_means_every_entry(problem: WaitProblem) -> None:
    """No entry can be lowered; memory and batch are at least the equilibrium's."""
    result = solve(replace(problem, within_memory=False))
    assume(result.thresholds is not None)
    assert result.thresholds is not None
    assert wait_violations(replace(problem, within_memory=False), result.thresholds) == {}
    state = equilibrium(problem.fluid.classes, problem.worker)
    assert policy_memory(problem.weights, result.thresholds) >= state.memory
    assert batch_time(problem.worker, problem.weights, result.thresholds) >= state.iteration_time
    for j, n in enumerate(result.thresholds):
        lower = [*result.thresholds]
        lower[j] = n - 1
        assert wait_violations(problem, lower)


@given(nested_problems())
def test_nested_equilibrium_identity(problem: NestedProblem) -> None:
    """With n_i = ΔT* Λ_i the exact memory is M*: spec 4.3's identity, in rationals."""
    finest = problem.with_boundaries(problem.group.outputs)
    assume(finest.load < 1)
    state = equilibrium(finest.fluid().classes, finest.worker)
    pairs = zip(finest.arriving, finest.weights, strict=True)
    assert sum(state.iteration_time * rate * s for rate, s in pairs) == state.memory


def test_printed_memory_is_refuted() -> None:
    """Spec 4.3's values of (11) against the exact sums."""
    cases = [
        (10, (20, 40, 80, 160), (15, 14, 12, 8), 135_000, 158_000),
        (
            60,
            tuple(range(50, 501, 50)),
            (66, 43, 32, 24, 17, 11, 7, 4, 2, 1),
            1_881_385,
            2_618_500,
        ),
        # 4·(1 + 2) + 3·3 = 21; printed 4·1.5·1 + 3·2.5·1 = 13.5, too little.
        (1, (1, 2), (4, 3), 21, Fraction(27, 2)),
    ]
    for prompt, outputs, thresholds, exact, printed in cases:
        rates = (Fraction(1),) * len(outputs)
        problem = NestedProblem.single(prompt, outputs, rates, golden().workers[0])
        assert policy_memory(problem.weights, thresholds) == exact
        assert printed_policy_memory(prompt, outputs, thresholds) == printed


def test_a_wrong_condition_is_caught() -> None:
    """With the printed d0 in place of d1 the I0 is called unstable; non-strict is not strict."""
    wrong = golden(d1="1/2")
    assert solve(WaitProblem(wrong)).termination is Termination.INFEASIBLE
    assert solve(WaitProblem(golden())).is_optimal
    assert wait_violations(WaitProblem(golden(), strict=True), (1, 1)) == {
        "served[0]": 1,
        "served[1]": 1,
    }


def test_a_memory_just_large_enough() -> None:
    """9 tokens hold I0's thresholds, 8 do not; every method says so."""
    for method in ("fixed-point", "brute-force", "cp-sat", "highs"):
        fits = solve(WaitProblem(golden(9), within_memory=True), method=method)
        tight = solve(WaitProblem(golden(8), within_memory=True), method=method)
        assert fits.thresholds == (1, 1)
        assert (tight.termination, tight.thresholds) == (Termination.INFEASIBLE, None)


def test_the_checkers_see_every_constraint() -> None:
    """Length, sign, type, (9), (10) first and drift, memory."""
    wait = WaitProblem(golden(8), within_memory=True)
    assert wait_violations(wait, (1,)) == {"thresholds": 1}
    assert wait_violations(wait, (0, 1)) == {"thresholds[0]": 1}
    assert wait_violations(wait, (1, 1.0)) == {"thresholds[1]": 1}  # type: ignore[arg-type]
    assert wait_violations(wait, (1, 1)) == {"memory": 1}
    # (2, 1): M = 12, ΔT = 1/2 + 12/18 = 7/6.
    assert wait_violations(WaitProblem(golden()), (2, 1)) == {"served[1]": 1}
    nested = spec_example()
    assert nested_violations(nested, (4, 4, 4)) == {"thresholds": 1}
    # 3·(1 + 1e-4·1011) = 3.3 needs 4; 4·1.6/2.4 = 2.67 needs 3.
    assert nested_violations(nested, (3, 4, 4, 3)) == {"first": 1}
    assert nested_violations(nested, (4, 4, 4, 2)) == {"drift[4]": 1}
    small = replace(nested, worker=replace(nested.worker, memory=1000), within_memory=True)
    assert nested_violations(small, (4, 4, 4, 3)) == {"memory": 44}


def test_bad_nested_data() -> None:
    """Lengths that do not increase, rates that do not fit, other prompts, wrong boundaries."""
    worker = golden().workers[0]
    one = Fraction(1)
    with pytest.raises(InputError, match=r"outputs\[1\]: 3 does not exceed 3"):
        NestedProblem.single(1, (3, 3), (one, one), worker)
    with pytest.raises(InputError, match="rates: 1 for 2 outputs"):
        NestedProblem.single(1, (3, 4), (one,), worker)
    with pytest.raises(InputError, match=r"rates\[1\]: 0 is not allowed"):
        NestedProblem.single(1, (3, 4), (one, Fraction(0)), worker)
    with pytest.raises(InputError, match="not the longest output"):
        NestedProblem.single(1, (3, 4), (one, one), worker, (3,))
    with pytest.raises(InputError, match="not a list of lengths"):
        NestedProblem.single(1, (), (), worker)
    with pytest.raises(InputError, match=r"classes\[1\].prompt: 2 differs from 1"):
        NestedProblem.single_from_fluid(fluid_problem(9, [(1, 1, 1), (1, 2, 2)]))
    with pytest.raises(InputError, match="does not exceed"):
        NestedProblem.single_from_fluid(fluid_problem(9, [(1, 1, 2), (1, 1, 1)]))
    assert NestedProblem.single_from_fluid(golden(), (2,)).group.ends == (2,)


def test_nested_with_one_class_is_wait() -> None:
    """One class, one segment: the same program."""
    problem = fluid_problem(9, [(2, 3, 4)], "1/2", "1/99")
    nested = NestedProblem.single_from_fluid(problem)
    wait = WaitProblem(problem, strict=True)
    assert nested.weights == wait.weights
    assert solve(nested).thresholds == solve(wait).thresholds


def test_too_large_for_a_backend_or_enumeration() -> None:
    """Denominators beyond 2^53 are for the iteration; so is a load near 1 for enumeration."""
    rate = Fraction(10**18, 10**18 + 1)
    problem = WaitProblem(fluid_problem(9, [(rate, 1, 1), (1, 1, 2)], "1/7", "1e-7"))
    assert solve(problem).is_optimal
    with pytest.raises(CapabilityError):
        solve(problem, method="cp-sat")
    near = WaitProblem(golden(d1=Fraction(1, 9) - Fraction(1, 9000)))
    with pytest.raises(CapabilityError, match="vectors"):
        solve(near, method="brute-force")
    assert solve(near).is_optimal
    with pytest.raises(InputError, match="unknown"):
        solve(problem, method="abacus")


def test_a_load_almost_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """ρ = (3·0.999 + 6)/9 takes more than 10 rounds; past the limit it says so, no less."""
    near = WaitProblem(fluid_problem(10**6, [("0.999", 1, 1), (1, 1, 2)], "0.0123457", "1/9"))
    result = solve(near)
    assert result.iterations > 10
    assert result.thresholds == solve(near, method="cp-sat").thresholds
    monkeypatch.setattr(conditions, "_MAX_ROUNDS", 10)
    with pytest.raises(CapabilityError, match="too close to 1"):
        solve(near)
    answer = wait_answer(near.fluid)
    assert answer["thresholds"] is None
    assert solve_margin(near.fluid).is_stable
    assert "too close to 1" in answer["thresholds_note"]


def test_a_leap_by_hand() -> None:
    """I0 as Nested WAIT with d1 = (1 − ε)/9, ε = 1e-9: a billion rounds, or one leap.

    With n_1 = 2k + 1, n_2 = k + 1 and M = 9k + 6, 2·ΔT < n_1 is (2/3)(1 − ε) < ε·k, and that is k
    > 666666666. Even n_1 = 2k have M = 9k + 3 and need 5/3 − 2ε/3 < 2ε·k, more than that.
    """
    result = solve(NestedProblem.single_from_fluid(golden(d1="0.111111111")))
    assert result.thresholds == (1333333335, 666666668)
    assert result.is_optimal
    assert result.iterations < 3000


@given(grouped_problems(), st.integers(1, 3), st.sampled_from([2, 30, 1000]))
def test_leaps_stay_below(problem: NestedProblem, patience: int, closeness: int) -> None:
    """Wherever the iteration leaps from, it ends where it ends without."""
    free = replace(problem, within_memory=False)
    assume(free.load > 0)
    d1 = free.worker.d1 / free.load * (1 - Fraction(1, closeness))
    near = replace(free, worker=replace(free.worker, d1=d1))
    found = []
    for rounds in (patience, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(conditions, "_PATIENCE", rounds)
            found.append(conditions.least_thresholds(near)[0])
    assert found[0] == found[1]
    assert nested_violations(near, found[0] or ()) == {}


def test_results() -> None:
    """Contradictions are refused, documents hold the thresholds."""
    with pytest.raises(ValueError, match="together"):
        ThresholdResult(method="x", termination=Termination.FEASIBLE, objective=3)
    document = solve(WaitProblem(golden())).to_mapping()
    assert (document["thresholds"], document["termination"]) == ([1, 1], "optimal")
    assert solve(WaitProblem(golden(d1=1))).to_mapping()["thresholds"] is None


def test_huge_lengths_cost_nothing() -> None:
    """A billion stages: sums are closed forms, and exact; loads 1.5 and 0.75."""
    heavy = fluid_problem(1, [("1e-9", 10**9, 10**9)], 1, "1e-9")
    assert heavy.work_rate == Fraction(10**9 + 1) * (3 * 10**9) / 2 / 10**9
    assert solve(WaitProblem(heavy)).thresholds is None
    light = WaitProblem(fluid_problem(1, [("1e-9", 10**9, 10**9)], 1, "5e-10"))
    assert solve(light).thresholds == (1,)
    assert solve(light).objective == (10**9 + 1) * (3 * 10**9) // 2
