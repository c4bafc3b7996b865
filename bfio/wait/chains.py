"""WAIT and Nested WAIT: requests join a chain of segments with one threshold per segment.

A *chain* divides the stages ``0..b_L`` into segments: the first is ``0..b_1``, the others are
``b_{i−1}+1..b_i``. Its requests advance stage by stage. Before a batch, the chain is served up to
the last segment i such that each of the segments ``1..i`` has at least its threshold n of requests
waiting at its first stage. The batch then contains up to n requests of every stage of these
segments. All other requests pause and keep their tokens. A request leaves after its own last
stage.

- WAIT (algorithm 1, lengths known): one chain per class j, with one segment ``0..l'_j``.
- Nested WAIT (algorithm 2, lengths unknown): one chain for all requests, with a segment for each
  output length (section 5) or for a range of lengths (section 7.2).
- One Nested WAIT per prompt length (section 4.1): one chain for each, combined in one batch.

Requests of a segment beyond its first stage advance together in *cohorts*, one per stage. Two
details differ from the paper, which is incorrect there: counts are taken when the batch is formed,
and decisions are only made while the engine is idle.

`ChainLog` is the compact record of the compiled engine, from which all stage events follow.

`SegmentQueues` holds the queues before segments, as counted in the proofs of appendix C.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bfio.wait.cohorts import served_level
from bfio.wait.policy import StageInstance, StageState
from bfio.wait.run import Events, StageRun, counting
from formulations.arrays import BoolArray, IntArray, frozen, integer, integer_vector
from formulations.errors import InputError
from formulations.fluid import RequestClass
from formulations.thresholds.conditions import first_stages

_MAX_STAGE = 10**9


@dataclass(frozen=True)
class Chain:
    """A sequence of segments of stages, each with a threshold.

    Parameters
    ----------
    ends : tuple of int
        ``b_1 < ... < b_L``: last stage of each segment, >= 0.
    thresholds : tuple of int
        ``n_1 .. n_L``, >= 1 [requests per stage].

    Raises
    ------
    InputError
        If a value is invalid.
    """

    ends: tuple[int, ...]
    thresholds: tuple[int, ...]

    def __post_init__(self) -> None:
        """Check all fields; an invalid value raises InputError."""
        ends = integer_vector(list(self.ends), "ends", maximum=_MAX_STAGE).tolist()
        thresholds = integer_vector(list(self.thresholds), "thresholds", minimum=1).tolist()
        if not ends or sorted(set(ends)) != ends:
            raise InputError(
                "ends", f"{ends} do not increase", "give the last stages in increasing order"
            )
        if len(thresholds) != len(ends):
            raise InputError(
                "thresholds",
                f"{len(thresholds)} thresholds for {len(ends)} segments",
                "give one per segment",
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
    """WAIT, Nested WAIT, or one Nested WAIT per prompt length; see the module docstring.

    Parameters
    ----------
    chains : tuple of Chain
        At least one.
    kinds : mapping, optional
        Index of the chain by (prompt, output) of a request: WAIT.
    prompts : mapping, optional
        Index of the chain by the prompt of a request: one Nested WAIT per prompt length. Without
        either mapping, all requests join the first chain.
    """

    chains: tuple[Chain, ...]
    kinds: Mapping[tuple[int, int], int] | None = None
    prompts: Mapping[int, int] | None = None

    @property
    def knows_lengths(self) -> bool:
        """Whether the policy distinguishes requests by their output lengths, as WAIT does."""
        return self.kinds is not None

    def check(self, instance: StageInstance) -> None:
        """Raise an error for requests that no chain can serve.

        Raises
        ------
        InputError
            If no chain has the lengths of a request, or its output exceeds the end of its chain.
        """
        chain = self.chain_of(instance)
        last = np.array([c.ends[-1] for c in self.chains], dtype=np.int64)
        if len(longer := np.flatnonzero(instance.output > last[chain])):
            i = int(longer[0])
            end = last[chain[i]]
            raise InputError(
                f"requests[{i}]",
                f"output {instance.output[i]} exceeds {end}, the end of the last segment",
                "end the last segment at the longest output or later",
            )

    def chain_of(self, instance: StageInstance) -> IntArray:
        """Return the index of the chain of each request, shape (n,).

        Raises
        ------
        InputError
            If a request has no chain; the message names the first one.
        """
        prompt, output = instance.prompt, instance.output
        if self.kinds is None and self.prompts is None:
            return frozen(np.zeros(len(output), dtype=np.int64))
        # Lengths are at most 10^9, so one integer can encode both.
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
        """Return the requests of the next batch."""
        queues: list[dict[int, list[int]]] = [{} for _ in self.chains]
        # In order of arrival: requests of a chain do not overtake each other at a stage.
        for i in (*state.held, *state.waiting):
            output = int(state.instance.output[i]) if self.knows_lengths else 0
            chain = self._chain(int(state.instance.prompt[i]), output)
            assert chain is not None, "requests are checked before the run"
            queues[chain].setdefault(int(state.stage[i]), []).append(i)
        batch: list[int] = []
        for one, own in zip(self.chains, queues, strict=True):
            waiting = [len(own.get(entry, ())) for entry in one.entries]
            # While a run drains, serve all requests: the remaining ones may never reach a
            # threshold.
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
        Classes with distinct lengths.
    thresholds : sequence of int
        ``n_j >= 1``, one per class.

    Raises
    ------
    InputError
        If two classes have the same lengths, or a threshold is missing.
    """
    if len(thresholds) != len(classes):
        raise InputError(
            "thresholds",
            f"{len(thresholds)} thresholds for {len(classes)} classes",
            "give one per class",
        )
    kinds: dict[tuple[int, int], int] = {}
    for j, kind in enumerate(classes):
        if kinds.setdefault((kind.prompt, kind.output), j) != j:
            raise InputError(
                f"classes[{j}]",
                "another class has the same prompt and output",
                "merge the classes and add their rates",
            )
    chains = tuple(
        Chain((kind.output,), (integer(n, f"thresholds[{j}]", minimum=1),))
        for j, (kind, n) in enumerate(zip(classes, thresholds, strict=True))
    )
    return ThresholdPolicy(chains, kinds=kinds)


def nested_policy(ends: Sequence[int], thresholds: Sequence[int]) -> ThresholdPolicy:
    """Return Nested WAIT with one chain for all prompt lengths."""
    return ThresholdPolicy((Chain(tuple(ends), tuple(thresholds)),))


def grouped_policy(chains: Mapping[int, Chain]) -> ThresholdPolicy:
    """Return one Nested WAIT per prompt length, combined in one batch."""
    prompts = {prompt: c for c, prompt in enumerate(chains)}
    return ThresholdPolicy(tuple(chains.values()), prompts=prompts)


@dataclass(frozen=True)
class ChainLog:
    """Log of the compiled engine: entries of requests into segments, and served segments.

    Parameters
    ----------
    instance : StageInstance
        Instance that was served.
    policy : ThresholdPolicy
        Policy with the chains; segments are numbered chain after chain.
    levels : IntArray
        Shape (K, P): number of leading segments of each chain that each batch serves.
    request, segment, batch : IntArray
        Shape (J,): the request entered the segment in the batch.
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

        After its entry, a request passes one stage in each batch that serves the segment.
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
    """Number of requests waiting before each segment, per batch; segments count chain by chain.

    Parameters
    ----------
    waiting : IntArray
        Shape (K, S): requests that wait at the first stage of a segment after the decision on a
        batch. They have arrived or passed the stage before, and are not in the batch.
    served : BoolArray
        Shape (K, S): whether the batch serves the segment.
    moved : IntArray
        Shape (K, S): requests that join the queue of a segment at the end of the batch; 0 for the
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

        A queue is updated only in batches that serve the segment before it, and keeps its last
        value otherwise. The queue of a first segment is updated in every batch.
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
        """Return ``Y_k`` for the batches that serve the segment before, in order.

        Parameters
        ----------
        segment : int
            Number of a segment that is not the first of its chain.
        """
        moved: IntArray = self.moved[self.served[:, segment - 1], segment]
        return moved


def queue_lengths(run: StageRun, policy: ThresholdPolicy) -> SegmentQueues:
    """Count the requests waiting before the segments of a run, from its stage events alone.

    Parameters
    ----------
    run : StageRun
        A run without evictions.
    policy : ThresholdPolicy
        Policy with the segments.
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
    """Count requests that reach the stage ``entry`` before each batch starts, and when it ends.

    Both counts have shape (K,); the first is cumulative. Stage 0 is reached by arrival.
    """
    if entry == 0:
        come = np.searchsorted(arrival, run.batches.start, side="right")
        return come.astype(np.int64), np.zeros(len(come), dtype=np.int64)
    goes_on = (events.stage == entry - 1) & (run.instance.output[events.request] >= entry)
    coming = _per_batch(run, events, goes_on)
    return np.cumsum(coming) - coming, coming


def _per_batch(run: StageRun, events: Events, which: BoolArray) -> IntArray:
    found: IntArray = np.bincount(events.batch[which], minlength=len(run.batches))
    return found
