"""Prefix caches around a run: its words, and the rules of its record."""

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence

import numpy as np

from bfio.decode.cluster import Cluster, per_worker_text
from bfio.decode.features.feature import Feature
from bfio.decode.features.prefixes.metrics import METRICS
from bfio.decode.machine.state import State
from bfio.decode.options import RunOptions
from bfio.decode.policy_registry import built_in
from bfio.decode.replay_record import Replay
from bfio.decode.replay_table import RuleTable, number
from bfio.decode.run import Run
from bfio.workloads.request_data import BLOCK_TOKENS
from bfio.workloads.workload import Workload
from formulations.errors import InputError

#: Most blocks that all workers may keep together (about 1 GiB).
MAX_PREFIX_BLOCKS = 2**24

#: Rules of the record.
RULES = RuleTable()


@RULES.rule("prefixes")
def _prefixes(replay: Replay) -> int:
    """Check what was found in prefix caches, from when and where requests started alone."""
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
    for request, worker, step in zip(
        *(column[order].tolist() for column in stints[:3]), strict=True
    ):
        while losses and losses[0][0] <= step:
            caches[losses.popleft()[1]].clear()
        expected[step] += _found_and_kept(replay.workload, request, caches[worker], kept[worker])
    return number(hits != expected)


def _found_and_kept(
    workload: Workload, request: int, cache: OrderedDict[int, None], most: int
) -> int:
    """Return the tokens of a prompt that a cache has, and let it keep the prompt."""
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
    """Refuse prefix caches that could keep nothing, or more than there is room for here."""
    if cluster.prefix_cache is None or len(workload) == 0:
        return
    blocks = workload.prompt_blocks
    if blocks is None:
        raise InputError(
            "prefix_cache",
            f"the requests of {workload.name} carry no hashes of their blocks",
            "use a trace with them (hash_ids, block_hashes), or keep no prefixes",
        )
    kept = cluster.worker_prefix_blocks()
    if kept.min() == 0:
        raise InputError("prefix_cache", "holds no block of 512 tokens", "give 512 or more")
    if int(np.minimum(kept, len(blocks.ids)).max()) * cluster.workers > MAX_PREFIX_BLOCKS:
        what = f"more than {MAX_PREFIX_BLOCKS} blocks on {cluster.workers} workers"
        raise InputError("prefix_cache", what, "keep fewer, or simulate fewer workers")


def _idle(
    names: Sequence[str], cluster: Cluster, options: RunOptions, tells_prompts: bool
) -> Iterator[str]:
    """Yield what policies do that go by prefixes where nothing tells of any."""
    known = built_in()
    for name in dict.fromkeys(names):
        if name in known and (
            said := known[name].unled(tells_prompts, cluster.prefix_cache is not None)
        ):
            yield f"{name} {said}"


def _record(state: State) -> dict[str, object]:
    return {} if state.settings.caches else {"prefix_hit_tokens": None}


def _malformed(run: Run, cluster: Cluster) -> int:
    hits = run.prefix_hit_tokens
    return int(hits is not None and hits.shape != (run.steps,))


FEATURE = Feature(
    "prefix cache",
    {"prefixes": lambda cluster, _: cluster.prefix_cache is not None},
    setting=_setting,
    after="speed",
    check=_check,
    idle=_idle,
    record=_record,
    malformed=_malformed,
    rules=RULES,
    metrics=METRICS,
    rank=2,
)
