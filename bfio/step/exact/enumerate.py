"""Depth-first enumeration of placements, for small problems and small remaining gaps."""

import numpy as np

from bfio.common.kernels import entry_point
from bfio.step.exact.peaks import OpenWorkers
from bfio.step.exact.sums import sums_of_first
from formulations.arrays import IntArray

#: Operations of one node.
NODE = 200


@entry_point
def enumerate_placements(
    workers: OpenWorkers,
    sizes: IntArray,
    incumbent: int,
    target: int,
    node_limit: int,
    owner: IntArray,
) -> tuple[int, int, bool]:
    """Search all placements of objective below ``incumbent``, largest request first.

    Each request is tried on the workers in order, and then waiting. Of equal sizes, a later
    request never takes a lower worker than an earlier request.

    The function is long because the search is one loop whose stack is local arrays.

    Parameters
    ----------
    sizes : IntArray
        Shape (N,), ascending.
    incumbent, target : int
        Objective of the incumbent, and objective at which to stop.
    owner : IntArray
        Shape (N,), filled with the worker of each size if a better placement is found.

    Returns
    -------
    tuple of (int, int, bool)
        Best objective, nodes, and whether the search was exhausted (or met the target).
    """
    num_workers, total_base, peak, base, capacity = workers
    N = len(sizes)
    W = len(base)
    slots = capacity.sum()
    admitted = min(N, slots)
    below = sums_of_first(sizes)
    loads = base.copy()
    free = capacity.copy()
    choice = np.full(N, -1, np.int64)
    peaks = np.empty(N + 1, np.int64)
    peaks[0] = peak
    placed = 0
    total = 0
    depth = 0
    nodes = 0
    while depth >= 0:
        if depth == N:
            value = num_workers * peaks[N] - total_base - total
            if value < incumbent:
                incumbent = value
                for d in range(N):
                    owner[N - 1 - d] = choice[d] if choice[d] < W else -1
                if incumbent <= target:
                    return incumbent, nodes, True
            depth -= 1
            continue
        size = sizes[N - 1 - depth]
        current = choice[depth]
        if 0 <= current < W:
            loads[current] -= size
            free[current] += 1
            placed -= 1
            total -= size
        following = current + 1
        if current < 0 and depth > 0 and size == sizes[N - depth]:
            following = choice[depth - 1]
        rest = N - depth - 1
        found = False
        while following <= W and not found:
            if following < W:
                if free[following] > 0:
                    top = max(peaks[depth], loads[following] + size)
                    left = admitted - placed - 1
                    room = top - loads[following] - size if free[following] > 1 else 0
                    for g in range(W):
                        if g != following and free[g] > 0:
                            room += top - loads[g]
                    largest = below[rest] - below[rest - left]
                    bound = num_workers * top - total_base - total - size - min(room, largest)
                    found = bound < incumbent
            else:
                left = admitted - placed
                found = rest >= left
            if not found:
                following += 1
        if not found:
            choice[depth] = -1
            depth -= 1
            continue
        nodes += 1
        if nodes > node_limit:
            return incumbent, nodes, False
        choice[depth] = following
        peaks[depth + 1] = peaks[depth]
        if following < W:
            loads[following] += size
            free[following] -= 1
            placed += 1
            total += size
            peaks[depth + 1] = max(peaks[depth], loads[following])
        depth += 1
    return incumbent, nodes, True
