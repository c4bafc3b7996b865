"""The predictors and their registry."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.predict import registry
from bfio.workloads.workload import Workload
from formulations.errors import InputError

LOAD = Workload(np.array([5, 6, 7]), np.array([1, 4, 100]))


def test_none_says_beyond_the_window() -> None:
    """Without information every request outlives H: H + 1."""
    predictor = registry.build("none", LOAD)
    assert predictor.remaining(np.array([0, 2]), np.array([0, 3]), 8).tolist() == [9, 9]


def test_oracle_counts_down_and_stops_at_the_window() -> None:
    """Output 4 after 1 token leaves 3; output 100 is beyond H = 8, told as 9."""
    predictor = registry.build("oracle", LOAD)
    found = predictor.remaining(np.array([0, 1, 2]), np.array([0, 1, 3]), 8)
    assert found.tolist() == [1, 3, 9]


@given(data=st.data(), horizon=st.integers(1, 120))
def test_oracle_is_right_at_every_age(data: st.DataObject, horizon: int) -> None:
    """It is min(o - a, H + 1), always within 1..H+1 for an unfinished request."""
    outputs = data.draw(st.lists(st.integers(1, 200), min_size=1, max_size=9))
    ages = [data.draw(st.integers(0, o - 1)) for o in outputs]
    load = Workload(np.ones(len(outputs), dtype=np.int64), np.array(outputs))
    found = registry.build("oracle", load).remaining(
        np.arange(len(outputs)), np.array(ages), horizon
    )
    expected = [min(o - a, horizon + 1) for o, a in zip(outputs, ages, strict=True)]
    assert found.tolist() == expected
    assert all(1 <= y <= horizon + 1 for y in expected)


@pytest.mark.parametrize("name", registry.names())
def test_names_are_those_of_the_registry(name: str) -> None:
    """A predictor carries its name, is told of finished requests and predicts as before."""
    predictor = registry.build(name, LOAD)
    assert predictor.name == name
    requests, ages = np.array([1, 2]), np.array([0, 2])
    before = predictor.remaining(requests, ages, 5).tolist()
    predictor.finished(np.array([0]))
    assert predictor.remaining(requests, ages, 5).tolist() == before


def test_unknown_names_list_the_known_ones() -> None:
    """The error names the close match and all predictors."""
    with pytest.raises(InputError, match=r"did you mean oracle.*none, oracle"):
        registry.build("oracl", LOAD)
    with pytest.raises(InputError, match="'xyz' is unknown; use one of none, oracle"):
        registry.build("xyz", LOAD)
