"""Arrival Models 1 and 2: ranges, seeds, conventions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.kvcache.lower_bounds import ArrivalModel
from formulations.errors import InputError
from formulations.hindsight_latency import Convention


@st.composite
def _ranges(draw: st.DrawFn, lowest: int, highest: int) -> tuple[int, int]:
    first = draw(st.integers(lowest, highest))
    return first, draw(st.integers(first, highest))


@given(
    st.integers(1, 2),
    _ranges(1, 12),
    _ranges(6, 60),
    _ranges(1, 5),
    st.booleans(),
    st.sampled_from(list(Convention)),
    st.integers(0, 2**32),
)
def test_what_is_drawn_lies_in_the_ranges(
    number: int,
    count: tuple[int, int],
    memory: tuple[int, int],
    prompt: tuple[int, int],
    common: bool,
    convention: Convention,
    seed: int,
) -> None:
    """For both models; every request fits alone, which the problem checks itself."""
    model = ArrivalModel(number, count, memory, prompt, common_prompt=common)
    data = model.draw(np.random.default_rng(seed), convention)
    assert memory[0] <= data.memory <= memory[1]
    assert data.convention is convention
    if number == 1:
        assert count[0] <= data.num_requests <= count[1]
        assert data.arrival.max(initial=0) == 0
    else:
        assert data.arrival.max(initial=0) < count[1]
        assert (np.diff(data.arrival) >= 0).all()
    if data.num_requests:
        assert prompt[0] <= data.prompt.min()
        assert data.prompt.max() <= prompt[1]
        assert (data.prompt + data.output <= data.memory).all()
        assert not common or len(set(data.prompt.tolist())) == 1


def test_the_draw_does_not_depend_on_the_convention() -> None:
    """So that conventions are compared on the same requests."""
    drawn = [
        ArrivalModel(2).draw(np.random.default_rng(3), convention) for convention in Convention
    ]
    documents = [data.to_mapping() | {"convention": "-"} for data in drawn]
    assert documents[0] == documents[1] == documents[2]


def test_equal_seeds_draw_equal_instances() -> None:
    """And other seeds others."""
    first, again, other = (
        ArrivalModel().draw(np.random.default_rng(seed)).to_mapping() for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_ends_of_all_ranges_occur() -> None:
    """Over 2,000 draws: n, M, s and o take both ends, so no range is off by one."""
    rng = np.random.default_rng(0)
    model = ArrivalModel(1, (2, 4), (6, 8), (1, 3))
    drawn = [model.draw(rng) for _ in range(2000)]
    assert {data.num_requests for data in drawn} == {2, 3, 4}
    assert {data.memory for data in drawn} == {6, 7, 8}
    assert {s for data in drawn for s in data.prompt.tolist()} == {1, 2, 3}
    room = {int(left) for data in drawn for left in data.memory - data.prompt - data.output}
    assert min(room) == 0
    assert min(o for data in drawn for o in data.output.tolist()) == 1


def test_arrivals_of_model_2_have_the_rate() -> None:
    """Mean 1 per round over 40..60 rounds: 50 requests on average, here within 3."""
    rng = np.random.default_rng(0)
    sizes = [ArrivalModel(2).draw(rng).num_requests for _ in range(1000)]
    assert np.mean(sizes) == pytest.approx(50, abs=3)


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"number": 3}, "arrival_model"),
        ({"count": (5, 4)}, "count"),
        ({"count": (0, 4)}, "count"),
        ({"memory": (5, 9), "prompt": (1, 5)}, "prompt"),
        ({"rate": (0.0, 1.0)}, "rate"),
        ({"rate": (2.0, 1.0)}, "rate"),
        ({"rate": (1.0, float("nan"))}, "rate"),
    ],
)
def test_bad_ranges_are_refused(values: dict[str, tuple[int, int]], name: str) -> None:
    """By name."""
    with pytest.raises(InputError, match=name):
        ArrivalModel(**values)  # type: ignore[arg-type]
