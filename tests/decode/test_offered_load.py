"""Offered load: capacity by hand, arrival times scaled to it, and its effect in a run."""

from fractions import Fraction

import numpy as np
import pytest

from bfio.decode.cluster import Cluster
from bfio.decode.drift import LLM, Drift
from bfio.decode.metrics import measure
from bfio.decode.offered_load import capacity_tokens_per_s, mean_active_load
from bfio.decode.simulation import simulate
from bfio.workloads import Geometric, Poisson, Uniform, generate
from formulations.errors import InputError
from tests.decode.cases import first_come, workload

#: Loads 2, 3 and 6: mean 11/3 over three active steps.
PAIR = workload([2, 6], [2, 1], ["1", "10"])
#: A step of one worker and one slot takes 1 + 0.5·11/3 = 17/6 s.
ONE = Cluster(1, 1, step_overhead_s=1.0, token_time_s=0.5)


@pytest.mark.parametrize(
    ("cluster", "drift", "capacity"),
    [
        (ONE, LLM, 6 / 17),
        # No growth: loads 2, 2 and 6.
        (ONE, Drift((0,)), 1 / (1 + 0.5 * 10 / 3)),
        # After a first step of no growth: the same loads as without any.
        (ONE, Drift((0, 5)), 1 / (1 + 0.5 * 10 / 3)),
        # Memory for three requests of four slots; more of it changes nothing.
        (Cluster(1, 4, 1.0, 0.5, memory=11), LLM, 3 / (1 + 0.5 * 11)),
        (Cluster(1, 1, 1.0, 0.5, memory=6), LLM, 6 / 17),
        # One overhead of 1 s, speeds 1 and 2 (so 0.5 s there): (22/3 + 2 + 2)/(2 + 4) s.
        (Cluster(2, 1, 1.0, 0.5, speed=(1.0, 2.0)), LLM, 2 / ((22 / 3 + 4) / 6)),
        # The mean adds 0.1 s per token of 11/3.
        (Cluster(2, 1, 1.0, 0.5, mean_time_s=0.1), LLM, 2 / (17 / 6 + 11 / 30)),
        # A worker that starts late holds up the step, however little it has.
        (Cluster(2, 1, (1.0, 9.0), 0.5), LLM, 2 / 9),
    ],
)
def test_capacity_by_hand(cluster: Cluster, drift: Drift, capacity: float) -> None:
    """Slots over the time of a step in which all workers end together."""
    assert capacity_tokens_per_s(PAIR, cluster, drift) == pytest.approx(capacity)


def test_mean_load_counts_every_step() -> None:
    """A growing pattern of period two, step by step: 2, 2+1, 2+1+0, 2+1+0+1 and 5."""
    requests = workload([2, 5], [4, 1])
    assert mean_active_load(requests, Drift((1, 0))) == (2 + 3 + 3 + 4 + 5) / 5


def test_arrivals_are_scaled_to_the_load() -> None:
    """3 tokens in all: one of two gaps' worth in 9 s asks 1/6 token/s, 17/36 of capacity."""
    natural = simulate(PAIR, first_come, ONE, arrivals="timed")
    assert natural.arrival_s is not None
    assert natural.arrival_s.tolist() == [1, 10]
    run = simulate(PAIR, first_come, ONE, arrivals="timed", load="17/36")
    assert run.arrival_s == pytest.approx([1, 10], rel=1e-8)
    doubled = simulate(PAIR, first_come, ONE, arrivals="timed", load=Fraction(17, 18))
    assert doubled.arrival_s == pytest.approx([0.5, 5], rel=1e-8)


def test_below_capacity_nobody_waits_long_and_above_it_all_do() -> None:
    """At 0.7 throughput is what is asked for; at 1.2 it is capacity at most and a queue grows."""
    rng = np.random.default_rng(1)
    requests = generate(1500, Uniform(5, 15), Geometric(10), Poisson(1.0), rng=rng)
    cluster = Cluster(2, 8, step_overhead_s=1.0, token_time_s=0.05)
    capacity = capacity_tokens_per_s(requests, cluster, LLM)
    for load, most_waiting in ((0.7, 40), (1.2, 1500)):
        run = simulate(requests, "jsq-tokens", cluster, arrivals="timed", load=load)
        found = measure(run)
        served = found["tokens"] / found["total_time_s"]  # type: ignore[operator]
        assert served == pytest.approx(min(load, 0.93) * capacity, rel=0.06)
        assert served < capacity
        assert (found["max_waiting"] or 0) < most_waiting
        assert load < 1 or (found["max_waiting"] or 0) > 150


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"load": 0.5}, "load: changes nothing without arrivals=timed"),
        (
            {"load": 0.5, "arrivals": "timed", "rate_scale": 2},
            "cannot be combined with rate_scale",
        ),
        ({"load": 0, "arrivals": "timed"}, "load: 0 is out of range"),
        ({"load": "x", "arrivals": "timed"}, "load"),
    ],
)
def test_loads_that_are_refused(options: dict[str, object], message: str) -> None:
    """One line says why."""
    with pytest.raises(InputError, match=message):
        simulate(PAIR, first_come, ONE, **options)


def test_requests_that_come_at_once_have_no_rate() -> None:
    """Two requests at one time offer no load that could be scaled."""
    together = workload([1, 1], [1, 1], ["3", "3"])
    with pytest.raises(InputError, match="all requests arrive at the same time"):
        simulate(together, first_come, ONE, arrivals="timed", load=1)
