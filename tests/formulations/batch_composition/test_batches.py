"""The batch program: by hand, by filling, by backends, by enumeration; and its checker."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations import CapabilityError, InputError
from formulations.batch_composition import (
    BatchProblem,
    BatchProgram,
    aging_weights,
    brute_force,
    gap,
    least_objective,
    num_in_batch,
    objective_of,
    phase_weights,
    shortest_first_weights,
    solve,
    violations,
    worth,
)
from formulations.exchange import judge, parse_solution


def batch(rows: list[tuple[int, int]], budget: int, **options: Any) -> BatchProblem:
    """Return a problem of requests (prefill, decode)."""
    columns = np.array(rows, dtype=np.int64).reshape(-1, 2)
    return BatchProblem(columns[:, 0], columns[:, 1], budget, **options)


@st.composite
def problems(draw: st.DrawFn, *, most_tokens: int = 4) -> BatchProblem:
    """Draw a tiny problem with any options."""
    n = draw(st.integers(0, 5))

    def column(least: int, most: int) -> list[int]:
        return draw(st.lists(st.integers(least, most), min_size=n, max_size=n))

    prefill = column(0, most_tokens)
    bonus = [g if p else 0 for g, p in zip(column(0, 5), prefill, strict=True)]
    return BatchProblem(
        prefill,  # type: ignore[arg-type]
        column(1, 3),  # type: ignore[arg-type]
        draw(st.integers(1, 12)),
        weight=column(0, 4),  # type: ignore[arg-type]
        finish_bonus=bonus if draw(st.booleans()) else None,  # type: ignore[arg-type]
        mixing=draw(st.booleans()),
        max_requests=draw(st.one_of(st.none(), st.integers(1, 5))),
        fewest_requests=draw(st.booleans()),
    )


@pytest.fixture(scope="module")
def mixed() -> BatchProblem:
    """Two prompts of 6 and 3 tokens and two requests in decode; 7 tokens fit."""
    return batch([(6, 2), (0, 3), (3, 1), (0, 1)], 7)


@pytest.mark.parametrize(
    ("prompt_token", "decode_token", "tokens"),
    [
        # Sarathi-Serve: both decode tokens, then 5 of the first prompt.
        (1, 2, ((5, 0, 0, 0), (0, 1, 0, 1))),
        # Orca: 6 and 1 of the prompts, nothing left for decode.
        (2, 1, ((6, 0, 1, 0), (0, 0, 0, 0))),
    ],
)
def test_policies_are_weights(
    mixed: BatchProblem, prompt_token: int, decode_token: int, tokens: object
) -> None:
    """By hand, with a budget of 7."""
    weight = phase_weights(mixed.prefill, prompt_token=prompt_token, decode_token=decode_token)
    result = solve(replace(mixed, weight=weight))
    assert result.solution == tokens
    assert result.is_optimal
    assert result.tokens == 7


def test_without_mixing_by_hand(mixed: BatchProblem) -> None:
    """A prompt batch has 7 tokens, a decode batch 2; decode must be worth 4 to win: 8 > 7."""
    alone = replace(mixed, mixing=False)
    assert solve(alone).tokens == 7
    weight = phase_weights(mixed.prefill, prompt_token=1, decode_token=4)
    assert solve(replace(alone, weight=weight)).solution == ((0, 0, 0, 0), (0, 1, 0, 1))


def test_fewest_requests_by_hand() -> None:
    """Prompts of 2, 5 and 4 with 6 tokens: 5 + 1 in two requests, whichever gives the last one."""
    problem = batch([(2, 1), (5, 1), (4, 1)], 6, fewest_requests=True)
    assert BatchProgram(problem).words.objective.endswith("the fewest requests")
    for method in ("greedy", "cp-sat", "brute-force"):
        result = solve(problem, method=method)
        assert result.is_optimal
        prefill, decode = result.required_solution()
        assert (sum(prefill), num_in_batch(prefill, decode)) == (6, 2)


def test_a_bonus_is_a_knapsack() -> None:
    """Budget 10, prompts 6, 5, 5 with bonuses 11, 8, 8: the shorter two, 16 > 11."""
    problem = batch([(6, 1), (5, 1), (5, 1)], 10, finish_bonus=[11, 8, 8])
    result = solve(problem)
    assert result.prefill == (0, 5, 5)
    assert result.objective == -26
    with pytest.raises(CapabilityError, match="filling by weight is not optimal"):
        solve(problem, method="greedy")


def check_all_methods(problem: BatchProblem) -> None:
    """Every method has the objective of the enumeration, and the bounds are below it."""
    best, found = brute_force(problem)
    assert violations(problem, *found, best) == {}
    assert least_objective(problem) <= best
    result = solve(problem)
    assert result.is_optimal
    assert result.objective == best
    if problem.is_greedy:
        assert solve(problem, method="greedy").objective == best


@given(problems())
def test_all_methods_find_the_best(problem: BatchProblem) -> None:
    """On small problems with every option."""
    check_all_methods(problem)


@given(problems(), st.sampled_from(["cp-sat", "highs", "pyomo"]))
def test_backends_agree(problem: BatchProblem, method: str) -> None:
    """Backends agree; HiGHS is proven optimal if the fractional filling bound is attained."""
    result = solve(problem, method=method)
    assert result.objective == brute_force(problem)[0]
    assert result.violations == {}


@given(problems())
def test_work_is_conserved_by_positive_weights(problem: BatchProblem) -> None:
    """Strict work conservation: min(b, eligible) tokens, section 8 no. 8."""
    free = replace(problem, weight=problem.weights + 1, mixing=True, max_requests=None)
    assert solve(free).tokens == min(problem.budget, int(problem.caps.sum()))


@given(problems(), st.data())
def test_the_gap_of_any_batch(problem: BatchProblem, data: st.DataObject) -> None:
    """The gap is nonnegative, and 0 for an optimal batch; an infeasible batch is refused."""
    best = solve(problem).required_solution()
    assert gap(problem, *best) == 0
    caps = [data.draw(st.integers(0, cap)) for cap in problem.caps.tolist()]
    pairs = list(zip(caps, problem.in_prefill.tolist(), strict=True))
    drawn = tuple(x if p else 0 for x, p in pairs), tuple(0 if p else x for x, p in pairs)
    if violations(problem, *drawn):
        with pytest.raises(InputError, match="batch"):
            gap(problem, *drawn)
    else:
        assert gap(problem, *drawn) == worth(problem, *best) - worth(problem, *drawn) >= 0


def test_a_file_of_the_optimum_is_judged_without_a_note() -> None:
    """By hand: 4 tokens in 1 request are worth -4 + 1/3, in units of 1/3."""
    problem = batch([(5, 1), (0, 3)], 4, fewest_requests=True)
    result = solve(problem, method="cp-sat")
    assert (result.objective, result.scale) == (-11, 3)
    assert "scaled by 3" in result.summary()
    file = "part(0) 1\npart(1) 0\nprefill(0) 4\ndecode(1) 0"
    judged = judge(BatchProgram(problem), parse_solution(file))
    assert (judged.result.objective, judged.file_objective) == (-11, Fraction(-11, 3))
    assert judged.notes == ()


@pytest.mark.parametrize(
    ("tokens", "violated"),
    [
        (((6, 0, 2, 0), (0, 0, 0, 0)), {"budget": 1}),
        (((3, 0, 0, 0), (1, 1, 0, 0)), {"phase[0]": 1}),
        (((0, 0, 4, 0), (0, 0, 0, 0)), {"prompt[2]": 1}),
        (((0, 0, 0, 0), (0, 2, 0, 0)), {"token[1]": 1}),
        (((0, 1, 0, 0), (0, 0, 0, 0)), {"prompt[1]": 1}),
        (((-1, 0, 0, 0), (0, 0, 0, 0)), {"negative[0]": 1}),
        (((1, 0), (0, 0)), {"length": 2}),
        (((0.5, 0, 0, 0), (0, 0.5, 0, 0)), {"whole[0]": 1, "whole[1]": 1}),
    ],
)
def test_each_rule_alone(mixed: BatchProblem, tokens: Any, violated: dict[str, int]) -> None:
    """(2.5a) to (2.5d), one at a time."""
    assert violations(mixed, *tokens) == violated


def test_the_options_are_checked(mixed: BatchProblem) -> None:
    """No mixing, few requests, and the objective."""
    tokens = ((2, 0, 1, 0), (0, 1, 0, 0))
    assert violations(replace(mixed, mixing=False), *tokens) == {"mixing": 1}
    assert violations(replace(mixed, max_requests=1), *tokens) == {"requests": 2}
    assert violations(mixed, *tokens, objective=-5) == {"objective": 1}
    counted = replace(mixed, fewest_requests=True)
    # Three requests, four tokens worth 5 each in the scaled objective.
    assert objective_of(counted, *tokens) == 3 - 5 * 4


@given(problems())
def test_documents(problem: BatchProblem) -> None:
    """A problem is read back as it was."""
    read = BatchProblem.from_mapping(problem.to_mapping())
    assert read.to_mapping() == problem.to_mapping()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"budget": 0}, "budget: 0 is out of range"),
        ({"requests": [{"prefill": 1, "decode": 0}]}, r"decode\[0\]: 0 is out of range"),
        ({"requests": [{"prefill": -1, "decode": 1}]}, r"requests\[0\].prefill: -1"),
        ({"requests": [{"prefill": 1}]}, r"requests\[0\].decode: missing"),
        (
            {"requests": [{"prefill": 0, "decode": 1, "finish_bonus": 1}]},
            r"finish_bonus\[0\]: request 0 has no prompt tokens left",
        ),
        ({"max_requests": 0}, "max_requests: 0 is out of range"),
        ({"mixing": 1}, "mixing: 1; write true or false"),
        (
            {"requests": [{"prefill": 10**12, "decode": 1, "weight": 10**9}], "budget": 10**12},
            "weight: the worth of a batch could reach",
        ),
    ],
)
def test_what_a_document_may_not_say(parts: dict[str, Any], message: str) -> None:
    """Each fault is reported in one line."""
    document = {"budget": 5, "requests": [{"prefill": 1, "decode": 1}]} | parts
    with pytest.raises(InputError, match=message):
        BatchProblem.from_mapping(document)


def test_weights_that_are_proxies_of_latency() -> None:
    """Aging weights prefer the longest waiting, SRPT weights the fewest remaining tokens."""
    assert aging_weights([0, 3, 1]).tolist() == [1, 4, 2]
    assert shortest_first_weights([5, 2]).tolist() == [1, 4]
    aged = batch([(4, 1), (4, 1)], 4, weight=aging_weights([1, 2]))
    assert solve(aged).prefill == (0, 4)


def test_an_engine_without_requests_idles() -> None:
    """Without requests no program is stated, and the empty batch is optimal."""
    result = BatchProgram.solve(batch([], 5))
    assert result.is_optimal
    assert result.solution == ((), ())
