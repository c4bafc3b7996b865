"""Formation of batches on all workers in a run, step by step."""

from dataclasses import dataclass

import numpy as np

from bfio.batching.policy import BatchState, ask, policy_of_engine
from bfio.batching.registry import build
from bfio.decode.cluster import Cluster
from bfio.decode.features.pausing import Rests
from bfio.decode.features.stragglers import keep_pace
from bfio.decode.machine.counters import ADMITTED, SLOWED, STEP
from bfio.decode.machine.state import Record, State
from bfio.decode.options import RunOptions
from formulations.arrays import FloatArray, IntArray, frozen
from formulations.errors import InputError

#: Name of the single stage of requests in the states that batching policies see.
STAGE = "requests"


@dataclass
class _Task:
    """A request on its worker."""

    #: Index of the request, and its prompt tokens.
    request: int
    prompt: int
    #: Prompt and output tokens that no batch has processed yet.
    prompt_left: int
    decode_left: int
    entered: int = -1  #: Rank in which it entered its decode phase; -1 before.

    def load(self, tokens: int) -> None:
        """Record that a batch has processed ``tokens`` of it."""
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
        """Form the batches of a step, and run it like `bfio.decode.machine.phases.run_step`.

        Raises InputError if a batching policy returns an invalid answer, or if no worker computes
        anything.
        """
        self._join(state)
        step = int(state.counters[STEP])
        batches = [self._batch(g, step) for g in range(len(self._queues))]
        totals = np.array([sum(batch) for batch in batches], dtype=np.int64)
        if not totals.any():
            what = "requests have slots, and no worker computes anything"
            raise InputError(f"policy {self._name}, step {step}", what, "let one load a token")
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

        Before `run_step`, this includes the requests that start at this step.
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
        for request in state.lists.started[: state.counters[ADMITTED]].tolist():
            prompt, output = (
                int(column[request]) for column in (state.requests.prompt, state.requests.output)
            )
            task = _Task(request, prompt, prompt, output)
            self._queues[int(state.marks.worker[request])].append(task)

    def _batch(self, worker: int, step: int) -> list[int]:
        """Return the tokens of each request in a worker's batch, from its policy."""
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
        """Record the chunks; return the cache tokens they read, (G,), and the resting requests."""
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
