"""Token budgets outside the steps of a run: settings, metrics, and the rules of the replay.

The rules are written independently; they use neither the engine nor a batching policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.common.metrics import NOTHING, Average, Column, Domain, MetricTable, Value, exact_sum
from bfio.common.number_text import exact
from bfio.decode.cluster import Cluster, per_worker_text
from bfio.decode.features.feature import Feature, RuleTable

if TYPE_CHECKING:
    from bfio.decode.options import RunOptions
    from bfio.decode.replay import Replay
    from bfio.decode.run import Run
    from bfio.decode.run_part import RunPart
    from bfio.decode.stints import Stints
    from formulations.arrays import FloatArray, IntArray

#: First step and end of each rest, by stint.
RestsOfStints = list[list[tuple[int, int]]]


#: Rules of the replay for batches.
RULES = RuleTable()


class Chunks(NamedTuple):
    """The chunks of a run, sorted by request, then by time; each array of shape (m,)."""

    #: Request, step, and number of prompt tokens computed.
    request: IntArray
    step: IntArray
    tokens: IntArray
    before: IntArray  #: Prompt tokens computed before this chunk.


def malformed_chunks(run: Run, cluster: Cluster) -> int:
    """Count chunks with which no replay is possible; 1 if they exist without token budgets."""
    if (run.chunks is None) != (cluster.token_budget is None):
        return 1
    if run.chunks is None:
        return 0
    if run.chunks.ndim != 2 or run.chunks.shape[1:] != (3,) or run.rests is None:
        return 1
    step, request, tokens = run.chunks.T
    wrong = (step < 0) | (step >= run.steps) | (tokens < 1)
    wrong |= (request < 0) | (request >= run.num_requests)
    # A request with a chunk has a worker.
    wrong[~wrong] |= run.worker[request[~wrong]] < 0
    return int(np.count_nonzero(wrong))


def chunks_of(run: Run) -> Chunks:
    """Return the chunks of a run with token budgets."""
    assert run.chunks is not None
    step, request, tokens = run.chunks[np.lexsort((run.chunks[:, 0], run.chunks[:, 1]))].T
    totals = np.cumsum(tokens) - tokens
    # Tokens computed of all requests that precede this one in the sorted order.
    others = totals[np.searchsorted(request, request)] if len(totals) else totals
    return Chunks(request, step, tokens, totals - others)


def on_workers(run: Run, cluster: Cluster, chunks: Chunks, values: IntArray) -> IntArray:
    """Return the sum of a value of the chunks by step and worker, shape (K, G)."""
    cells = np.zeros((run.steps, cluster.workers), dtype=np.int64)
    np.add.at(cells, (chunks.step, run.worker[chunks.request]), values)
    return cells


def batch_faults(
    run: Run, cluster: Cluster, stints: Stints, rests: RestsOfStints, running: IntArray
) -> int:
    """Count violations of (2.5a) to (2.5d) and inconsistencies, over chunks, cells and requests.

    Each request has one stint; ``running``, shape (K, G), are the requests that emit a token.
    """
    chunks = chunks_of(run)
    tokens = on_workers(run, cluster, chunks, chunks.tokens) + running
    over = np.count_nonzero(tokens > cluster.worker_budgets())
    awake = _awake_chunks(chunks, stints, rests)
    return int(over) + awake + _repeated(chunks) + _wrong_prompts(run, chunks, stints, rests)


def _awake_chunks(chunks: Chunks, stints: Stints, rests: RestsOfStints) -> int:
    """Count chunks of requests that emit a token in the same step, or have no slot (2.5a)."""
    resting = {
        (request, step)
        for request, own in zip(stints.request.tolist(), rests, strict=True)
        for first, end in own
        for step in range(first, end)
    }
    pairs = zip(chunks.request.tolist(), chunks.step.tolist(), strict=True)
    return sum(pair not in resting for pair in pairs)


def _repeated(chunks: Chunks) -> int:
    """Count chunks of requests that have another chunk in the same step."""
    same = (np.diff(chunks.request) == 0) & (np.diff(chunks.step) == 0)
    return int(np.count_nonzero(same))


def _wrong_prompts(run: Run, chunks: Chunks, stints: Stints, rests: RestsOfStints) -> int:
    """Count requests that compute more than their prompt (2.5b), or emit before it is computed."""
    computed, last = np.zeros((2, run.num_requests), dtype=np.int64)
    np.add.at(computed, chunks.request, chunks.tokens)
    np.maximum.at(last, chunks.request, chunks.step)
    wrong = computed > run.prompt_tokens
    for who, start, end, own in zip(
        *(column.tolist() for column in (stints.request, stints.start, stints.end)),
        rests,
        strict=True,
    ):
        first_token = next((stop for begin, stop in own if begin == start), start)
        if first_token < end:
            is_done = computed[who] >= run.prompt_tokens[who] and last[who] < first_token
            wrong[who] |= not is_done
    return int(np.count_nonzero(wrong))


@RULES.rule("batches")
def _batches(replay: Replay) -> int:
    """Check that batches keep (2.5a) to (2.5d), and that prompts are computed once and before."""
    if not replay.batches:
        return 0
    rests, running = replay.rests_of_stints, replay.trajectory[1]
    return batch_faults(replay.run, replay.cluster, replay.stints, rests, running)


METRICS: MetricTable[RunPart] = MetricTable()


def _computed(part: RunPart) -> IntArray | None:
    """Return prompt tokens computed at each step of the run, shape (K,); None without budgets."""
    run = part.run
    if run.chunks is None:
        return None
    tokens = np.zeros(run.steps, dtype=np.int64)
    np.add.at(tokens, run.chunks[:, 0], run.chunks[:, 2])
    return tokens


def _prefill_times(part: RunPart) -> FloatArray:
    """Return the time from first step to computed prompt of each completed request [s]."""
    run, ids = part.run, part.completed
    if run.chunks is None:
        return np.zeros(0)
    return run.end_s()[run.decode_step()[ids] - 1] - run.start_s[run.start_step[ids]]


@METRICS.metric(
    "prefill_tokens", "tokens", "prompt tokens computed on the workers that decode, in chunks"
)
def _prefill_tokens(part: RunPart) -> Value:
    tokens = _computed(part)
    return None if tokens is None else exact_sum(tokens[part.steps])


@METRICS.average(
    "prefill_mean_s",
    "s",
    "mean time from the first step of a request until its prompt is computed",
    Column("prefill\nmean [s]", by_default=False),
)
def _prefill_mean(part: RunPart) -> Average:
    return Average(_prefill_times(part))


@METRICS.average(
    "budget_share",
    "1",
    "share of the token budgets that is used",
    Column("budget", is_share=True, by_default=False),
    Domain.SHARE,
)
def _budget_share(part: RunPart) -> Average:
    tokens = _computed(part)
    if tokens is None:
        return NOTHING
    used = (tokens + part.run.active)[part.steps]
    return Average(used, np.full(len(used), float(part.run.cluster.worker_budgets().sum())))


def _setting(cluster: Cluster, options: RunOptions) -> str:
    if cluster.token_budget is None:
        return ""
    time = f", {exact(cluster.batch_token_time_s)} s a token" if cluster.batch_token_time_s else ""
    free = f" beyond {cluster.free_tokens}" if time and cluster.free_tokens else ""
    return f"token budget {per_worker_text(cluster.token_budget)} ({options.batching}{time}{free})"


def _worker_s(replay: Replay) -> FloatArray | float:
    return replay.cluster.batch_times(replay.tokens) if replay.batches else 0.0


FEATURE = Feature(
    "token budget",
    setting=_setting,
    after="speed",
    malformed=malformed_chunks,
    rules=RULES,
    worker_s=_worker_s,
    metrics=METRICS,
    rank=12,
)
