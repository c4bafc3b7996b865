"""Arrival Models 1 and 2: ranges, seeds, conventions; arrivals at an offered load."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.kvcache.instance import BatchTime, CacheInstance, arrival_rate, least_busy_time
from bfio.kvcache.lower_bounds import ArrivalModel
from bfio.kvcache.simulation import serve
from formulations.errors import InputError
from formulations.hindsight_latency import Convention
from tests.kvcache.instances import instances


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


def _instance(requests: list[tuple[int, int]], time: BatchTime) -> CacheInstance:
    prompt, output = (np.array(column, dtype=np.int64) for column in zip(*requests, strict=True))
    return CacheInstance(10, np.zeros_like(prompt), prompt, output, batch_time=time)


def test_least_busy_time_by_hand() -> None:
    """C, M = 10: s = 2, o = 3 holds 3 + 4 + 5 = 12, s = 5, o = 1 holds 6; contexts 3 and 0.

    100·18/10 + 10·(3 + 1) + 1·3 + 7·(2 + 5) = 180 + 40 + 3 + 49 = 272.
    """
    data = _instance([(2, 3), (5, 1)], BatchTime(100, 10, 1, 7))
    assert least_busy_time(data) == 272
    # Two requests in 272 units offer a load of 1.
    assert arrival_rate(data, Fraction(1)) == Fraction(1, 136)
    assert arrival_rate(data, Fraction(3, 2)) == Fraction(3, 272)


def test_full_batches_attain_it() -> None:
    """Four requests of 5 tokens, o = 1, M = 10 (C: s = 4): two full batches and nothing else."""
    data = _instance([(4, 1)] * 4, BatchTime(100, 10, 1, 7))
    run = serve(data, "mc-sf")
    assert run.batches.memory.tolist() == [10, 10]
    assert int(run.batches.duration.sum()) == least_busy_time(data)


@given(instances(), st.sampled_from(["mc-sf", "mc-benchmark", "mc-sf:scan=continue"]))
def test_no_run_is_busy_for_less(data: CacheInstance, algorithm: str) -> None:
    """Beyond the base of its batches a run's time is the sum over its requests, exactly."""
    run = serve(data, algorithm)
    busy = int(run.batches.duration.sum())
    least = least_busy_time(data)
    assert busy >= least
    batches = Fraction(busy - least, data.batch_time.base) + Fraction(
        int(run.batches.memory.sum()), data.memory
    )
    assert batches == len(run.batches)


def test_huge_times_stay_exact() -> None:
    """Areas of 10^14 token-batches times hours in nanoseconds leave 64 bits, not the integers."""
    hour = 3_600 * 10**9
    one = np.array([1], dtype=np.int64)
    data = CacheInstance(
        10**9, one, one, one * (10**9 - 1), batch_time=BatchTime(hour, hour, hour)
    )
    d = 10**9 - 1
    area = 2 * d + d * (d - 1) // 2
    expected = Fraction(hour * area, 10**9) + hour * d + hour * (d * (d - 1) // 2)
    assert least_busy_time(data) == expected


def test_bad_loads_are_refused() -> None:
    """A load of 0 or of nothing has no rate."""
    data = _instance([(4, 1)], BatchTime())
    with pytest.raises(InputError, match="load"):
        arrival_rate(data, Fraction(0))
    none = np.zeros(0, dtype=np.int64)
    with pytest.raises(InputError, match="no requests"):
        arrival_rate(CacheInstance(10, none, none, none), Fraction(1))
