"""A ring of hashes: where keys and workers stand on it, the same on every machine."""

import numpy as np

from formulations.arrays import IntArray

_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def positions(keys: IntArray) -> IntArray:
    """Return 63 bits that look random for each key: SplitMix64's output function (Steele 2014)."""
    bits = keys.astype(np.uint64) + np.uint64(_GOLDEN)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(_FIRST)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(_SECOND)
    found: IntArray = ((bits ^ (bits >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)
    return found


def ring(num_workers: int, virtual_nodes: int) -> tuple[IntArray, IntArray]:
    """Return positions in increasing order and the worker at each, both of shape (G·V,)."""
    nodes = np.arange(num_workers * virtual_nodes)
    # Keys are hashed once, nodes twice, so that small keys do not stand where nodes do.
    places = positions(positions(nodes))
    order = np.argsort(places, kind="stable")
    return places[order], nodes[order] // virtual_nodes


def first_nodes(places: IntArray, keys: IntArray) -> IntArray:
    """Return for each key the index of the first node at or behind it on the ring."""
    nodes: IntArray = np.searchsorted(places, positions(keys)) % max(1, len(places))
    return nodes
