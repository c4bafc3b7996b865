"""Simulate instances on which JSQ and round-robin are bad: BF-IO, appendix A.1.1."""

import math
from typing import Any

import pytest

from bfio.decode.cluster import Cluster
from bfio.decode.simulation import simulate
from bfio.workloads import jsq_bad, round_robin_bad

#: Only the load makes a step long, so that ratios of step times are ratios of peak loads.
MACHINE: dict[str, Any] = {"step_overhead_s": 0.0, "token_time_s": 1.0}


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_round_robin_sends_every_heavy_request_to_one_worker(workers: int) -> None:
    """H heavies on one worker against ⌈H/G⌉ on each: the peak ratio is at least 0.9·H/⌈H/G⌉."""
    heavies = 2 * workers
    workload = round_robin_bad(workers, heavies)
    cluster = Cluster(workers=workers, slots=heavies, **MACHINE)
    peaks = {
        policy: simulate(workload, policy, cluster, pool=len(workload)).max_load.max()
        for policy in ("round-robin", "bf-io")
    }
    ratio = peaks["round-robin"] / peaks["bf-io"]
    assert ratio >= 0.9 * heavies / math.ceil(heavies / workers)


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_jsq_sends_every_heavy_request_to_one_worker(workers: int) -> None:
    """Bursts of one heavy and G − 1 short requests: JSQ sends all heavy ones to worker 0."""
    workload = jsq_bad(workers, workers)
    cluster = Cluster(workers=workers, slots=2 * workers)
    peaks = {
        policy: simulate(workload, policy, cluster, arrivals="timed").max_load.max()
        for policy in ("jsq", "jsq-tokens", "br-0", "bf-io", "random", "round-robin")
    }
    assert peaks["jsq"] / min(peaks.values()) >= 0.9 * workers, peaks
