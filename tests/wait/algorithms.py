"""Algorithms 1 and 2, implemented from their corrected pseudo-code with lists.

Events are arrivals and completions of batches. All events of one moment are handled before an
idle engine forms a batch. The printed pseudo-code is corrected in two places: the members of a
batch are fixed when it is formed, and no batch is formed while the engine is busy.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from bfio.wait.policy import StageInstance

#: A batch: its start, and its requests with their stages.
Batch = tuple[int, frozenset[tuple[int, int]]]


@dataclass
class _Stages:
    """FIFO lists of one class or chain: ``queues[k]`` wait for stage k."""

    queues: dict[int, deque[int]] = field(default_factory=dict)

    def queue(self, stage: int) -> deque[int]:
        return self.queues.setdefault(stage, deque())

    def first(self, count: int, stages: Iterable[int]) -> list[tuple[int, int]]:
        """Return the first of each stage, still in their lists, with the stage."""
        return [(i, k) for k in stages for i in list(self.queue(k))[:count]]


class AlgorithmOne:
    """WAIT: classes ``(prompt, output)`` and a threshold for each."""

    def __init__(self, data: StageInstance, thresholds: dict[tuple[int, int], int]) -> None:
        self.kinds = list(zip(data.prompt.tolist(), data.output.tolist(), strict=True))
        self.thresholds = thresholds
        self.stages = {kind: _Stages() for kind in thresholds}

    def arrive(self, i: int) -> None:
        """Line 5: one more waits for stage 0 of its class."""
        self.stages[self.kinds[i]].queue(0).append(i)

    def form(self) -> list[tuple[int, int]]:
        """Lines 13 to 17: all stages of every class of which a threshold wait for stage 0."""
        batch = []
        for kind, threshold in self.thresholds.items():
            if len(self.stages[kind].queue(0)) >= threshold:
                batch += self.stages[kind].first(threshold, range(kind[1] + 1))
        return batch

    def complete(self, batch: Sequence[tuple[int, int]]) -> None:
        """Lines 8 to 12: members go on by a stage, or leave after their last."""
        for i, k in batch:
            assert self.stages[self.kinds[i]].queue(k).popleft() == i
        for i, k in batch:
            if k < self.kinds[i][1]:
                self.stages[self.kinds[i]].queue(k + 1).append(i)


class AlgorithmTwo:
    """Nested WAIT: last stages of the segments and a threshold for each."""

    def __init__(
        self, data: StageInstance, ends: Sequence[int], thresholds: Sequence[int]
    ) -> None:
        self.output = data.output.tolist()
        self.entries = [0, *(end + 1 for end in ends[:-1])]
        self.ends, self.thresholds = ends, thresholds
        self.stages = _Stages()

    def arrive(self, i: int) -> None:
        """One more waits for stage 0, whatever its length."""
        self.stages.queue(0).append(i)

    def form(self) -> list[tuple[int, int]]:
        """Take segments in order until the first whose entry lacks its threshold."""
        batch = []
        for entry, end, threshold in zip(self.entries, self.ends, self.thresholds, strict=True):
            if len(self.stages.queue(entry)) < threshold:
                break
            batch += self.stages.first(threshold, range(entry, end + 1))
        return batch

    def complete(self, batch: Sequence[tuple[int, int]]) -> None:
        """Members go on by a stage; whoever has passed the last of its own leaves at once."""
        for i, k in batch:
            assert self.stages.queue(k).popleft() == i
        for i, k in batch:
            if k < self.output[i]:
                self.stages.queue(k + 1).append(i)


def batches_of(data: StageInstance, algorithm: AlgorithmOne | AlgorithmTwo) -> list[Batch]:
    """Return the batches, up to the moment from which on nothing would ever happen."""
    arrivals = deque(enumerate(data.arrival.tolist()))
    found: list[Batch] = []
    running: list[tuple[int, int]] = []
    free_at: int | None = None
    while arrivals or free_at is not None:
        now = min(
            [arrival for _, arrival in list(arrivals)[:1]] + ([] if free_at is None else [free_at])
        )
        if free_at == now:
            algorithm.complete(running)
            free_at = None
        while arrivals and arrivals[0][1] == now:
            algorithm.arrive(arrivals.popleft()[0])
        if free_at is None and (running := algorithm.form()):
            tokens = sum(int(data.prompt[i]) + k for i, k in running)
            free_at = now + data.clock.fixed + data.clock.per_token * tokens
            found.append((now, frozenset(running)))
    return found
