"""The policies against the corrected pseudo-code, and the worked example of figure 6."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bfio.wait.chains import nested_policy
from bfio.wait.policy import StageInstance
from bfio.wait.run import StageRun, StageVerdict
from bfio.wait.simulation import serve
from tests.wait.cases import chains, instance, instances, wait_policies

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


engines = st.sampled_from(["reference", "compiled"])


def batches_in(run: StageRun) -> list[Batch]:
    """Return the batches of a run as the pseudo-code's are written."""
    events = run.log.events()
    members: list[set[tuple[int, int]]] = [set() for _ in range(len(run.batches))]
    for batch, i, stage in zip(events.batch, events.request, events.stage, strict=True):
        members[batch].add((int(i), int(stage)))
    starts = run.batches.start.tolist()
    return [(start, frozenset(m)) for start, m in zip(starts, members, strict=True)]


@given(st.data())
def test_wait_is_algorithm_1(data: st.DataObject) -> None:
    """The same requests in the same batches at the same times."""
    drawn: StageInstance = data.draw(instances())
    policy = data.draw(wait_policies(drawn))
    assert policy.kinds is not None
    thresholds = {kind: policy.chains[c].thresholds[0] for kind, c in policy.kinds.items()}
    run = serve(drawn, policy, drain=False, engine=data.draw(engines))
    assert batches_in(run) == batches_of(drawn, AlgorithmOne(drawn, thresholds))


@given(st.data())
def test_nested_wait_is_algorithm_2(data: st.DataObject) -> None:
    """The same, wherever segments end."""
    drawn: StageInstance = data.draw(instances())
    chain = data.draw(chains(int(drawn.output.max(initial=0))))
    policy = nested_policy(chain.ends, chain.thresholds)
    run = serve(drawn, policy, drain=False, engine=data.draw(engines))
    assert batches_in(run) == batches_of(drawn, AlgorithmTwo(drawn, chain.ends, chain.thresholds))


def test_the_pseudo_code_by_hand() -> None:
    """Two of three start at 4, when the second has come, for 1 + 2·2 = 5; the third waits.

    From 9 on nobody else comes: one waits for stage 0, two for stage 1, and nothing happens.
    """
    data = instance(9, [(0, 2, 1), (4, 2, 1), (5, 2, 1)], fixed=1, per_token=1)
    expected = [(4, frozenset({(0, 0), (1, 0)}))]
    assert batches_of(data, AlgorithmOne(data, {(2, 1): 2})) == expected
    assert batches_of(data, AlgorithmTwo(data, [1], [2])) == expected
    assert serve(data, nested_policy([1], [2]), drain=False).verdict is StageVerdict.STUCK


def test_figure_6() -> None:
    """Thresholds (3, 3), one stage per segment, batches that take next to no time.

    Its last row is corrected: at 14 segment 1 serves P7, P8 and P9, segment 2 P3, P5 and P6, all
    of which complete. (Printed: P6 stays behind.) P10 waits for stage 0, P7 and P8 for stage 1.
    """
    names = [f"P{number}" for number in range(1, 11)]
    times = (0, 0, 1, 5, 5, 7, 7, 11, 14, 14)
    short = {"P1", "P2", "P4", "P9"}
    requests = [
        (1000 * time, 1, 0 if name in short else 1)
        for name, time in zip(names, times, strict=True)
    ]
    run = serve(instance(99, requests), nested_policy([0, 1], [3, 3]), drain=False)
    first = [(1000, "P1 P2 P3", ""), (7000, "P4 P5 P6", ""), (14000, "P7 P8 P9", "P3 P5 P6")]
    assert batches_in(run) == [
        (
            time,
            frozenset(
                (names.index(name), stage)
                for stage, members in enumerate(both)
                for name in members.split()
            ),
        )
        for time, *both in first
    ]
    done = {name for name, clock in zip(names, run.completion, strict=True) if clock >= 0}
    assert done == {"P1", "P2", "P3", "P4", "P5", "P6", "P9"}
    assert np.flatnonzero(run.prefilled < 0).tolist() == [9]
