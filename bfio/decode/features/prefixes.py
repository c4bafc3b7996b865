"""Prefix caches: prompt blocks that each worker keeps, with least-recently-used eviction.

A worker has a table with one entry per block that fits its cache. Each entry is in two linked
lists: one per hash bucket, for look-ups, and one of all entries in order of last use. Finding,
using and evicting a block take constant time.

A starting request uses the blocks of its prompt, last block first. So the end of a prompt is
evicted before its beginning; later blocks are useless without the earlier ones.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.common.array_kernels import sort_few
from bfio.common.checking import number
from bfio.common.compilable import compilable
from bfio.common.metrics import NOTHING, Average, Column, MetricTable, Value, exact_sum
from bfio.decode.cluster import Cluster, per_worker_text
from bfio.decode.features.feature import Feature, RuleTable
from bfio.decode.machine.counters import ADMITTED, STEP
from bfio.workloads.request_data import BLOCK_TOKENS, BlockHashes
from formulations.arrays import FloatArray, IntArray, frozen
from formulations.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bfio.decode.machine.state import Record, State
    from bfio.decode.options import RunOptions
    from bfio.decode.policy_spec import PolicySpec
    from bfio.decode.replay import Replay
    from bfio.decode.run import Run, RunPart
    from bfio.workloads.workload import Workload


class PrefixCaches(NamedTuple):
    """The blocks of all prompts, and the blocks that each worker keeps; empty without caches."""

    #: Shapes (m,) and (n + 1,): as in `BlockHashes`, with blocks numbered from 0.
    ids: IntArray
    first: IntArray
    held: IntArray  #: Shape (G,): number of blocks in each cache.
    capacity: IntArray  #: Shape (G,): capacity of each cache in blocks.
    #: Shape (G,): table entries of the most and least recently used blocks; -1 for none.
    newest: IntArray
    oldest: IntArray
    block: IntArray  #: Shape (G, C): the block in each table entry.
    #: Shape (G, C): the entries used next after and next before each entry, and the next entry in
    #: the same bucket; -1 for none.
    newer: IntArray
    older: IntArray
    chained: IntArray
    heads: IntArray  #: Shape (G, 2^k): first entry of each bucket, -1 for none.


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
    """Use the blocks of a starting request; return how many leading blocks were cached."""
    found = matched_blocks(caches, request, worker)
    first = caches.first[request]
    count = min(int(caches.first[request + 1] - first), int(caches.capacity[worker]))
    for depth in range(count - 1, -1, -1):
        use_block(caches, worker, caches.ids[first + depth])
    return found


@compilable
def matched_blocks(caches: PrefixCaches, request: int, worker: int) -> int:
    """Return the number of leading blocks of a prompt in a worker's cache."""
    first = caches.first[request]
    count = int(caches.first[request + 1] - first)
    for depth in range(count):
        if place_of(caches, worker, caches.ids[first + depth]) < 0:
            return depth
    return count


@compilable
def place_of(caches: PrefixCaches, worker: int, block: int) -> int:
    """Return the entry of a block in a worker's table, or -1 if the block is not cached."""
    place = int(caches.heads[worker, block & (caches.heads.shape[1] - 1)])
    while place >= 0 and caches.block[worker, place] != block:
        place = int(caches.chained[worker, place])
    return place


@compilable
def use_block(caches: PrefixCaches, worker: int, block: int) -> None:
    """Mark a block as most recently used; evict the least recently used if the cache is full."""
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
    """Remove an entry from the list of last uses."""
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
    """Store a block at a free entry, and add the entry to the block's hash bucket."""
    bucket = block & (caches.heads.shape[1] - 1)
    caches.block[worker, place] = block
    caches.chained[worker, place] = caches.heads[worker, bucket]
    caches.heads[worker, bucket] = place


@compilable
def take_from_bucket(caches: PrefixCaches, worker: int, place: int) -> None:
    """Remove the block at an entry from its hash bucket."""
    bucket = caches.block[worker, place] & (caches.heads.shape[1] - 1)
    behind = caches.chained[worker, place]
    before = int(caches.heads[worker, bucket])
    if before == place:
        caches.heads[worker, bucket] = behind
        return
    while caches.chained[worker, before] != place:
        before = int(caches.chained[worker, before])
    caches.chained[worker, before] = behind


@compilable
def lose_cache(caches: PrefixCaches, worker: int) -> None:
    """Clear the cache of a worker that fails."""
    caches.held[worker] = 0
    caches.newest[worker] = -1
    caches.oldest[worker] = -1
    caches.heads[worker, :] = -1


def matched_tokens(caches: PrefixCaches, requests: IntArray, prompts: IntArray) -> IntArray:
    """Return the cached tokens of each prompt on each worker, shape (N, G) [tokens].

    This is `matched_blocks` for all requests and workers at once, computed block by block.
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
    """Return `place_of` for pairs of a block and a worker, both of shape (k,)."""
    places: IntArray = caches.heads[workers, blocks & (caches.heads.shape[1] - 1)]
    while True:
        wrong = np.flatnonzero((places >= 0) & (caches.block[workers, places] != blocks))
        if len(wrong) == 0:
            return places
        places[wrong] = caches.chained[workers[wrong], places[wrong]]


@compilable
def look_up_prefixes(state: State, record: Record, row: int) -> None:
    """Count cached tokens of starting requests, in order of arrival; cache their blocks."""
    started, found = state.lists.started[: state.counters[ADMITTED]], 0
    sort_few(started)
    for request in started:
        blocks = use_prefix(state.prefixes, request, state.marks.worker[request])
        # The last block of a prompt may be short.
        found += min(blocks * BLOCK_TOKENS, state.requests.prompt[request])
    record.prefix_hit_tokens[row] = found


class Prefixes:
    """The prefixes of the waiting requests of a step, computed on demand; empty by default.

    ``keys`` caches `routing_keys` of all requests by number of blocks.
    """

    def __init__(
        self,
        state: State,
        workload: Workload,
        requests: IntArray | None = None,
        keys: dict[int, IntArray] | None = None,
    ) -> None:
        self._state, self._workload, self._step = state, workload, int(state.counters[STEP])
        self._requests = np.zeros(0, dtype=np.int64) if requests is None else requests
        self._keys: dict[int, IntArray] = {} if keys is None else keys

    def of(self, requests: IntArray) -> Prefixes:
        """Return the prefixes of requests that wait at the current step."""
        return Prefixes(self._state, self._workload, requests, self._keys)

    @cached_property
    def cached_tokens(self) -> IntArray:
        """Cached tokens of each prompt on each worker, shape (N, G) [tokens]."""
        state, requests = self._state, self._requests
        if state.counters[STEP] != self._step:
            # The caches have changed since.
            what = "is read after the step for which it is valid"
            raise InputError("cached_tokens", what, "read it while the policy decides")
        if not state.settings.caches:
            return frozen(np.zeros((len(requests), len(state.workers.load)), np.int64))
        return frozen(matched_tokens(state.prefixes, requests, state.requests.prompt[requests]))

    def keys(self, num_blocks: int) -> IntArray:
        """Return the routing keys of the prompts by their first blocks, shape (N,)."""
        if num_blocks not in self._keys:
            self._keys[num_blocks] = routing_keys(self._workload, num_blocks)
        return frozen(self._keys[num_blocks][self._requests])


def routing_keys(workload: Workload, num_blocks: int) -> IntArray:
    """Return the routing keys of prompts, shape (n,).

    The key is the hash of the last of the first ``num_blocks`` blocks, which identifies all of
    them. If a prompt has no block hashes, the key is the prompt key; if it has neither, the key is
    unique.
    """
    blocks, keys = workload.prompt_blocks, -1 - np.arange(len(workload))
    if blocks is None:
        return keys if workload.prompt_keys is None else workload.prompt_keys.copy()
    counts = np.diff(blocks.first)
    told = np.flatnonzero(counts)
    last = blocks.first[:-1] + np.minimum(counts, num_blocks) - 1
    keys[told] = blocks.ids[last[told]]
    return keys


METRICS: MetricTable[RunPart] = MetricTable()


def _started_again_tokens(part: RunPart) -> FloatArray:
    """Return the prompt tokens of requests that start or restart at each step, shape (K,)."""
    stints = part.stints
    which = stints.was_waiting
    prompts = part.run.prompt_tokens[stints.request[which]]
    totals = np.bincount(stints.start[which], weights=prompts, minlength=part.run.steps)
    return totals.astype(np.float64)


@METRICS.metric(
    "prefix_hit_tokens",
    "tokens",
    "prompt tokens whose prefill is saved: found in the prefix cache of the worker they start on",
)
def _prefix_hit_tokens(part: RunPart) -> Value:
    hits = part.run.prefix_hit_tokens
    return None if hits is None else exact_sum(hits[part.steps])


@METRICS.average(
    "prefix_hit_rate",
    "1",
    "prefix hit tokens over the prompt tokens of the requests that start",
    Column("prefix\nhits", is_share=True, by_default=False),
)
def _prefix_hit_rate(part: RunPart) -> Average:
    hits = part.run.prefix_hit_tokens
    if hits is None:
        return NOTHING
    prompts = _started_again_tokens(part)[part.steps]
    return Average(hits[part.steps], prompts) if prompts.any() else NOTHING


#: Largest total number of blocks of all workers (about 1 GiB).
MAX_PREFIX_BLOCKS = 2**24

RULES = RuleTable()


@RULES.rule("prefixes")
def _prefixes(replay: Replay) -> int:
    """Check the prefix cache hits against the times and workers at which requests started."""
    hits = replay.run.prefix_hit_tokens
    if hits is None:
        return int(replay.cluster.prefix_cache is not None)
    expected = np.zeros(replay.run.steps, dtype=np.int64)
    kept = replay.cluster.worker_prefix_blocks().tolist()
    caches: list[OrderedDict[int, None]] = [OrderedDict() for _ in kept]
    losses = deque((step, worker) for step, worker, is_up in replay.outages if not is_up)
    stints = replay.stints
    waited = np.flatnonzero(stints.was_waiting)
    order = waited[np.lexsort((stints.request[waited], stints.start[waited]))]
    columns = (column[order].tolist() for column in stints[:3])
    for request, worker, step in zip(*columns, strict=True):
        while losses and losses[0][0] <= step:
            caches[losses.popleft()[1]].clear()
        expected[step] += _found_and_kept(replay.workload, request, caches[worker], kept[worker])
    return number(hits != expected)


def _found_and_kept(
    workload: Workload, request: int, cache: OrderedDict[int, None], most: int
) -> int:
    """Return the number of cached tokens of a prompt, and put the prompt into the cache."""
    blocks = workload.prompt_blocks
    own = [] if blocks is None else blocks[request].tolist()
    found = next((k for k, block in enumerate(own) if block not in cache), len(own))
    for block in reversed(own[:most]):
        cache[block] = None
        cache.move_to_end(block)
        if len(cache) > most:
            cache.popitem(last=False)
    return min(found * BLOCK_TOKENS, int(workload.prompt_tokens[request]))


def _setting(cluster: Cluster, options: RunOptions) -> str:
    if cluster.prefix_cache is None:
        return ""
    return f"prefix cache {per_worker_text(cluster.prefix_cache)} tokens"


def _check(
    workload: Workload, cluster: Cluster, options: RunOptions, look_ahead: int, pauses: bool
) -> None:
    """Raise InputError for prefix caches that hold no block or exceed this computer's memory."""
    if cluster.prefix_cache is None or len(workload) == 0:
        return
    blocks = workload.prompt_blocks
    if blocks is None:
        what = f"the requests of {workload.name} have no block hashes"
        remedy = "use a trace with hash_ids or block_hashes, or no prefix cache"
        raise InputError("prefix_cache", what, remedy)
    kept = cluster.worker_prefix_blocks()
    if kept.min() == 0:
        raise InputError("prefix_cache", "holds no block of 512 tokens", "give 512 tokens or more")
    if int(np.minimum(kept, len(blocks.ids)).max()) * cluster.workers > MAX_PREFIX_BLOCKS:
        what = f"more than {MAX_PREFIX_BLOCKS} blocks on {cluster.workers} workers"
        raise InputError("prefix_cache", what, "give a smaller cache, or fewer workers")


def _idle(
    policies: Sequence[PolicySpec], cluster: Cluster, options: RunOptions, tells_prompts: bool
) -> Iterator[str]:
    """Yield the fallback rule of each policy that uses prefixes, if requests have none."""
    for policy in policies:
        if said := policy.unled(tells_prompts, cluster.prefix_cache is not None):
            yield f"{policy.name} {said}"


def _malformed(run: Run, cluster: Cluster) -> int:
    hits = run.prefix_hit_tokens
    return int(hits is not None and hits.shape != (run.steps,))


FEATURE = Feature(
    "prefix cache",
    setting=_setting,
    after="speed",
    check=_check,
    idle=_idle,
    record=lambda state: {} if state.settings.caches else {"prefix_hit_tokens": None},
    malformed=_malformed,
    rules=RULES,
    metrics=METRICS,
    rank=2,
)
