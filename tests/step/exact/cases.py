"""Step problems with a one-dimensional core, and a brute force that shares no code with it."""

from itertools import product

import numpy as np
from hypothesis import strategies as st

from formulations.arrays import IntArray
from formulations.step.problem import StepProblem

#: Tiny tokens make ties, huge ones exceed every table.
_SCALES = (1, 3, 20, 1000, 1_000_000)


def instant(capacity: list[int], base: list[int], sizes: list[int]) -> StepProblem:
    """Return the problem of one step without look-ahead."""
    return StepProblem(
        np.array(capacity),
        np.array(base)[:, None],
        np.array(sizes, dtype=np.int64)[:, None],
    )


def spent() -> IntArray:
    """Return a count of operations at 0."""
    return np.zeros(1, dtype=np.int64)


def smallest_imbalance(problem: StepProblem) -> int:
    """Enumerate every assignment that admits exactly U requests, in plain Python.

    Only for the imbalance without further constraints.
    """
    G = problem.num_workers
    base = problem.base.tolist()
    contribution = problem.contribution.tolist()
    capacity = problem.capacity.tolist()
    best = None
    for choice in product(range(G + 1), repeat=problem.num_requests):
        counts = [choice.count(g) for g in range(G)]
        if sum(counts) != problem.num_admitted:
            continue
        if any(n > c for n, c in zip(counts, capacity, strict=True)):
            continue
        value = 0
        for h, weight in enumerate(problem.weights):
            loads = [row[h] for row in base]
            for i, g in enumerate(choice):
                if g < G:
                    loads[g] += contribution[i][h]
            value += weight * (G * max(loads) - sum(loads))
        best = value if best is None else min(best, value)
    assert best is not None
    return best


@st.composite
def core_problems(draw: st.DrawFn, *, max_workers: int = 4, most: int = 1500) -> StepProblem:
    """Any problem with a one-dimensional core and about ``most`` assignments.

    One step, or a window of equal loads, constant contributions, or growth that full slots share.
    """
    G = draw(st.integers(1, max_workers))
    N = draw(st.integers(0, int(np.log(most) / np.log(G + 1))))
    tokens = st.integers(0, draw(st.sampled_from(_SCALES)))
    capacity = draw(st.lists(st.integers(0, 4), min_size=G, max_size=G))
    base = draw(st.lists(tokens, min_size=G, max_size=G))
    sizes = draw(st.lists(tokens, min_size=N, max_size=N))
    return _with_window(draw, capacity, base, sizes)


def _with_window(
    draw: st.DrawFn, capacity: list[int], base: list[int], sizes: list[int]
) -> StepProblem:
    """Extend one step to a window whose steps differ by common shifts."""
    steps = draw(st.integers(1, 3))
    clipped = [min(c, len(sizes)) for c in capacity]
    full = len(sizes) >= sum(clipped)
    growth = draw(st.integers(0, 2)) if full else 0
    drift = draw(st.integers(0, 5))
    # A worker with more free slots has fewer requests that grow: all end with equally many.
    rows = [
        [b + h * (drift + growth * (10 - c)) for h in range(steps)]
        for b, c in zip(base, clipped, strict=True)
    ]
    contribution = np.array([[s + growth * h for h in range(steps)] for s in sizes])
    return StepProblem(
        np.array(capacity),
        np.array(rows),
        contribution.reshape(len(sizes), steps).astype(np.int64),
        weights=tuple(draw(st.integers(0, 3)) for _ in range(steps)),
    )


def crowded(seed: int, workers: int, waiting: int, tokens: int, slots: int) -> StepProblem:
    """Return a step of an overloaded cluster: long loads, few free slots, a pool of requests."""
    rng = np.random.default_rng(seed)
    base = rng.integers(10 * tokens, 12 * tokens, workers)
    capacity = np.bincount(rng.integers(0, workers, slots), minlength=workers)
    sizes = rng.geometric(1 / tokens, waiting)
    return instant(capacity.tolist(), base.tolist(), sizes.tolist())
