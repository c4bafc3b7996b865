"""Step data: each rule has its error, documents round-trip, and extreme values stay exact."""

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.testing.instances import step_problem, step_problems
from formulations import InputError
from formulations.step import Objective, StepProblem
from formulations.step.problem import DISCOUNT_SCALE, discount_weights, geometric_weights

VALID = {"capacity": [1, 0], "base": [[5, 6], [7, 8]], "contribution": [[3, 4], [2, 2]]}


@given(step_problems())
def test_documents_round_trip(problem: StepProblem) -> None:
    """Writing and reading back gives the same data, weights included."""
    text = json.dumps(problem.to_mapping())
    assert StepProblem.from_json(text).to_mapping() == problem.to_mapping()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"capacity": [1]}, r"capacity: 1 entry where 2 are expected; give one per worker"),
        ({"capacity": [1, -1]}, r"capacity\[1\]: -1 is out of range; use 0 <= value"),
        ({"capacity": [1, 1.0]}, r"capacity\[1\]: expected an integer, found 1\.0"),
        ({"capacity": [True, 1]}, r"capacity\[0\]: expected an integer, found true"),
        ({"capacity": [1, "2"]}, r"capacity\[1\]: expected an integer, found '2'"),
        ({"capacity": None}, r"capacity: expected a list, found null"),
        ({"capacity": "12"}, r"capacity: expected a list, found '12'"),
        ({"base": []}, r"base: no worker or no look-ahead step"),
        ({"base": [[], []]}, r"base: no worker or no look-ahead step"),
        ({"base": [[5, 6], [7]]}, r"base\[1\]: 1 entry where 2 are expected"),
        ({"base": [[5, 6], 7]}, r"base\[1\]: expected a list, found 7"),
        ({"base": [[5, 10**13], [7, 8]]}, r"base\[0\]\[1\]: 1\d+ is out of range"),
        ({"contribution": [[3]]}, r"contribution\[0\]: 1 entry where 2 are expected"),
        ({"contribution": [3, 4]}, r"contribution\[0\]: expected a list"),
        ({"contribution": {"0": 1}}, r"contribution: expected a list of lists, found an object"),
        ({"objective": "fastest"}, r"objective: 'fastest' is unknown; use one of imbalance"),
        ({"objective": 3}, r"objective: 3 is unknown"),
        ({"discount": ["1"]}, r"discount: 1 weights for 2 steps"),
        ({"discount": []}, r"discount: not a non-empty list"),
        ({"discount": ["1", "-1/2"]}, r"discount\[1\]: -1/2 is out of range"),
        ({"discount": ["1", 0.5]}, r"discount\[1\]: 0.5 is not an exact rational"),
        ({"discount": ["1", "1/0"]}, r"discount\[1\]: '1/0' is not a rational number"),
        ({"discount": ["1", "1e9999999"]}, r"discount\[1\]: '1e9999999' is not a plain rational"),
        ({"discount": ["1", "nan"]}, r"discount\[1\]: 'nan' is not a rational number"),
        ({"token_capacity": [5]}, r"token_capacity: 1 entry where 2 are expected"),
        ({"token_time": [1, 0]}, r"token_time\[1\]: 0 is out of range; use 1 <= value"),
        ({"required": [True]}, r"required: 1 entry where 2 are expected; give one per request"),
        ({"required": [1, 0]}, r"required: is not a list of true or false"),
        ({"weights": [1]}, r"document.weights: unknown; use capacity, base"),
    ],
)
def test_each_rule_has_its_message(change: dict[str, object], message: str) -> None:
    """The error states place, fault and remedy."""
    with pytest.raises(InputError, match=message):
        StepProblem.from_mapping(VALID | change)


@pytest.mark.parametrize("key", ["capacity", "base", "contribution"])
def test_a_missing_key_is_named(key: str) -> None:
    """Each of the three required keys."""
    with pytest.raises(InputError, match=f"document.{key}: missing; add it"):
        StepProblem.from_mapping({k: v for k, v in VALID.items() if k != key})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"capacity": [1], "capacity": [2]}', "capacity: the key occurs twice"),
        ('{"capacity": [NaN]}', "NaN is not a finite number"),
        ('{"capacity": [-Infinity]}', "-Infinity is not a finite number"),
        ('{"capacity": [1e999]}', "1e999 is not a finite number"),
        ('{"capacity": [1', "line 1 column 16: not valid JSON"),
        ("", "line 1 column 1: not valid JSON"),
        ("[1, 2]", "document: a list; write an object with capacity"),
        ("[" * 200_000, "document: not readable as JSON"),
        ("9" * 5000, "document: not readable as JSON"),
    ],
)
def test_broken_documents_are_one_error(text: str, message: str) -> None:
    """A broken document raises only `InputError`."""
    with pytest.raises(InputError, match=message):
        StepProblem.from_json(text)


@given(st.text() | st.from_regex(r'[\[\]{}",:0-9a-z ]*'))
def test_any_text_is_a_problem_or_an_error(text: str) -> None:
    """Arbitrary text never escapes as another exception."""
    with pytest.raises(InputError):
        StepProblem.from_json(text)


def test_arrays_are_checked_like_lists() -> None:
    """Float arrays, wrong dimensions and negative entries are refused; data are read-only."""
    base = np.array([[5], [7]])
    with pytest.raises(InputError, match="base: array of float64; give an integer array"):
        StepProblem(np.array([1, 0]), base.astype(float), np.array([[3]]))
    with pytest.raises(InputError, match=r"base: array of shape \(2,\)"):
        StepProblem(np.array([1, 0]), base[:, 0], np.array([[3]]))
    with pytest.raises(InputError, match=r"contribution\[0\]\[0\]: -3 is out of range"):
        StepProblem(np.array([1, 0]), base, np.array([[-3]]))
    problem = StepProblem(np.array([1, 0]), base, np.array([[3]]))
    base[0, 0] = 99
    assert problem.base[0, 0] == 5
    with pytest.raises(ValueError, match="read-only"):
        problem.base[0, 0] = 1


def test_numbers_of_numpy_are_written_as_numbers() -> None:
    """A number to admit that is computed in numpy neither fails nor changes the document."""
    problem = step_problem([1, 1], [[5], [7]], [[3], [1]], admit=1)
    one: Any = np.int64(1)
    assert replace(problem, admit=one, scale=one).digest() == problem.digest()


def test_capacity_is_clipped_to_the_number_waiting() -> None:
    """10^9 free slots for two requests are two."""
    problem = step_problem([10**9, 0], [[5], [7]], [[3], [1]])
    assert problem.capacity.tolist() == [2, 0]
    assert problem.num_admitted == 2


def test_values_that_could_leave_64_bits_are_refused() -> None:
    """10^12 tokens each on 5,000 steps of weight 1000."""
    with pytest.raises(InputError, match="base, contribution: the objective could reach"):
        step_problem([1], [[10**12] * 5000], [[10**12] * 5000], discount=[1000] * 5000)


def test_huge_loads_are_exact() -> None:
    """10^12 + 1 on one worker against 10^12: imbalance 1, not 0."""
    problem = step_problem([0, 1], [[10**12], [10**12 - 1]], [[2]])
    assert problem.objective_value([1]) == 1


def test_discounts_become_integers() -> None:
    """Integers keep scale 1; otherwise round(d·10^6)."""
    assert discount_weights([1, "2"]) == ((1, 2), 1)
    assert discount_weights(["1", "1/3"]) == ((10**6, 333_333), DISCOUNT_SCALE)
    assert discount_weights(None) == ((), 1)
    weights, scale = geometric_weights(Fraction("0.86"), 3)
    assert (weights, scale) == ((10**6, 860_000, 739_600), DISCOUNT_SCALE)


def test_objectives_by_hand() -> None:
    """Times 2·10 and 1·16 at one step: imbalance 4, peak 20, gap 4."""
    values = {
        objective: step_problem(
            [1, 0], [[4], [16]], [[6]], objective=objective, token_time=[2, 1]
        ).objective_value([0])
        for objective in Objective
    }
    assert values == {Objective.IMBALANCE: 4, Objective.MAX_LOAD: 20, Objective.GAP: 4}
