"""WAIT and Nested WAIT: requests join a chain of segments, each with a threshold per stage.

A *chain* cuts the stages ``0..b_L`` into segments: the first is ``0..b_1``, the others
``b_{i−1}+1..b_i``. Requests in it advance stage by stage. Before a batch, the chain is served up
to the last segment i such that each segment ``1..i`` has at least its threshold n of requests
waiting at its first stage; then up to n of every stage of these segments are in the batch, and all
others pause and keep what they hold. A request leaves with its own last stage.

- WAIT (algorithm 1, lengths known): one chain of one segment ``0..l'_j`` per class j.
- Nested WAIT (algorithm 2, lengths unknown): one chain for all, with one segment for each output
  length (section 5) or for a range of them (section 7.2).
- One Nested WAIT per prompt length (section 4.1): one chain for each, together in one batch.

All requests of a segment beyond its first stage advance together: they are its *cohorts*, one for
each stage. Two printed details are corrected: counts are those of the moment when the batch is
formed, and a decision is taken only while the engine is idle.

The compact records of the compiled engines, from which all stage events follow.

Queues before the segments of a run, as the proofs of Nested WAIT count them (appendix C).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bfio.wait.cohorts import served_level
from bfio.wait.instance import StageInstance
from bfio.wait.policy import StageState
from bfio.wait.run import Events, StageRun, counting
from formulations.arrays import BoolArray, IntArray, frozen, integer, integer_vector
from formulations.errors import InputError
from formulations.fluid import RequestClass
from formulations.thresholds.conditions import first_stages

_MAX_STAGE = 10**9


@dataclass(frozen=True)
class Chain:
    """Segments of stages and their thresholds.

    Parameters
    ----------
    ends : tuple of int
        ``b_1 < ... < b_L``: last stage of each segment, >= 0.
    thresholds : tuple of int
        ``n_1 .. n_L``, >= 1 [requests per stage].

    Raises
    ------
    InputError
        If a value breaks its rule.
    """

    ends: tuple[int, ...]
    thresholds: tuple[int, ...]

    def __post_init__(self) -> None:
        """Validate."""
        ends = integer_vector(list(self.ends), "ends", maximum=_MAX_STAGE).tolist()
        thresholds = integer_vector(list(self.thresholds), "thresholds", minimum=1).tolist()
        if not ends or sorted(set(ends)) != ends:
            raise InputError("ends", f"{ends} do not increase", "give the last stages in order")
        if len(thresholds) != len(ends):
            raise InputError(
                "thresholds", f"{len(thresholds)} for {len(ends)} segments", "give one each"
            )
        object.__setattr__(self, "ends", tuple(ends))
        object.__setattr__(self, "thresholds", tuple(thresholds))

    @property
    def entries(self) -> tuple[int, ...]:
        """First stage of each segment."""
        return first_stages(self.ends)

    @property
    def segments(self) -> list[tuple[int, int, int]]:
        """First stage, last stage and threshold of each segment."""
        return list(zip(self.entries, self.ends, self.thresholds, strict=True))


@dataclass(frozen=True)
class ThresholdPolicy:
    """WAIT, Nested WAIT, and several Nested WAIT side by side; see the module.

    Parameters
    ----------
    chains : tuple of Chain
        At least one.
    kinds : mapping, optional
        Which chain a request joins by its (prompt, output): WAIT.
    prompts : mapping, optional
        Which chain it joins by its prompt: several Nested WAIT. Without either, all join the
        first.
    """

    chains: tuple[Chain, ...]
    kinds: Mapping[tuple[int, int], int] | None = None
    prompts: Mapping[int, int] | None = None

    @property
    def knows_lengths(self) -> bool:
        """Whether it is WAIT: classes are told apart by their outputs."""
        return self.kinds is not None

    def check(self, instance: StageInstance) -> None:
        """Refuse requests that no chain takes.

        Raises
        ------
        InputError
            If one has lengths for which there is no chain, or outlasts its chain.
        """
        chain = self.chain_of(instance)
        last = np.array([c.ends[-1] for c in self.chains], dtype=np.int64)
        if len(longer := np.flatnonzero(instance.output > last[chain])):
            i = int(longer[0])
            raise InputError(
                f"requests[{i}]",
                f"output {instance.output[i]} is longer than the last segment, which ends "
                f"with stage {last[chain[i]]}",
                "end the last segment with the longest output",
            )

    def chain_of(self, instance: StageInstance) -> IntArray:
        """Return the chain that each request joins, shape (n,).

        Raises
        ------
        InputError
            If there is none for some request, naming the first.
        """
        prompt, output = instance.prompt, instance.output
        if self.kinds is None and self.prompts is None:
            return frozen(np.zeros(len(output), dtype=np.int64))
        # Lengths are at most 10^9, so that one integer holds both.
        lengths = prompt * (int(output.max(initial=0)) + 1) + output
        _, first, kind = np.unique(lengths, return_index=True, return_inverse=True)
        chains = np.empty(len(first), dtype=np.int64)
        for k in np.argsort(first).tolist():
            i = int(first[k])
            chain = self._chain(int(prompt[i]), int(output[i]))
            if chain is None:
                raise InputError(
                    f"requests[{i}]",
                    f"no class has prompt {prompt[i]} and output {output[i]}",
                    "add a class with its lengths, or use Nested WAIT",
                )
            chains[k] = chain
        return frozen(chains[kind])

    def _chain(self, prompt: int, output: int) -> int | None:
        if self.kinds is not None:
            return self.kinds.get((prompt, output))
        return 0 if self.prompts is None else self.prompts.get(prompt)

    def __call__(self, state: StageState) -> list[int]:
        """Return the next batch."""
        queues: list[dict[int, list[int]]] = [{} for _ in self.chains]
        # In order of arrival: within a chain no request overtakes another at a stage.
        for i in (*state.held, *state.waiting):
            output = int(state.instance.output[i]) if self.knows_lengths else 0
            chain = self._chain(int(state.instance.prompt[i]), output)
            assert chain is not None, "checked before the run"
            queues[chain].setdefault(int(state.stage[i]), []).append(i)
        batch: list[int] = []
        for one, own in zip(self.chains, queues, strict=True):
            waiting = [len(own.get(entry, ())) for entry in one.entries]
            # While a run drains, all of them, whatever waits: what is left could wait for ever.
            draining = state.is_draining
            level = len(one.ends) if draining else served_level(waiting, one.thresholds)
            for entry, end, threshold in one.segments[:level]:
                for stage in range(entry, end + 1):
                    batch += own.get(stage, [])[:threshold]
        return batch


def wait_policy(classes: Sequence[RequestClass], thresholds: Sequence[int]) -> ThresholdPolicy:
    """Return WAIT for classes of known lengths.

    Parameters
    ----------
    classes : sequence of RequestClass
        No two with the same lengths.
    thresholds : sequence of int
        ``n_j >= 1``, one per class.

    Raises
    ------
    InputError
        If lengths repeat or a threshold is missing.
    """
    if len(thresholds) != len(classes):
        raise InputError(
            "thresholds", f"{len(thresholds)} for {len(classes)} classes", "give one each"
        )
    kinds: dict[tuple[int, int], int] = {}
    for j, kind in enumerate(classes):
        if kinds.setdefault((kind.prompt, kind.output), j) != j:
            raise InputError(
                f"classes[{j}]", "another class has its lengths", "add up their rates"
            )
    chains = tuple(
        Chain((kind.output,), (integer(n, f"thresholds[{j}]", minimum=1),))
        for j, (kind, n) in enumerate(zip(classes, thresholds, strict=True))
    )
    return ThresholdPolicy(chains, kinds=kinds)


def nested_policy(ends: Sequence[int], thresholds: Sequence[int]) -> ThresholdPolicy:
    """Return Nested WAIT with one chain for all requests, whatever their prompts."""
    return ThresholdPolicy((Chain(tuple(ends), tuple(thresholds)),))


def grouped_policy(chains: Mapping[int, Chain]) -> ThresholdPolicy:
    """Return one Nested WAIT per prompt length, together in one batch."""
    prompts = {prompt: c for c, prompt in enumerate(chains)}
    return ThresholdPolicy(tuple(chains.values()), prompts=prompts)


@dataclass(frozen=True)
class ChainLog:
    """When requests began with a segment, and which segments each batch served.

    Parameters
    ----------
    instance : StageInstance
        What was served.
    policy : ThresholdPolicy
        With which chains; segments are numbered one chain after the other.
    levels : IntArray
        Shape (K, P): leading segments of each chain in each batch.
    request, segment, batch : IntArray
        Shape (J,): who began with which segment in which batch.
    """

    instance: StageInstance
    policy: ThresholdPolicy
    levels: IntArray
    request: IntArray
    segment: IntArray
    batch: IntArray

    def events(self) -> Events:
        """Return all stage events."""
        parts, number = [], 0
        for c, chain in enumerate(self.policy.chains):
            for place, (entry, end, _) in enumerate(chain.segments):
                served = np.flatnonzero(self.levels[:, c] > place)
                parts.append(self._of_segment(number, entry, end, served))
                number += 1
        batch, request, stage = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Events.sorted(batch, request, stage)

    def _of_segment(
        self, number: int, entry: int, end: int, served: IntArray
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Return batches, requests and stages of all events in a segment.

        A request that began with it passes a stage in each batch that serves it.
        """
        rows = np.flatnonzero(self.segment == number)
        request = self.request[rows]
        first = np.searchsorted(served, self.batch[rows])
        wanted = np.minimum(self.instance.output[request], end) - entry + 1
        count = np.minimum(wanted, len(served) - first)
        passed = counting(count)
        batches = served[np.repeat(first, count) + passed]
        return batches, np.repeat(request, count), entry + passed


@dataclass(frozen=True)
class SegmentQueues:
    """What waits before each segment, batch by batch; segments one chain after the other.

    Parameters
    ----------
    waiting : IntArray
        Shape (K, S): requests that wait at the first stage of a segment after the decision about
        a batch: they have passed the stage before, or arrived, and are not in the batch.
    served : BoolArray
        Shape (K, S): whether the batch serves the segment.
    moved : IntArray
        Shape (K, S): requests that come to wait before a segment when the batch ends; 0 for the
        first segment of a chain.
    is_first : BoolArray
        Shape (S,): whether a segment is the first of its chain.
    """

    waiting: IntArray
    served: BoolArray
    moved: IntArray
    is_first: BoolArray

    @property
    def recorded(self) -> IntArray:
        """``W_k^s`` of the proof, shape (K, S).

        A queue is looked at only in batches that serve the segment before it, and keeps its last
        value in between; that before a first segment is looked at in all of them.
        """
        num, width = self.waiting.shape
        looked = np.ones((num, width), dtype=bool)
        looked[:, 1:] = self.served[:, :-1]
        looked[:, self.is_first] = True
        rows = np.where(looked, np.arange(num)[:, np.newaxis], -1)
        last = np.maximum.accumulate(rows, axis=0)
        values = self.waiting[np.maximum(last, 0), np.arange(width)]
        return np.where(last >= 0, values, 0)

    def transfers(self, segment: int) -> IntArray:
        """Return ``Y_k`` of the batches that serve the segment before, in their order.

        Parameters
        ----------
        segment : int
            Which one; not the first of a chain.
        """
        moved: IntArray = self.moved[self.served[:, segment - 1], segment]
        return moved


def queue_lengths(run: StageRun, policy: ThresholdPolicy) -> SegmentQueues:
    """Count what waits before the segments of a run, from its stage events alone.

    Parameters
    ----------
    run : StageRun
        A run without evictions.
    policy : ThresholdPolicy
        Whose segments are meant.
    """
    events, chain_of = run.log.events(), policy.chain_of(run.instance)
    waiting, served, moved, is_first = [], [], [], []
    for c, chain in enumerate(policy.chains):
        own = chain_of[events.request] == c
        mine = Events(events.batch[own], events.request[own], events.stage[own])
        arrival = run.instance.arrival[chain_of == c]
        for entry, end, _ in chain.segments:
            come, coming = _come(run, mine, entry, arrival)
            waiting.append(come - np.cumsum(_per_batch(run, mine, mine.stage == entry)))
            inside = (mine.stage >= entry) & (mine.stage <= end)
            served.append(_per_batch(run, mine, inside) > 0)
            moved.append(coming)
            is_first.append(entry == 0)
    return SegmentQueues(
        np.column_stack(waiting),
        np.column_stack(served),
        np.column_stack(moved),
        np.array(is_first),
    )


def _come(
    run: StageRun, events: Events, entry: int, arrival: IntArray
) -> tuple[IntArray, IntArray]:
    """Return who has come to a stage before each batch, and who comes when it ends."""
    if entry == 0:
        come = np.searchsorted(arrival, run.batches.start, side="right")
        return come.astype(np.int64), np.zeros(len(come), dtype=np.int64)
    goes_on = (events.stage == entry - 1) & (run.instance.output[events.request] >= entry)
    coming = _per_batch(run, events, goes_on)
    return np.cumsum(coming) - coming, coming


def _per_batch(run: StageRun, events: Events, which: BoolArray) -> IntArray:
    found: IntArray = np.bincount(events.batch[which], minlength=len(run.batches))
    return found
