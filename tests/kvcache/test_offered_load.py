"""Offered load: by hand, and as a bound on every run without clearing."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.kvcache.instance import BatchTime, CacheInstance, arrival_rate, least_busy_time
from bfio.kvcache.simulation import serve
from formulations.errors import InputError
from tests.kvcache.instances import instances


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
