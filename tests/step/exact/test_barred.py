"""Workers that must not take some sizes, against enumeration."""

from itertools import combinations

import numpy as np
import pytest

from bfio.step.exact.barred import BarredWorkers, add_allowed, best_allowed
from bfio.step.exact.subsets import Table
from bfio.step.exact.sums import UNREACHABLE
from formulations.arrays import IntArray


def _best(sizes: IntArray, values: IntArray, allowed: IntArray, count: int, room: int) -> int:
    """Return the largest value of ``count`` allowed requests that fit, by enumeration."""
    fitting = (
        int(values[list(chosen)].sum())
        for chosen in combinations(allowed.tolist(), count)
        if sizes[list(chosen)].sum() <= room
    )
    return max(fitting, default=UNREACHABLE)


def _workers(rng: np.random.Generator, requests: int) -> BarredWorkers:
    number = int(rng.integers(1, 4))
    return BarredWorkers(
        rng.integers(0, 12, number),
        rng.integers(1, 4, number),
        rng.random((number, requests)) < 0.7,
    )


@pytest.mark.parametrize("small", [True, False])
def test_values_and_subsets_are_those_of_enumeration(small: bool) -> None:
    """At one peak and at many, with too few allowed requests and with no room among them."""
    rng = np.random.default_rng(8)
    nothing, filled = 0, 0
    for _ in range(150):
        requests = int(rng.integers(1, 8))
        sizes = np.sort(rng.integers(0, 12, requests))
        values = rng.integers(-9, 20, requests)
        units: Table = values.astype(np.int32) if small else values
        workers = _workers(rng, requests)
        peaks = np.unique(rng.integers(0, 40, 3))
        total = np.zeros(len(peaks), dtype=np.int64)
        add_allowed(workers, peaks, sizes, values, units, total)
        for peak, sum_of_all in zip(peaks.tolist(), total.tolist(), strict=True):
            spent = np.zeros(1, dtype=np.int64)
            best, subsets, _ = best_allowed(workers, peak, sizes, values, units, 10_000, spent)
            by_hand = []
            for p, (base, count) in enumerate(zip(workers.base, workers.capacity, strict=True)):
                allowed = np.flatnonzero(workers.allowed[p])
                by_hand.append(_best(sizes, values, allowed, int(count), peak - int(base)))
                if by_hand[-1] == UNREACHABLE:
                    assert best[p] <= UNREACHABLE // 2
                    nothing += 1
                    continue
                chosen = subsets[p][subsets[p] >= 0]
                assert best[p] == by_hand[-1] == values[chosen].sum()
                assert len(chosen) == count
                assert set(chosen) <= set(allowed)
                assert sizes[chosen].sum() <= peak - base
                filled += 1
            if min(by_hand) == UNREACHABLE:
                assert sum_of_all <= UNREACHABLE // 2
            else:
                assert sum_of_all == sum(by_hand)
    assert min(nothing, filled) > 50
