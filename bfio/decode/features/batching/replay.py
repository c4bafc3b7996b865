"""What workers with token budgets must have done, from the record of chunks and rests alone.

Written for itself, for the replay of a run: nothing here uses the engine, or a policy of batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.decode.cluster import Cluster
from bfio.decode.replay_table import RuleTable
from bfio.decode.run import Run
from bfio.decode.stints import Stints
from formulations.arrays import IntArray

if TYPE_CHECKING:
    from bfio.decode.replay_record import Replay

#: First step and end of each rest of each stint.
RestsOfStints = list[list[tuple[int, int]]]


#: What batches must keep.
RULES = RuleTable()


class Chunks(NamedTuple):
    """The chunks of a run, those of a request in order of time, each of shape (m,).

    Parameters
    ----------
    request, step, tokens : IntArray
        Whose, when, and how many tokens of its prompt were computed.
    before : IntArray
        How many had been computed before [tokens].
    """

    request: IntArray
    step: IntArray
    tokens: IntArray
    before: IntArray


def malformed_chunks(run: Run, cluster: Cluster) -> int:
    """Count chunks that no replay could follow; 1 if there are some and should be none."""
    if (run.chunks is None) != (cluster.token_budget is None):
        return 1
    if run.chunks is None:
        return 0
    if run.chunks.ndim != 2 or run.chunks.shape[1:] != (3,) or run.rests is None:
        return 1
    step, request, tokens = run.chunks.T
    wrong = (step < 0) | (step >= run.steps) | (tokens < 1)
    wrong |= (request < 0) | (request >= run.num_requests)
    # Whoever has a chunk has a worker.
    wrong[~wrong] |= run.worker[request[~wrong]] < 0
    return int(np.count_nonzero(wrong))


def chunks_of(run: Run) -> Chunks:
    """Return the chunks of a run with token budgets."""
    assert run.chunks is not None
    step, request, tokens = run.chunks[np.lexsort((run.chunks[:, 0], run.chunks[:, 1]))].T
    totals = np.cumsum(tokens) - tokens
    # What was computed of all requests before this one begins.
    others = totals[np.searchsorted(request, request)] if len(totals) else totals
    return Chunks(request, step, tokens, totals - others)


def on_workers(run: Run, cluster: Cluster, chunks: Chunks, values: IntArray) -> IntArray:
    """Return the sums of a value of each chunk by step and worker, shape (K, G)."""
    cells = np.zeros((run.steps, cluster.workers), dtype=np.int64)
    np.add.at(cells, (chunks.step, run.worker[chunks.request]), values)
    return cells


def batch_faults(
    run: Run, cluster: Cluster, stints: Stints, rests: RestsOfStints, running: IntArray
) -> int:
    """Count what breaks (2.5a) to (2.5d) or does not add up: chunks, cells and requests.

    Parameters
    ----------
    run, cluster : Run, Cluster
        With token budgets.
    stints, rests
        When and where each request had a slot, one stint each, and its rests.
    running : IntArray
        Shape (K, G): requests that emit a token.
    """
    chunks = chunks_of(run)
    tokens = on_workers(run, cluster, chunks, chunks.tokens) + running
    over = np.count_nonzero(tokens > cluster.worker_budgets())
    awake = _awake_chunks(chunks, stints, rests)
    return int(over) + awake + _repeated(chunks) + _wrong_prompts(run, chunks, stints, rests)


def _awake_chunks(chunks: Chunks, stints: Stints, rests: RestsOfStints) -> int:
    """Count chunks of requests that emit a token at that step, or have no slot (2.5a)."""
    resting = {
        (request, step)
        for request, own in zip(stints.request.tolist(), rests, strict=True)
        for first, end in own
        for step in range(first, end)
    }
    pairs = zip(chunks.request.tolist(), chunks.step.tolist(), strict=True)
    return sum(pair not in resting for pair in pairs)


def _repeated(chunks: Chunks) -> int:
    """Count chunks of requests that have had another one at the same step."""
    same = (np.diff(chunks.request) == 0) & (np.diff(chunks.step) == 0)
    return int(np.count_nonzero(same))


def _wrong_prompts(run: Run, chunks: Chunks, stints: Stints, rests: RestsOfStints) -> int:
    """Count requests that compute more than their prompt (2.5b), or emit before it is done."""
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
