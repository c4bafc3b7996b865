"""What policies may ask of prefixes: what is cached where, and keys that tell prompts apart."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from bfio.decode.features.prefixes.phases import matched_tokens
from bfio.decode.machine.counters import STEP
from bfio.decode.machine.state import State
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray, frozen
from formulations.errors import InputError


class Prefixes:
    """The prefixes of the requests that wait at a step, computed when a policy asks.

    Parameters
    ----------
    state, workload : State, Workload
        The run, and its requests.
    requests : IntArray, optional
        Shape (N,): those that wait; by default none does.
    keys : dict, optional
        `routing_keys` of all requests as far as they are known, by number of blocks.
    """

    def __init__(
        self,
        state: State,
        workload: Workload,
        requests: IntArray | None = None,
        keys: dict[int, IntArray] | None = None,
    ) -> None:
        self._state, self._workload, self._step = state, workload, int(state.counters[STEP])
        self._requests = np.zeros(0, dtype=np.int64) if requests is None else requests
        self._keys: dict[int, IntArray] = {} if keys is None else keys

    def of(self, requests: IntArray) -> Prefixes:
        """Return the prefixes of requests that wait at the step now."""
        return Prefixes(self._state, self._workload, requests, self._keys)

    @cached_property
    def cached_tokens(self) -> IntArray:
        """What each worker has cached of each prompt, shape (N, G) [tokens]."""
        state, requests = self._state, self._requests
        if state.counters[STEP] != self._step:
            # The caches have gone on since.
            raise InputError("cached_tokens", "asked after its step", "ask while deciding")
        if not state.settings.caches:
            return frozen(np.zeros((len(requests), len(state.workers.load)), np.int64))
        return frozen(matched_tokens(state.prefixes, requests, state.requests.prompt[requests]))

    def keys(self, num_blocks: int) -> IntArray:
        """Return what tells the prompts apart by so many first blocks, shape (N,)."""
        if num_blocks not in self._keys:
            self._keys[num_blocks] = routing_keys(self._workload, num_blocks)
        return frozen(self._keys[num_blocks][self._requests])


def routing_keys(workload: Workload, num_blocks: int) -> IntArray:
    """Return what tells prompts apart for routing, shape (n,).

    By the hash of the last of the first ``num_blocks`` blocks, which stands for all of them;
    without hashes, by its prompt key. One whose source does not tell is a prompt of its own.
    """
    blocks, keys = workload.prompt_blocks, -1 - np.arange(len(workload))
    if blocks is None:
        return keys if workload.prompt_keys is None else workload.prompt_keys.copy()
    counts = np.diff(blocks.first)
    told = np.flatnonzero(counts)
    last = blocks.first[:-1] + np.minimum(counts, num_blocks) - 1
    keys[told] = blocks.ids[last[told]]
    return keys
