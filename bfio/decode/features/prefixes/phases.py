"""The prefix caches of the workers, and what requests that start find there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.common.compilable import compilable
from bfio.decode.cluster import Cluster
from bfio.decode.machine.arrays import sort_few
from bfio.decode.machine.counters import ADMITTED
from bfio.workloads.request_data import BLOCK_TOKENS, BlockHashes
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray

if TYPE_CHECKING:
    from bfio.decode.machine.state import Record, State


class PrefixCaches(NamedTuple):
    """The blocks of all prompts, and those that each worker keeps; empty where none are kept.

    Parameters
    ----------
    ids, first : IntArray
        Shapes (m,) and (n + 1,): as in `BlockHashes`, blocks numbered from 0.
    held : IntArray
        Shape (G,): how many blocks each worker keeps.
    capacity : IntArray
        Shape (G,): how many it may keep.
    newest, oldest : IntArray
        Shape (G,): places of the blocks used last and longest ago, -1 while there are none.
    block : IntArray
        Shape (G, C): the block at each place.
    newer, older, chained : IntArray
        Shape (G, C): the places used next after it and before it, and the one behind it in its
        bucket; -1 for none.
    heads : IntArray
        Shape (G, 2^k): first place of each bucket, -1 for none.
    """

    ids: IntArray
    first: IntArray
    held: IntArray
    capacity: IntArray
    newest: IntArray
    oldest: IntArray
    block: IntArray
    newer: IntArray
    older: IntArray
    chained: IntArray
    heads: IntArray


def new_caches(workload: Workload, cluster: Cluster) -> PrefixCaches:
    """Return the empty caches of a cluster, for the prompts of a workload."""
    hashes = workload.prompt_blocks
    if cluster.prefix_cache is None or hashes is None:
        hashes, capacity = BlockHashes.joined([]), np.zeros(cluster.workers, dtype=np.int64)
    else:
        capacity = cluster.worker_prefix_blocks()
    capacity = np.minimum(capacity, len(hashes.ids))
    G, most = cluster.workers, int(capacity.max(initial=0))
    newest, oldest = np.full((2, G), -1, dtype=np.int64)
    block, newer, older, chained = np.full((4, G, most), -1, dtype=np.int64)
    return PrefixCaches(
        ids=np.unique(hashes.ids, return_inverse=True)[1].astype(np.int64),
        first=hashes.first.copy(),
        held=np.zeros(G, dtype=np.int64),
        capacity=capacity,
        newest=newest,
        oldest=oldest,
        block=block,
        newer=newer,
        older=older,
        chained=chained,
        heads=np.full((G, 1 << most.bit_length()), -1, dtype=np.int64),
    )


@compilable
def use_prefix(caches: PrefixCaches, request: int, worker: int) -> int:
    """Let a request start on a worker, and return how many of its first blocks were there."""
    found = matched_blocks(caches, request, worker)
    first = caches.first[request]
    count = min(int(caches.first[request + 1] - first), int(caches.capacity[worker]))
    for depth in range(count - 1, -1, -1):
        use_block(caches, worker, caches.ids[first + depth])
    return found


@compilable
def matched_blocks(caches: PrefixCaches, request: int, worker: int) -> int:
    """Return how many of the first blocks of a prompt a worker has: its longest cached prefix."""
    first = caches.first[request]
    count = int(caches.first[request + 1] - first)
    for depth in range(count):
        if place_of(caches, worker, caches.ids[first + depth]) < 0:
            return depth
    return count


@compilable
def saved_tokens(num_blocks: int, prompt: int) -> int:
    """Return the tokens that so many first blocks of a prompt hold: the last may be shorter."""
    return min(num_blocks * BLOCK_TOKENS, prompt)


@compilable
def place_of(caches: PrefixCaches, worker: int, block: int) -> int:
    """Return the place of a block in the table of a worker, -1 if it has none."""
    place = int(caches.heads[worker, block & (caches.heads.shape[1] - 1)])
    while place >= 0 and caches.block[worker, place] != block:
        place = int(caches.chained[worker, place])
    return place


@compilable
def use_block(caches: PrefixCaches, worker: int, block: int) -> None:
    """Make a block the one used last, in the place of the one used longest ago if none is free."""
    place = place_of(caches, worker, block)
    if place >= 0:
        take_from_order(caches, worker, place)
    elif caches.held[worker] < caches.capacity[worker]:
        place = int(caches.held[worker])
        caches.held[worker] += 1
        put_in_bucket(caches, worker, place, block)
    else:
        place = int(caches.oldest[worker])
        take_from_order(caches, worker, place)
        take_from_bucket(caches, worker, place)
        put_in_bucket(caches, worker, place, block)
    newest = caches.newest[worker]
    caches.older[worker, place], caches.newer[worker, place] = newest, -1
    if newest >= 0:
        caches.newer[worker, newest] = place
    else:
        caches.oldest[worker] = place
    caches.newest[worker] = place


@compilable
def take_from_order(caches: PrefixCaches, worker: int, place: int) -> None:
    """Take a place out of the order of use."""
    newer, older = caches.newer[worker, place], caches.older[worker, place]
    if newer >= 0:
        caches.older[worker, newer] = older
    else:
        caches.newest[worker] = older
    if older >= 0:
        caches.newer[worker, older] = newer
    else:
        caches.oldest[worker] = newer


@compilable
def put_in_bucket(caches: PrefixCaches, worker: int, place: int, block: int) -> None:
    """Put a block at a place that is free."""
    bucket = block & (caches.heads.shape[1] - 1)
    caches.block[worker, place] = block
    caches.chained[worker, place] = caches.heads[worker, bucket]
    caches.heads[worker, bucket] = place


@compilable
def take_from_bucket(caches: PrefixCaches, worker: int, place: int) -> None:
    """Take the block at a place out of its bucket."""
    bucket = caches.block[worker, place] & (caches.heads.shape[1] - 1)
    behind = caches.chained[worker, place]
    before = int(caches.heads[worker, bucket])
    if before == place:
        caches.heads[worker, bucket] = behind
        return
    while caches.chained[worker, before] != place:
        before = int(caches.chained[worker, before])
    caches.chained[worker, before] = behind


@compilable(part_of="prefixes")
def lose_cache(caches: PrefixCaches, worker: int) -> None:
    """Let a worker that fails lose all its blocks."""
    caches.held[worker] = 0
    caches.newest[worker] = -1
    caches.oldest[worker] = -1
    caches.heads[worker, :] = -1


def matched_tokens(caches: PrefixCaches, requests: IntArray, prompts: IntArray) -> IntArray:
    """Return what each worker has cached of each prompt, shape (N, G) [tokens].

    What `matched_blocks` says of one request and worker, for all at once, block by block.

    Parameters
    ----------
    caches : PrefixCaches
        The caches.
    requests, prompts : IntArray
        Shape (N,): requests and their prompts [tokens].
    """
    G = len(caches.held)
    matched = np.zeros((len(requests), G), dtype=np.int64)
    counts = caches.first[requests + 1] - caches.first[requests]
    who, where = np.divmod(np.arange(len(requests) * G), G)
    depth = 0
    while len(who):
        more = counts[who] > depth
        who, where = who[more], where[more]
        blocks = caches.ids[caches.first[requests[who]] + depth]
        found = _places_of(caches, where, blocks) >= 0
        who, where = who[found], where[found]
        matched[who, where] += 1
        depth += 1
    return np.minimum(matched * BLOCK_TOKENS, prompts[:, None])


def _places_of(caches: PrefixCaches, workers: IntArray, blocks: IntArray) -> IntArray:
    """Return `place_of` of blocks on workers, both of shape (k,)."""
    places: IntArray = caches.heads[workers, blocks & (caches.heads.shape[1] - 1)]
    while True:
        wrong = np.flatnonzero((places >= 0) & (caches.block[workers, places] != blocks))
        if len(wrong) == 0:
            return places
        places[wrong] = caches.chained[workers[wrong], places[wrong]]


@compilable(part_of="prefixes")
def look_up_prefixes(state: State, record: Record, row: int) -> None:
    """Count what those that start find in the caches, in order of arrival, and keep theirs."""
    started, found = state.lists.started[: state.counters[ADMITTED]], 0
    sort_few(started)
    for request in started:
        blocks = use_prefix(state.prefixes, request, state.marks.worker[request])
        found += saved_tokens(blocks, state.requests.prompt[request])
    record.prefix_hit_tokens[row] = found
