"""Nested WAIT for several prompt lengths: one chain of segments for each, in common batches."""

from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import inf, log, prod

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bfio.testing.instances import fluid_problem
from formulations import CapabilityError, InputError
from formulations.results import Termination
from formulations.thresholds import (
    LogArgument,
    NestedProblem,
    PromptGroup,
    WaitProblem,
    best_plan,
    equal_plans,
    group_buffers,
    nested_violations,
    plan,
    policy_memory,
    safety_buffer,
    solve,
)
from formulations.thresholds.solver import nested_answer
from tests.formulations.thresholds.cases import (
    grouped_problems,
    spec_example,
    wait_problems,
)

METHODS = ("fixed-point", "brute-force", "cp-sat", "highs", "pyomo")


def two_groups() -> NestedProblem:
    """Return l = 1 with l' = (1, 2) at rates 1, 1, and l = 2 with l' = 1 at rate 1.

    Λ = (2, 1), s = (1 + 2, 3) and Λ = 1, s = 2 + 3. With d1 = 1/100, ρ = (6 + 3 + 5)/100.
    """
    return NestedProblem.from_fluid(
        fluid_problem(20, [(1, 1, 1), (1, 2, 1), (1, 1, 2)], "1/2", "1/100")
    )


@pytest.mark.parametrize("method", METHODS)
def test_golden_groups(method: str) -> None:
    """(2, 2), (1): M = 6 + 6 + 5 = 17, ΔT = 0.67; 2·0.67 < 2, 2/2 < 2, 0.67 < 1.

    The lower bound is ΔT* = 0.5/0.86 = 0.58: more than 1.16 is 2, more than 1 is 2.
    """
    problem = two_groups()
    assert (problem.load, problem.weights) == (Fraction(14, 100), (3, 3, 5))
    result = solve(problem, method=method)
    assert (result.thresholds, result.objective) == ((2, 2, 1), 17)
    assert problem.conditions.split((2, 2, 1)) == ((2, 2), (1,))


@given(wait_problems())
def test_groups_of_one_class_are_wait(problem: WaitProblem) -> None:
    """With one class in each group lengths are known: condition (9)."""
    groups = tuple(PromptGroup(k.prompt, (k.output,), (k.rate,)) for k in problem.fluid.classes)
    grouped = NestedProblem(
        groups, problem.worker, strict=problem.strict, within_memory=problem.within_memory
    )
    assert grouped.conditions == problem.conditions
    one, other = solve(grouped), solve(problem)
    assert (one.termination, one.thresholds) == (other.termination, other.thresholds)


@given(grouped_problems())
def test_methods_agree(problem: NestedProblem) -> None:
    """Iteration = integer program = enumeration, also on what is infeasible."""
    ours = solve(problem)
    exact = solve(problem, method="cp-sat")
    assert (exact.termination, exact.thresholds) == (ours.termination, ours.thresholds)
    if problem.load >= 1:
        assert ours.termination is Termination.INFEASIBLE
        return
    if prod(problem.conditions.upper_vector()) <= 2000:
        truth = solve(problem, method="brute-force")
        assert (truth.termination, truth.thresholds) == (ours.termination, ours.thresholds)
    # HiGHS refuses what is beyond its range.
    with suppress(CapabilityError):
        assert solve(problem, method="highs").thresholds == ours.thresholds


@given(grouped_problems(), st.lists(st.integers(1, 40), min_size=12, max_size=12))
def test_solutions_are_closed_under_minima(problem: NestedProblem, starts: list[int]) -> None:
    """The componentwise minimum of two solutions is one, and the least is below both."""
    problem = replace(problem, within_memory=False)
    assume(problem.load < 1)
    size = len(problem.weights)
    one, other = (solution_above(problem, v[:size]) for v in (starts, starts[6:]))
    both = tuple(map(min, one, other))
    assert nested_violations(problem, both) == {}
    least = solve(problem).thresholds
    assert least is not None
    assert all(n <= m for n, m in zip(least, both, strict=True))


def solution_above(problem: NestedProblem, start: list[int]) -> tuple[int, ...]:
    """Return a solution above a vector, found by raising what the checker calls too small."""
    vector, chains = list(start), problem.conditions.chains
    first = [sum(len(chain.ends) for chain in chains[:g]) for g in range(len(chains))]
    while found := nested_violations(problem, vector):
        for name, amount in found.items():
            # "groups[g].drift[i]", "groups[g].first", or with one group the last part alone.
            group, _, condition = name.rpartition(".")
            g = int(group[len("groups[") : -1]) if group else 0
            i = 1 if condition == "first" else int(condition[len("drift[") : -1])
            vector[first[g] + i - 1] += amount
    return tuple(vector)


@given(grouped_problems())
def test_the_upper_vector_is_a_solution(problem: NestedProblem) -> None:
    """Enumeration searches below it."""
    assume(problem.load < 1)
    free = replace(problem, within_memory=False)
    assert nested_violations(free, problem.conditions.upper_vector()) == {}


def test_groups_share_the_time_of_a_batch() -> None:
    """Thresholds that suffice for each group alone do not for both: the checker sees it.

    With d1 = 1/15 alone: (3, 2) has M = 15, ΔT = 1.5 = 3/2, equality; so (4, 3): ΔT = 1/2 + 21/15
    = 1.9 < 2. The other alone: ρ = 1/3, n = 1 has ΔT = 1/2 + 5/15 < 1. Together ΔT = 2.23.
    """
    problem = two_groups()
    problem = replace(problem, worker=replace(problem.worker, d1=Fraction(1, 15)))
    alone = [solve(replace(problem, groups=(g,))).thresholds for g in problem.groups]
    assert alone == [(4, 3), (1,)]
    # 2·2.23 = 4.47 needs 5, 2.23 needs 3.
    found = nested_violations(problem, (4, 3, 1))
    assert found == {"groups[0].first": 1, "groups[1].first": 2}
    assert nested_violations(problem, (4, 2, 9))["groups[0].drift[2]"] == 1
    assert nested_violations(problem, (4, 3)) == {"thresholds": 1}
    small = replace(problem, within_memory=True)
    assert nested_violations(small, (4, 3, 1))["memory"] == 21 + 5 - 20


def test_buffer_of_two_groups_by_hand() -> None:
    """One queue in each group; δ is shared by all batches of both.

    θ of (2, 1) with P = 1/4 is ln 9. Twice l = 1, l' = (1, 2): full batch 2·3 + 1·3, 1 waits with
    2 tokens; S = ⌈90/(1 + 0)⌉ in each, as d1 = 0. Deviation 2·ln(180/δ)/ln 9 each, rounded up.
    """
    group = PromptGroup(1, (1, 2), (Fraction(3), Fraction(1)))
    other = replace(group, prompt=2)
    worker = replace(two_groups().worker, d0=Fraction(1), d1=Fraction(0))
    problem = NestedProblem((group, other), worker)
    buffers = partial(group_buffers, duration=90, probability="0.1")
    buffer = partial(safety_buffer, duration=90, probability="0.1")
    one, two = buffers(problem, (2, 1, 2, 1))
    assert one.exponents[0] == pytest.approx(log(9), rel=1e-12)
    # ln 1800/ln 9 = 3.41: 6.82 and 10.23 tokens.
    assert (one.policy_memory, one.waiting, one.deviation) == (9, 2, 7)
    assert (two.policy_memory, two.waiting, two.deviation) == (14, 3, 11)
    both = buffer(problem, (2, 1, 2, 1))
    assert both.exponents == one.exponents + two.exponents
    assert both.total == 9 + 2 + 7 + 14 + 3 + 11
    # Alone, δ belongs to it: ln 900/ln 9 = 3.096 gives 6.19.
    assert buffer(replace(problem, groups=(group,)), (2, 1)).deviation == 7
    # m·S counts two classes each: ln 3600/ln 9 = 3.73.
    printed = buffer(problem, (2, 1, 2, 1), argument=LogArgument.THEOREM)
    assert printed.deviation == 8 + 12
    # (L − 1)(T + 1) = 2·91 is almost as before; so is S + 1.
    for argument in (LogArgument.FIGURES, LogArgument.TIME_VARYING):
        near = buffer(problem, (2, 1, 2, 1), argument=argument)
        assert near.deviation == 7 + 11
    without_drift = buffer(problem, (2, 2, 4, 1))
    assert without_drift.exponents == (inf, 0)
    assert without_drift.total is None


def test_wait_needs_no_buffer() -> None:
    """Without queues between segments the full batch is all."""
    problem = WaitProblem(fluid_problem(9, [(1, 1, 1), (1, 1, 2)]))
    assert safety_buffer(problem, (1, 1), duration=9, probability="0.1").total == 9


def test_plans_of_groups() -> None:
    """The best plan of two equal groups far apart is the best of each; equal plans merge both."""
    example = spec_example()
    slow = replace(example.worker, d1=Fraction(0))
    (group,) = example.groups
    problem = NestedProblem((group, replace(group, prompt=11)), slow)
    best = best_plan(problem, duration=4000, probability="0.05")
    alone = best_plan(replace(example, worker=slow), duration=4000, probability="0.05")
    assert best is not None
    assert alone is not None
    assert best.boundaries == alone.boundaries * 2
    assert best.memory == sum(part.total or 0 for part in best.group_buffers)
    plans = equal_plans(problem, [1, 2, 4], duration=4000, probability="0.05")
    assert [p and p.num_segments for p in plans.values()] == [2, 4, 8]
    with pytest.raises(CapabilityError, match="several prompt lengths"):
        plan(problem, duration=4000, probability="0.05", raised=True)
    many = PromptGroup(1, tuple(range(10)), (Fraction(1),) * 10)
    with pytest.raises(CapabilityError, match=r"2\^18 choices"):
        best_plan(NestedProblem((many,) * 2, slow), duration=1, probability="0.1")


def test_the_answer_of_groups() -> None:
    """Lists hold one group after the other, `groups` has them apart."""
    problem = two_groups()
    answer = nested_answer(problem)
    assert (answer["thresholds"], answer["boundaries"]) == ([2, 2, 1], [1, 2, 1])
    assert [row["thresholds"] for row in answer["groups"]] == [[2, 2], [1]]
    assert (answer["policy_memory"], answer["fit"]) == (17, True)
    chosen = plan(problem, duration=9, probability="0.1")
    buffered = nested_answer(problem, chosen)
    # What waits before the second segment counts n_2 = 2 requests of 2 tokens: 17 + 4.
    assert (buffered["safe_memory"], buffered["fit"]) == (21, False)
    assert [row["safe_memory"] for row in buffered["groups"]] == [16, 5]
    assert buffered["exponents"] == [None]
    overloaded = replace(problem, worker=replace(problem.worker, d1=Fraction(1)))
    assert nested_answer(overloaded)["groups"][0]["thresholds"] is None


def test_groups_of_a_fluid_problem() -> None:
    """Classes go to the group of their prompt; the class at fault is named."""
    problem = two_groups()
    assert [group.prompt for group in problem.groups] == [1, 2]
    assert problem.fluid().work_rate == 14
    with pytest.raises(InputError, match=r"classes\[2\].output: 1 does not exceed 1 .* prompt 1"):
        NestedProblem.from_fluid(fluid_problem(9, [(1, 1, 1), (1, 2, 1), (1, 1, 1)]))
    with pytest.raises(InputError, match="groups: no group"):
        NestedProblem((), problem.worker)
    merged = problem.with_segments([(2,), (1,)])
    assert merged.weights == (6, 5)
    assert policy_memory(merged.weights, (1, 1)) == 11
