"""Prefix caches: by hand, against a naive implementation, and invalid input."""

from collections import OrderedDict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.decode.cluster import Cluster
from bfio.decode.features.prefixes import (
    PrefixCaches,
    lose_cache,
    matched_blocks,
    matched_tokens,
    new_caches,
    use_prefix,
)
from bfio.decode.metrics import measure
from bfio.decode.replay import run_violations
from bfio.decode.run import Run
from bfio.decode.simulation import simulate
from bfio.workloads.workload import Workload
from formulations.errors import InputError
from tests.decode.machine.equality import both_engines, differences


def requests(prompts: list[int], outputs: list[int], hashes: list[list[int]]) -> Workload:
    """Return requests of these prompts."""
    return Workload(prompts, outputs, block_hashes=hashes)  # type: ignore[arg-type]


def run(workload: Workload, cluster: Cluster, policy: str = "round-robin", **options: Any) -> Run:
    """Simulate on both engines, which agree, and let the replay check it."""
    compiled, reference = both_engines(workload, policy, cluster, **options)
    assert compiled is not None
    assert differences(compiled, reference) == []
    assert run_violations(reference, workload, cluster) == {}
    return reference


def hits(workload: Workload, cluster: Cluster, **options: Any) -> list[int]:
    """Return the tokens found at each step."""
    found = run(workload, cluster, **options).prefix_hit_tokens
    assert found is not None
    listed: list[int] = found.tolist()
    return listed


def test_the_longest_cached_prefix_counts() -> None:
    """One worker, one slot: A B C, then A B D (two blocks), A, and E B C, which begins anew.

    The last block of the fourth prompt holds 76 tokens only; nothing of it is found.
    """
    load = requests([1536, 1536, 512, 1100], [1] * 4, [[1, 2, 3], [1, 2, 4], [1], [5, 2, 3]])
    assert hits(load, Cluster(1, 1, prefix_cache=10**6)) == [0, 1024, 512, 0]
    found = measure(run(load, Cluster(1, 1, prefix_cache=10**6)))
    assert found["prefix_hit_tokens"] == 1536
    assert found["prefix_hit_rate"] == 1536 / 4684


def test_a_last_block_that_is_short_saves_what_it_holds() -> None:
    """600 tokens in two blocks, both found by the second request."""
    load = requests([600, 600], [1, 1], [[1, 2], [1, 2]])
    assert hits(load, Cluster(1, 1, prefix_cache=1024)) == [0, 600]


def test_what_was_used_longest_ago_is_dropped() -> None:
    """Room for two blocks: 1, 2, then 1 again, so that 3 drops 2; 1 is found, 2 is not."""
    load = requests([9] * 6, [1] * 6, [[1], [2], [1], [3], [1], [2]])
    assert hits(load, Cluster(1, 1, prefix_cache=1024 + 511)) == [0, 0, 9, 0, 9, 0]


def test_of_a_prompt_the_end_is_dropped_first() -> None:
    """Room for three blocks: A B C, then X drops C, so that A B is left of the first prompt."""
    load = requests([1536, 5, 1536], [1] * 3, [[1, 2, 3], [9], [1, 2, 3]])
    assert hits(load, Cluster(1, 1, prefix_cache=1536)) == [0, 0, 1024]


def test_a_prompt_longer_than_the_cache_keeps_its_beginning() -> None:
    """Two of its three blocks."""
    load = requests([1536, 1536], [1, 1], [[1, 2, 3]] * 2)
    assert hits(load, Cluster(1, 1, prefix_cache=1024)) == [0, 1024]


def test_each_worker_has_its_own() -> None:
    """Requests 0 and 2 on worker 0, 1 and 3 on worker 1; only 2 finds what was there before."""
    load = requests([512, 512, 512, 512], [1] * 4, [[1], [2], [1], [1]])
    assert hits(load, Cluster(2, 1, prefix_cache=512)) == [0, 512]
    different = Cluster(2, 1, prefix_cache=(512, 9000))
    assert hits(load, different) == [0, 512]


def test_those_that_start_together_are_looked_up_in_order_of_arrival() -> None:
    """Request 1 finds what request 0 brought, whichever a policy serves first."""
    load = requests([9, 512, 9], [1, 1, 1], [[1], [1], []])
    for policy in ("fcfs", "max-min", "min-min"):
        assert hits(load, Cluster(1, 3, prefix_cache=512), policy=policy) == [512]


def test_a_worker_that_fails_loses_its_blocks() -> None:
    """Steps of 1 s: request 1 would find 512 tokens at 2 s, had the worker not failed."""
    load = requests([512] * 3, [2, 1, 1], [[1]] * 3)
    cluster = Cluster(1, 1, step_overhead_s=1.0, token_time_s=0.0, prefix_cache=512)
    assert hits(load, cluster) == [0, 0, 512, 512]
    outage = ((2.0, 0, "fail"), (2.5, 0, "recover"))
    assert hits(load, cluster, failures=outage) == [0, 0, 0, 512]


def test_who_is_computed_anew_looks_again() -> None:
    """Growth drives request 1 out before step 2; when it starts again its prompt is there."""
    load = requests([4, 4], [4, 4], [[1], [2]])
    cluster = Cluster(1, 2, memory=10, prefix_cache=1024)
    found = run(load, cluster, "fcfs")
    assert found.interruptions.tolist() == [[1, 0, 0, 2, 0]]
    assert found.prefix_hit_tokens is not None
    assert found.prefix_hit_tokens.tolist() == [0, 0, 0, 0, 4, 0]
    assert measure(found)["prefix_hit_rate"] == 4 / 12


def test_nothing_is_kept_by_default() -> None:
    """The run is the same but for the hits, and metrics are None."""
    load = requests([600, 9, 600], [3, 2, 1], [[1, 2], [3], [1, 2]])
    cluster = Cluster(2, 1)
    without, kept = run(load, cluster), run(load, replace(cluster, prefix_cache=4096))
    assert without.prefix_hit_tokens is None
    assert set(differences(without, kept)) == {"cluster", "prefix_hit_tokens"}
    found = measure(without)
    assert found["prefix_hit_tokens"] is None
    assert found["prefix_hit_rate"] is None


def test_hits_that_were_not_are_caught() -> None:
    """One more, none at all, and of another number of steps."""
    load, cluster = requests([9, 9], [1, 1], [[1], [1]]), Cluster(1, 1, prefix_cache=512)
    found = run(load, cluster)
    assert found.prefix_hit_tokens is not None
    more = replace(found, prefix_hit_tokens=found.prefix_hit_tokens + np.array([0, 1]))
    assert run_violations(more, load, cluster) == {"prefixes": 1}
    assert run_violations(replace(found, prefix_hit_tokens=None), load, cluster) == {"prefixes": 1}
    short = replace(found, prefix_hit_tokens=found.prefix_hit_tokens[:1])
    assert run_violations(short, load, cluster) == {"shape": 1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prefix_cache": 0}, "prefix_cache: 0 is out of range"),
        ({"prefix_cache": (512, 512, 512)}, "prefix_cache: 3 entries for 2 workers"),
        ({"prefix_cache": "lots"}, "prefix_cache: 'lots' is not a number"),
        ({"prefix_cache": 511}, "prefix_cache: holds no block of 512 tokens"),
    ],
)
def test_caches_that_cannot_be(changes: dict[str, Any], message: str) -> None:
    """One line."""
    load = requests([9], [1], [[1]])
    with pytest.raises(InputError, match=message):
        simulate(load, "fcfs", Cluster(2, 1, **changes))


def test_requests_that_tell_no_prefix_are_refused() -> None:
    """Where prefixes are to be kept."""
    with pytest.raises(InputError, match="have no block hashes"):
        simulate(Workload([9], [1]), "fcfs", Cluster(1, 1, prefix_cache=512))  # type: ignore[arg-type]


CACHES = st.integers(1, 7)
#: Blocks of prompts; some occur twice, as a damaged trace may have it.
PROMPTS = st.lists(st.lists(st.integers(0, 9), max_size=8), min_size=1, max_size=30)


@given(capacity=CACHES, prompts=PROMPTS, lost=st.integers(0, 29))
def test_tables_are_those_of_ordered_dictionaries(
    capacity: int, prompts: list[list[int]], lost: int
) -> None:
    """What is found, and what is kept in which order, after each prompt and a failure."""
    lengths = np.array([max(1, 512 * len(blocks)) for blocks in prompts])
    load = Workload(lengths, np.ones_like(lengths), block_hashes=prompts)
    caches = new_caches(load, Cluster(1, 1, prefix_cache=512 * capacity))
    _, numbers = np.unique(np.concatenate(prompts), return_inverse=True)
    naive: OrderedDict[int, None] = OrderedDict()
    for request, blocks in enumerate(np.split(numbers, caches.first[1:-1])):
        if request == lost:
            lose_cache(caches, 0)
            naive.clear()
        expected = 0
        while expected < len(blocks) and int(blocks[expected]) in naive:
            expected += 1
        everyone = range(len(prompts))
        shown = matched_tokens(caches, np.arange(len(prompts)), lengths)[:, 0]
        assert shown.tolist() == [
            min(512 * matched_blocks(caches, other, 0), lengths[other]) for other in everyone
        ]
        assert use_prefix(caches, request, 0) == expected
        for block in blocks[:capacity][::-1].tolist():
            naive.pop(block, None)
            naive[block] = None
            if len(naive) > capacity:
                naive.popitem(last=False)
        assert _in_order(caches) == list(naive)


def _in_order(caches: PrefixCaches) -> list[int]:
    """Return the blocks of worker 0, the one used longest ago first."""
    found, place = [], int(caches.oldest[0])
    while place >= 0:
        found.append(int(caches.block[0, place]))
        place = int(caches.newer[0, place])
    assert len(found) == caches.held[0]
    return found
