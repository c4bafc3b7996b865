"""Real time: batch durations, workloads in seconds, the trace cut with the published memory."""

import time
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from bfio.kvcache.instance import PUBLISHED, UNIT_ROUNDS, BatchTime, CacheInstance, rounds_problem
from bfio.kvcache.replay import violations
from bfio.kvcache.simulation import compile_kernel, serve
from bfio.workloads.arrivals import Poisson
from bfio.workloads.trace_file import read_trace
from bfio.workloads.workload import Workload
from formulations import hindsight_latency
from formulations.arrays import IntArray
from formulations.errors import InputError
from formulations.hindsight_latency import Convention

#: Tokens of the published experiments.
_MEMORY = 16_492


def workload(times: list[str], prompts: list[int], outputs: list[int]) -> Workload:
    """Return a workload from decimal times."""
    arrivals = tuple(Fraction(text) for text in times)
    return Workload(np.array(prompts), np.array(outputs), arrivals)


def test_batches_by_hand() -> None:
    """Two requests, s = 100 and o = 2, at 0 and 0.05 s, published coefficients.

    First batch: 44.6 + 0.52 + 0.378·100 = 82.92 ms. Then the second starts beside it: 44.6 +
    2·0.52 + 0.0027·1 + 37.8 = 83.4427 ms. Then it is alone with one token behind it:
    44.6 + 0.52 + 0.0027 = 45.1227 ms.
    """
    data = CacheInstance.in_seconds(workload(["0", "0.05"], [100, 100], [2, 2]), 1000)
    run = serve(data, "mc-sf")
    assert run.batches.duration.tolist() == [82_920_000, 83_442_700, 45_122_700]
    assert run.completion.tolist() == [166_362_700, 211_485_400]
    assert run.batches.memory.tolist() == [101, 102 + 101, 102]
    summary = run.summary()
    assert summary["unit"] == "s"
    assert summary["latency_mean"] == pytest.approx((0.1663627 + 0.1614854) / 2, rel=1e-12)
    assert summary["makespan"] == pytest.approx(0.2114854, rel=1e-12)
    assert violations(run) == {}


def test_the_worker_sleeps_until_the_next_arrival() -> None:
    """A request at 10 s starts at 10 s."""
    data = CacheInstance.in_seconds(workload(["10"], [1], [1]), 10)
    assert serve(data, "mc-sf").start.tolist() == [10 * 10**9]


@pytest.mark.parametrize(
    ("convention", "end"),
    [(Convention.CLOSED, 100), (Convention.PRINTED, 100), (Convention.HALF_OPEN, 100)],
)
def test_completion_in_every_convention(convention: Convention, end: int) -> None:
    """Ten batches of 10 units: completed at 100, though convention A holds on for an eleventh."""
    ten = np.array([10], dtype=np.int64)
    data = CacheInstance(99, ten * 0, ten, ten, convention, BatchTime(10))
    run = serve(data, "mc-sf")
    assert run.completion.tolist() == [end]
    assert len(run.batches) == (11 if convention is Convention.CLOSED else 10)


def test_arrival_rates_scale_and_round_up() -> None:
    """Twice the rate halves the times; 1/3 ns counts as 1."""
    times = workload(["0.000000001", "4"], [1, 1], [1, 1])
    data = CacheInstance.in_seconds(times, 9, rate_scale=3)
    assert data.arrival.tolist() == [1, 1_333_333_334]


def test_oversized_requests_are_refused_or_left_out() -> None:
    """Peaks 8, 11 and 12 with M = 10: two of three do not fit; B allows one token more."""
    data = workload(["0", "0", "0"], [3, 6, 7], [5, 5, 5])
    message = r"requests\[1\]: 2 of 3 requests exceed the memory of 10 .*leave_out_oversized=True"
    with pytest.raises(InputError, match=message):
        CacheInstance.in_seconds(data, 10)
    kept = CacheInstance.in_seconds(data, 10, leave_out_oversized=True)
    assert (len(kept), kept.left_out) == (1, 2)
    assert serve(kept, "mc-sf").summary()["left_out"] == 2
    printed, left_out = rounds_problem(
        data, 10, convention=Convention.PRINTED, leave_out_oversized=True
    )
    assert (printed.num_requests, left_out) == (2, 1)


def test_rounds_from_seconds() -> None:
    """Rounds of 0.1 s: 0.25 s is within round 3; without a length all are there at 0."""
    data = workload(["0", "0.25"], [1, 1], [1, 1])
    assert rounds_problem(data, 9, round_s=Fraction(1, 10))[0].arrival.tolist() == [0, 3]
    assert rounds_problem(data, 9)[0].arrival.tolist() == [0, 0]


def test_bad_times_are_refused() -> None:
    """Each names what is wrong."""
    data = workload(["0"], [1], [1])
    with pytest.raises(InputError, match="batch_time: the clock counts rounds, not seconds"):
        CacheInstance.in_seconds(data, 9, batch_time=UNIT_ROUNDS)
    with pytest.raises(InputError, match="rate_scale"):
        CacheInstance.in_seconds(data, 9, rate_scale=0)
    with pytest.raises(InputError, match="no arrival times"):
        CacheInstance.in_seconds(Workload(data.prompt_tokens, data.output_tokens), 9)
    with pytest.raises(InputError, match="round_s"):
        rounds_problem(data, 9, round_s=Fraction(0))
    with pytest.raises(InputError, match="base: 0 is out of range"):
        BatchTime(0)
    two = np.ones(2, dtype=np.int64)
    with pytest.raises(InputError, match="different lengths"):
        CacheInstance(9, two, two, two[:1])


def test_published_coefficients() -> None:
    """The formula in milliseconds: mean context 10 of 4 requests, one of them new with 50."""
    milliseconds = (0.0027 * 10 + 0.52) * 4 + 44.6 + 0.378 * 50
    assert PUBLISHED.duration(4, 40, 50) / 1e6 == pytest.approx(milliseconds, rel=1e-12)
    assert UNIT_ROUNDS.duration(4, 40, 50) == 1


def test_poisson_arrivals_under_every_policy() -> None:
    """A stretch of 300 random requests: all policies finish and the checker finds nothing."""
    rng = np.random.default_rng(5)
    prompts: IntArray = rng.integers(1, 300, 300)
    requests = Workload(prompts, rng.integers(1, 200, 300), Poisson(5.0).sample(300, rng))
    data = CacheInstance.in_seconds(requests, 2000)
    for name in ("mc-sf", "mc-benchmark", "alpha-greedy:alpha=0.4", "beta-clearing"):
        run = serve(data, name)
        assert run.is_finished
        assert violations(run) == {}
        assert run.summary()["mean_memory"] <= run.peak_memory <= 2000


def test_ten_thousand_requests_of_the_trace(shared_data: Path) -> None:
    """MC-SF on the Azure conversation cut, M = 16492: within 5 s, memory checked at every step."""
    trace = read_trace(shared_data / "azure_conv_2023.csv.gz", limit=10_000)
    in_seconds = CacheInstance.in_seconds(trace, _MEMORY)
    compile_kernel()
    begin = time.process_time()
    run = serve(in_seconds, "mc-sf")
    assert violations(run) == {}
    assert time.process_time() - begin < 5
    assert run.is_finished
    assert run.peak_memory <= _MEMORY
    in_rounds, left_out = rounds_problem(trace, _MEMORY, round_s=Fraction(1, 20))
    assert left_out == 0
    starts = serve(in_rounds, "mc-sf").start.tolist()
    assert hindsight_latency.violations(in_rounds, starts) == {}
