"""What policies may ask of prefixes: what is cached where, and keys that tell prompts apart."""

from functools import cached_property

import numpy as np

from bfio.decode.features.prefixes.phases import matched_tokens
from bfio.decode.machine.counters import STEP
from bfio.decode.machine.state import State
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray, frozen
from formulations.errors import InputError


class Prefixes:
    """The prefixes of a run.

    Parameters
    ----------
    state : State
        The run.
    workload : Workload
        Its requests.
    """

    def __init__(self, state: State, workload: Workload) -> None:
        self._state, self._workload = state, workload
        self._keys: dict[int, IntArray] = {}

    @property
    def step(self) -> int:
        """The step now."""
        return int(self._state.counters[STEP])

    def cached_tokens(self, requests: IntArray) -> IntArray:
        """Return what each worker has cached of some prompts, shape (N, G) [tokens]."""
        if not self._state.settings.caches:
            return frozen(np.zeros((len(requests), len(self._state.workers.load)), np.int64))
        prompts = self._state.requests.prompt[requests]
        return frozen(matched_tokens(self._state.prefixes, requests, prompts))

    def keys(self, requests: IntArray, num_blocks: int) -> IntArray:
        """Return `routing_keys` of some requests, shape (N,)."""
        if num_blocks not in self._keys:
            self._keys[num_blocks] = routing_keys(self._workload, num_blocks)
        return frozen(self._keys[num_blocks][requests])


class WaitingPrefixes:
    """The prefixes of the requests that wait at a step, computed when a policy asks.

    Parameters
    ----------
    prefixes : Prefixes
        Those of the run.
    requests : IntArray
        Shape (N,): those that wait.
    """

    def __init__(self, prefixes: Prefixes, requests: IntArray) -> None:
        self._prefixes, self._requests = prefixes, requests
        self._step = prefixes.step

    @cached_property
    def cached_tokens(self) -> IntArray:
        """What each worker has cached of each prompt, shape (N, G) [tokens]."""
        if self._prefixes.step != self._step:
            # The caches have gone on since.
            raise InputError("cached_tokens", "asked after its step", "ask while deciding")
        return self._prefixes.cached_tokens(self._requests)

    def keys(self, num_blocks: int) -> IntArray:
        """Return what tells the prompts apart by so many first blocks, shape (N,)."""
        return self._prefixes.keys(self._requests, num_blocks)


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
