"""What a policy sees before one batch."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from formulations.arrays import IntArray


@dataclass(frozen=True)
class Waiting:
    """Requests that could start now, in arrival order; the same object until they change.

    Parameters
    ----------
    request : IntArray
        Shape (N,): index of each in the instance.
    arrival : IntArray
        Shape (N,): when it arrived [clock units].
    first_need : IntArray
        Shape (N,): tokens it needs in its first batch; each later batch needs one more.
    num_batches : IntArray
        Shape (N,): batches it is believed to occupy (exact unless lengths are predicted).
    """

    request: IntArray
    arrival: IntArray
    first_need: IntArray
    num_batches: IntArray

    def __len__(self) -> int:
        return len(self.request)

    @cached_property
    def shortest_first(self) -> list[int]:
        """Positions by believed length, ties in arrival order."""
        order: list[int] = np.argsort(self.num_batches, kind="stable").tolist()
        return order

    @cached_property
    def needs(self) -> list[tuple[int, int]]:
        """Tokens in the first batch and number of batches of each, as plain integers."""
        return list(zip(self.first_need.tolist(), self.num_batches.tolist(), strict=True))


@dataclass(frozen=True)
class CacheState:
    """The worker before one batch, after completions, clearing and arrivals.

    A policy answers with the positions in ``waiting`` of the requests to start. Together with the
    running ones they must fit into the coming batch.

    Parameters
    ----------
    clock : int
        Now [clock units].
    memory : int
        ``M`` [tokens].
    waiting : Waiting
        Requests that could start.
    running : IntArray
        Shape (A,): indices of the running requests, in arrival order.
    need : IntArray
        Shape (A,): tokens that each needs in the coming batch; one more in each later batch.
    batches_left : IntArray
        Shape (A,): batches that each is believed to occupy still, the coming one included.
    rng : numpy.random.Generator
        The run's own generator; a policy draws from no other.
    """

    clock: int
    memory: int
    waiting: Waiting
    running: IntArray
    need: IntArray
    batches_left: IntArray
    rng: np.random.Generator

    @property
    def used(self) -> int:
        """Tokens that the running requests need in the coming batch."""
        return int(self.need.sum())
