"""The known bad instances of JSQ and round-robin do what BF-IO, appendix A.1.1 says."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.cluster import Cluster
from bfio.workloads import Lengths, Workload, jsq_bad, round_robin_bad
from formulations.errors import InputError

HEAVY = Lengths(1_000_000, 1_000)


def _run_shortest_queue(workload: Workload, cluster: Cluster) -> list[int]:
    """Run join-shortest-queue (ties to the lowest worker); loads once all have arrived."""
    assert workload.arrival_times is not None
    waiting = list(
        zip(
            [float(time) for time in workload.arrival_times],
            workload.prompt_tokens.tolist(),
            workload.output_tokens.tolist(),
            strict=True,
        )
    )
    running: list[list[tuple[int, int]]] = [[] for _ in range(cluster.workers)]
    clock = 0.0
    while True:
        while waiting and waiting[0][0] <= clock:
            _, prompt, output = waiting.pop(0)
            target = min(range(cluster.workers), key=lambda g: (len(running[g]), g))
            running[target].append((prompt, output))
            assert len(running[target]) <= cluster.total_slots / cluster.workers
        loads = [sum(load for load, _ in worker) for worker in running]
        if not waiting:
            return loads
        clock += cluster.step_time(np.array(loads))
        running = [[(s + 1, o - 1) for s, o in worker if o > 1] for worker in running]


@pytest.mark.parametrize(("workers", "heavies"), [(2, 1), (2, 4), (4, 8), (16, 16)])
def test_shortest_queue_piles_up(workers: int, heavies: int) -> None:
    """After the last round worker 0 holds every heavy request; an even spread is G times lower."""
    workload = jsq_bad(workers, heavies, heavy=HEAVY)
    cluster = Cluster(workers=workers, slots=heavies)
    loads = _run_shortest_queue(workload, cluster)
    assert loads[0] >= heavies * HEAVY.prompt_tokens
    assert max(loads[1:]) <= 2 * heavies
    # ceil(k/G) heavy requests, grown by at most their output, and all short ones.
    even = -(-heavies // workers) * (HEAVY.prompt_tokens + HEAVY.output_tokens) + len(workload)
    ratio = cluster.step_time(np.array(loads)) / cluster.step_time(np.full(workers, even))
    assert ratio >= 0.9 * heavies / -(-heavies // workers)


def test_rounds_by_hand() -> None:
    """G = 3, two rounds: a heavy one at 0 s; two short ones and a heavy one at 4 s."""
    workload = jsq_bad(3, 2, heavy=Lengths(100, 50), short=Lengths(2, 1))
    assert workload.prompt_tokens.tolist() == [100, 2, 2, 100]
    assert workload.output_tokens.tolist() == [50, 1, 1, 50]
    assert workload.arrival_times == tuple(Fraction(t) for t in (0, 4, 4, 4))


@given(st.integers(2, 9), st.integers(1, 20), st.integers(2, 1000))
def test_round_robin_puts_all_heavy_requests_together(
    workers: int, heavies: int, prompt: int
) -> None:
    """Request i goes to worker i mod G: worker 0 gets H heavy ones, no other worker any."""
    workload = round_robin_bad(workers, heavies, heavy=Lengths(prompt, 10), short=Lengths(1, 10))
    loads = [int(workload.prompt_tokens[g::workers].sum()) for g in range(workers)]
    assert loads == [heavies * prompt] + [heavies] * (workers - 1)
    assert workload.arrival_times == (Fraction(0),) * (workers * heavies)


@given(st.integers(2, 50), st.integers(1, 200))
def test_printed_ratio_is_an_upper_bound(workers: int, heavies: int) -> None:
    """H / ceil(H/G) <= G, where the paper prints >=; equality iff G divides H."""
    ratio = Fraction(heavies, -(-heavies // workers))
    assert ratio <= workers
    assert (ratio == workers) == (heavies % workers == 0)


def test_bad_arguments() -> None:
    """One worker cannot be balanced, and times and lengths are positive."""
    with pytest.raises(InputError, match="workers"):
        round_robin_bad(1, 3)
    with pytest.raises(InputError, match="heavies"):
        jsq_bad(2, 0)
    with pytest.raises(InputError, match="spacing_s"):
        jsq_bad(2, 2, spacing_s=Fraction(0))
    with pytest.raises(InputError, match="output_tokens"):
        Lengths(1, 0)
