"""Tie-breaking: workers are permuted for policies, because these break ties by lowest index."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np

from bfio.decode.features.feature import Feature
from bfio.decode.options import Ties
from bfio.decode.state import ActiveRequests, DecodeState, Prefixes
from formulations.arrays import IntArray, frozen

#: Fields of a state with one entry per worker along the first axis.
OF_WORKERS = (
    "loads",
    "projected_loads",
    "free_slots",
    "running",
    "projected_running",
    "queued",
    "queued_tokens",
    "room",
    "token_time",
    "overhead_tokens",
    "bound_loads",
    "pending_prefill",
)
#: Distinguishes this random stream from that of policies, which use the same seed.
_STREAM = 1


def orders(ties: Ties, num_workers: int, seed: int) -> Iterator[IntArray] | None:
    """Yield the order of workers for each decision; None if the order never changes."""
    if ties is Ties.LOWEST:
        return None
    if ties is Ties.ROTATING:
        return (np.roll(np.arange(num_workers), -turn) for turn in count())
    rng = np.random.default_rng([seed, _STREAM])
    return (rng.permutation(num_workers) for _ in count())


def in_places(state: DecodeState, order: IntArray) -> DecodeState:
    """Return a state with permuted workers: worker ``order[p]`` is at index p."""
    changed: dict[str, Any] = {
        name: None if (values := getattr(state, name)) is None else frozen(values[order])
        for name in OF_WORKERS
    }
    units, holdings, place = state.step_units, state.holdings, np.argsort(order)

    def held() -> ActiveRequests:
        found = state.active
        return found._replace(worker=place[found.worker])

    return replace(
        state,
        **changed,
        prefixes=None if state.prefixes is None else _Places(state.prefixes, order),
        holdings=None if holdings is None else held,
        step_units=None if units is None else (frozen(units[0][order]), frozen(units[1][order])),
    )


@dataclass(frozen=True)
class _Places:
    """The prefixes of the waiting requests, with permuted workers."""

    prefixes: Prefixes
    order: IntArray

    @property
    def cached_tokens(self) -> IntArray:
        """See `DecodeState.cached_tokens`."""
        return self.prefixes.cached_tokens[:, self.order]

    def keys(self, num_blocks: int) -> IntArray:
        """See `DecodeState.routing_keys`."""
        return self.prefixes.keys(num_blocks)


FEATURE = Feature(
    "ties",
    setting=lambda _, options: "" if options.ties is Ties.LOWEST else f"{options.ties} ties",
    rank=5,
)
