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
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bfio.wait.instance import StageInstance
from bfio.wait.machine.cohorts import served_level
from bfio.wait.policy import StageState
from formulations.arrays import IntArray, frozen, integer, integer_vector
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
