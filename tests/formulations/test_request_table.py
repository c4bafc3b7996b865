"""Requests as documents write them, for both hindsight problems; what values are called."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations import InputError
from formulations.hindsight_latency import LatencyProblem
from formulations.hindsight_makespan import MakespanProblem
from formulations.problem_data import json_word, shown
from formulations.request_table import read_requests, written_requests
from formulations.scalars import exact_number, exact_rational

READERS = (
    lambda requests: LatencyProblem.from_mapping({"memory": 10**9, "requests": requests}),
    lambda requests: MakespanProblem.from_mapping(
        {"workers": 1, "slots": 1, "requests": requests}
    ),
)
VALUES = {"arrival": st.integers(0, 10**9), "prompt": st.integers(1, 10**9)}


def read_latency(requests: object) -> LatencyProblem:
    """Read a document with these requests."""
    return LatencyProblem.from_mapping({"memory": 10**9, "requests": requests})


def read_makespan(requests: object) -> MakespanProblem:
    """Read a document with these requests."""
    return MakespanProblem.from_mapping({"workers": 1, "slots": 1, "requests": requests})


READERS = (read_latency, read_makespan)


@given(st.lists(st.fixed_dictionaries(VALUES | {"output": st.integers(1, 10**9)})))
def test_what_is_written_is_read(rows: list[dict[str, int]]) -> None:
    """Reading and writing are inverse, up to the largest values and without any request."""
    columns = read_requests(rows)
    assert all(column.dtype == np.int64 for column in columns.values())
    table: Any = type("Table", (), columns)
    assert written_requests(table) == rows


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"output": 0}, "requests[1].output: 0 is out of range; use 1 <= value <= 1000000000"),
        ({"prompt": -1}, "requests[1].prompt: -1 is out of range"),
        ({"arrival": 10**9 + 1}, "requests[1].arrival: 1000000001 is out of range"),
        ({"output": None}, "requests[1].output: expected an integer, found null"),
        ({"output": True}, "requests[1].output: expected an integer, found true"),
        ({"output": 3.0}, "requests[1].output: expected an integer, found 3.0"),
        ({"output": {"tokens": 3}}, "requests[1].output: expected an integer, found an object"),
        ({"age": 1}, "requests[1].age: unknown"),
    ],
)
def test_the_request_is_named_as_it_was_written(
    read: Any, change: dict[str, object], message: str
) -> None:
    """By its place in the document, never by a column that only we know."""
    fine = {"arrival": 0, "prompt": 1, "output": 1}
    with pytest.raises(InputError) as caught:
        read([fine, fine | change])
    assert message in str(caught.value)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    ("requests", "message"),
    [
        (None, "requests: null; write a list"),
        ({}, "requests: an object; write a list"),
        ([3], "requests[0]: a number; write an object with"),
        (["x"], "requests[0]: text; write an object with"),
        ([{"prompt": 1, "arrival": 0}], "requests[0].output: missing; add it"),
    ],
)
def test_what_is_no_table_is_called_by_its_json_name(
    read: Any, requests: object, message: str
) -> None:
    """No name of a Python type."""
    with pytest.raises(InputError) as caught:
        read(requests)
    assert message in str(caught.value)


def test_only_the_makespan_may_leave_arrivals_out() -> None:
    """There they count as 0; the latency is counted from them."""
    assert read_makespan([{"prompt": 1, "output": 1}]).arrival.tolist() == [0]
    with pytest.raises(InputError, match="arrival: missing"):
        read_latency([{"prompt": 1, "output": 1}])


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (0, "a number"),
        (0.5, "a number"),
        ("0", "text"),
        ([], "a list"),
        ((), "a list"),
        ({}, "an object"),
        ({1}, "a set"),
    ],
)
def test_words(value: object, word: str) -> None:
    """Those of JSON; what JSON does not have keeps its own."""
    assert json_word(value) == word


def test_values_are_shown_short() -> None:
    """Numbers and text as they are, cut after 40 characters; parts not at all."""
    values: tuple[object, ...] = (None, True, 3, "3", {})
    assert [shown(value) for value in values] == [
        "null",
        "true",
        "3",
        "'3'",
        "an object",
    ]
    assert len(shown("x" * 1000)) == 40


def test_rationals_beyond_their_range() -> None:
    """Both ends, and what is not a number at all."""
    assert exact_rational(10**12, "alpha") == 10**12
    outside: tuple[object, ...] = (-1, "-1/2", 10**12 + 1)
    for value in outside:
        with pytest.raises(InputError, match="is out of range; use a number >= 0"):
            exact_rational(value, "alpha")
    with pytest.raises(InputError, match="alpha: null is not an exact rational"):
        exact_rational(None, "alpha")


def test_numbers_of_numpy_are_read_as_pythons() -> None:
    """Powers of an integer leave 64 bits; a float is its shortest decimal, as in JSON."""
    memory: Any = np.int64(9)
    one = np.ones(1, dtype=np.int64)
    assert MakespanProblem(1, 1, one, one, one, memory=memory).memory == [9]
    assert exact_rational(np.int64(10**12), "alpha") ** 2 == 10**24
    assert exact_number(np.float64(0.1), "alpha") == Fraction(1, 10)
