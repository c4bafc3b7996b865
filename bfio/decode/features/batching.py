"""Workers with token budgets: prompts are computed in chunks, together with decoding.

A request that starts on a worker takes a slot, and has no KV cache at first. At each step every
worker forms a batch from its requests, by a policy of `bfio.batching` and within its token budget.
A request whose prompt is not yet computed contributes a chunk of the prompt, any other request one
token (throughput paper, 2.5). The next step begins when the slowest worker is done. A request that
emits no token in a step, because its prompt is not computed or the batch omits it, rests
(`bfio.decode.features.pausing`). So the phases of a step are the same with and without batches.

The load of a batch is the KV cache that the batch reads: the caches of its requests before the
step. Routing policies see whole prompts, because a worker will eventually hold the whole prompt of
each request sent to it.

The replay rules that check a run are written independently. They use neither the engine nor a
batching policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bfio.batching.policy import BatchState, ask, policy_of_engine
from bfio.batching.registry import build
from bfio.common.checking import number
from bfio.common.metrics import NOTHING, Average, Column, MetricTable, Value, exact_sum
from bfio.common.text import exact
from bfio.decode.cluster import Cluster, per_worker_text
from bfio.decode.features.feature import Feature, RuleTable
from bfio.decode.features.pausing import Rests
from bfio.decode.features.stragglers import keep_pace
from bfio.decode.machine.counters import ADMITTED, SLOWED, STEP
from formulations.arrays import FloatArray, IntArray, frozen
from formulations.errors import InputError

if TYPE_CHECKING:
    from bfio.decode.machine.state import Record, State
    from bfio.decode.options import RunOptions
    from bfio.decode.replay import Replay
    from bfio.decode.run import Run, RunPart
    from bfio.decode.stints import Stints

#: Name of the single stage of requests in the states that batching policies see.
STAGE = "requests"


@dataclass
class _Task:
    """A request on its worker, with its remaining prompt and output tokens."""

    #: Index of the request, and its prompt tokens.
    request: int
    prompt: int
    #: Prompt and output tokens that no batch has processed yet.
    prompt_left: int
    decode_left: int
    entered: int = -1  #: Rank in which it entered its decode phase; -1 before.

    def load(self, tokens: int) -> None:
        """Record that a batch has processed ``tokens`` tokens of this request."""
        if self.prompt_left:
            self.prompt_left -= tokens
        else:
            self.decode_left -= tokens


class Batching:
    """The batches of all workers in a run; each worker asks its own batching policy.

    ``rests`` are the steps at which requests had a slot and emitted no token.
    """

    def __init__(self, state: State, cluster: Cluster, options: RunOptions) -> None:
        policy = build(options.batching)
        self.rests = Rests(len(state.pool), None)
        self._cluster, self._name = cluster, options.batching
        self._budgets: list[int] = cluster.worker_budgets().tolist()
        self._policies = [policy_of_engine(policy) for _ in self._budgets]
        self._queues: list[list[_Task]] = [[] for _ in self._budgets]
        self._factors, self._events = np.ones(cluster.workers), 0
        self._num_entered = 0
        self._log: list[tuple[int, int, int]] = []

    def run_step(self, state: State, record: Record, row: int) -> None:
        """Form the batches of a step and run it as `bfio.decode.machine.phases.run_step`.

        Raises InputError if a batching policy returns an invalid answer, or if no worker computes
        anything.
        """
        self._join(state)
        step = int(state.counters[STEP])
        batches = [self._batch(g, step) for g in range(len(self._queues))]
        totals = np.array([sum(batch) for batch in batches], dtype=np.int64)
        if not totals.any():
            where = f"policy {self._name}, step {step}"
            what = "requests have slots, but all batches are empty"
            raise InputError(where, what, "let one worker process at least one token")
        read, resting = self._chunks(batches, step)
        paces = self._paces(state)
        state.machine.overhead_s[:] = paces * (
            state.machine.own_overhead_s + self._cluster.batch_times(totals)
        )
        state.workers.load[:] += read
        self.rests.run_step(state, record, row, resting)
        state.workers.load[:] -= read
        state.machine.overhead_s[:] = paces * state.machine.own_overhead_s
        self._go_on(batches)

    def pending_prefill(self, state: State) -> IntArray:
        """Return the prompt tokens not yet computed on each worker, shape (G,).

        Before `run_step`, the numbers include the requests that start at this step.
        """
        left = np.array([sum(task.prompt_left for task in queue) for queue in self._queues])
        started = state.lists.started[: state.counters[ADMITTED]]
        np.add.at(left, state.marks.worker[started], state.requests.prompt[started])
        return left

    def log(self) -> IntArray:
        """Return all chunks in the format of `bfio.decode.run.Run.chunks`, shape (m, 3)."""
        return frozen(np.array(self._log, dtype=np.int64).reshape(-1, 3))

    def _join(self, state: State) -> None:
        """Append the requests that start at this step to the queues of their workers."""
        requests = state.requests
        for request in state.lists.started[: state.counters[ADMITTED]].tolist():
            prompt, output = int(requests.prompt[request]), int(requests.output[request])
            task = _Task(request, prompt, prompt, output)
            self._queues[int(state.marks.worker[request])].append(task)

    def _batch(self, worker: int, step: int) -> list[int]:
        """Return the tokens of each request in a worker's batch, chosen by its batching policy."""
        queue, policy = self._queues[worker], self._policies[worker]
        if not queue:
            return []
        knows = getattr(policy, "knows_lengths", False) is True
        seen = BatchState(
            slot=step,
            budget=self._budgets[worker],
            chunked=True,
            prefill=[task.prompt_left for task in queue],
            stage=[STAGE] * len(queue),
            rank=[0] * len(queue),
            entered=[task.entered for task in queue],
            lengths=[task.decode_left for task in queue] if knows else None,
        )
        return ask(policy, seen, f"{self._name} of worker {worker}")

    def _chunks(self, batches: list[list[int]], step: int) -> tuple[IntArray, IntArray]:
        """Record the chunks; return cache tokens read per worker, (G,), and resting requests."""
        read, resting = np.zeros(len(batches), dtype=np.int64), []
        for worker, (queue, batch) in enumerate(zip(self._queues, batches, strict=True)):
            for task, tokens in zip(queue, batch, strict=True):
                if task.prompt_left == 0 and tokens:
                    continue
                resting.append(task.request)
                if tokens:
                    self._log.append((step, task.request, tokens))
                    read[worker] += task.prompt - task.prompt_left
        return read, np.sort(np.array(resting, dtype=np.int64))

    def _paces(self, state: State) -> FloatArray:
        """Return the slowdown factor of each worker from this step on, shape (G,)."""
        keep_pace(state)
        slow, events = state.slowness, int(state.counters[SLOWED])
        for event in range(self._events, events):
            self._factors[slow.worker[event]] = slow.factor[event]
        self._events = events
        return self._factors

    def _go_on(self, batches: list[list[int]]) -> None:
        """Subtract the processed tokens of each request; remove finished requests."""
        for queue, batch in zip(self._queues, batches, strict=True):
            for task, tokens in zip(queue, batch, strict=True):
                task.load(tokens)
                if task.prompt_left == 0 and task.entered < 0:
                    task.entered = self._num_entered
                    self._num_entered += 1
            queue[:] = [task for task in queue if task.decode_left]


#: For each stint (stay of a request on a worker): first step and end step of each rest.
RestsOfStints = list[list[tuple[int, int]]]


RULES = RuleTable()


class Chunks(NamedTuple):
    """The prompt chunks of a run, sorted by request, then by time; each array of shape (m,)."""

    #: Request, step, and number of prompt tokens computed.
    request: IntArray
    step: IntArray
    tokens: IntArray
    before: IntArray  #: Prompt tokens computed before this chunk.


def malformed_chunks(run: Run, cluster: Cluster) -> int:
    """Count chunks that make a replay impossible; 1 if chunks exist without token budgets.

    The result is also 1 if token budgets exist without chunks, or if the array has a wrong shape.
    """
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
    return number(wrong)


def chunks_of(run: Run) -> Chunks:
    """Return the prompt chunks of a run with token budgets."""
    assert run.chunks is not None
    step, request, tokens = run.chunks[np.lexsort((run.chunks[:, 0], run.chunks[:, 1]))].T
    totals = np.cumsum(tokens) - tokens
    # Tokens computed of all requests that precede this one in the sorted order.
    others = totals[np.searchsorted(request, request)] if len(totals) else totals
    return Chunks(request, step, tokens, totals - others)


def on_workers(run: Run, cluster: Cluster, chunks: Chunks, values: IntArray) -> IntArray:
    """Return the sum of a value of the chunks per step and worker, shape (K, G)."""
    cells = np.zeros((run.steps, cluster.workers), dtype=np.int64)
    np.add.at(cells, (chunks.step, run.worker[chunks.request]), values)
    return cells


@RULES.rule("batches")
def _batches(replay: Replay) -> int:
    """Check that batches keep their budgets, and prompts are computed before decoding."""
    if not replay.batches:
        return 0
    # Each request has one stint.
    chunks, stints, rests = chunks_of(replay.run), replay.stints, replay.rests_of_stints
    over = number(replay.tokens > replay.cluster.worker_budgets())
    repeated = number((np.diff(chunks.request) == 0) & (np.diff(chunks.step) == 0))
    awake = _awake_chunks(chunks, stints, rests)
    return over + repeated + awake + _wrong_prompts(replay.run, chunks, stints, rests)


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


def _wrong_prompts(run: Run, chunks: Chunks, stints: Stints, rests: RestsOfStints) -> int:
    """Count requests that compute more than their prompt (2.5b), or emit before it is computed."""
    computed, last = np.zeros((2, run.num_requests), dtype=np.int64)
    np.add.at(computed, chunks.request, chunks.tokens)
    np.maximum.at(last, chunks.request, chunks.step)
    wrong = computed > run.prompt_tokens
    columns = (column.tolist() for column in (stints.request, stints.start, stints.end))
    for who, start, end, own in zip(*columns, rests, strict=True):
        first_token = next((stop for begin, stop in own if begin == start), start)
        if first_token < end:
            is_done = computed[who] >= run.prompt_tokens[who] and last[who] < first_token
            wrong[who] |= not is_done
    return number(wrong)


METRICS: MetricTable[RunPart] = MetricTable()


def _computed(part: RunPart) -> IntArray | None:
    """Return the prompt tokens computed at each step, shape (K,); None without budgets."""
    run = part.run
    if run.chunks is None:
        return None
    tokens = np.zeros(run.steps, dtype=np.int64)
    np.add.at(tokens, run.chunks[:, 0], run.chunks[:, 2])
    return tokens


def _prefill_times(part: RunPart) -> FloatArray:
    """Return the time from the first step to the computed prompt of each completed request [s]."""
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


METRICS.average(
    "prefill_mean_s",
    "s",
    "mean time from the first step of a request until its prompt is computed",
    Column("prefill\nmean [s]", by_default=False),
)(lambda part: Average(_prefill_times(part)))


@METRICS.average(
    "budget_share",
    "1",
    "share of the token budgets that is used",
    Column("budget", is_share=True, by_default=False),
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
