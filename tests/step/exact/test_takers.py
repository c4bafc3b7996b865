"""Best subsets of all workers, each with the requests that it may take, against enumeration."""

from itertools import combinations

import numpy as np
import pytest

from bfio.step.exact.master import Pool
from bfio.step.exact.subsets import Table, Takers, Work, add_best, add_values_of_all
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


def _work(takers: Takers) -> Work:
    """Return counters at zero."""
    reach = np.full(takers.capacity.max() + 1, -1)
    return Work(np.zeros(1, np.int64), np.zeros(2, np.int64), reach)


def _takers(rng: np.random.Generator, sizes: IntArray) -> Takers:
    """Return random workers; each request is a kind of its own."""
    requests = len(sizes)
    number = int(rng.integers(1, 4))
    allowed = rng.random((number, requests)) < 0.7
    allowed[0] = True
    return Takers(
        rng.integers(0, 12, number),
        rng.integers(1, 4, number),
        rng.integers(0, number, number),
        allowed,
        sizes,
        np.arange(requests),
    )


@pytest.mark.parametrize("small", [True, False])
def test_values_and_subsets_are_those_of_enumeration(small: bool) -> None:
    """At one peak and at many, with too few allowed requests and with no room among them."""
    rng = np.random.default_rng(8)
    nothing, filled = 0, 0
    for _ in range(200):
        requests = int(rng.integers(1, 8))
        sizes = np.sort(rng.integers(0, 12, requests))
        values = rng.integers(-9, 20, requests)
        typed: Table = values.astype(np.int32) if small else values
        takers = _takers(rng, sizes)
        W = len(takers.base)
        # No dual is above the size of a subset.
        dual = np.full(W + requests, -1.0)
        peaks = np.unique(rng.integers(0, 40, 3))
        total = np.zeros(len(peaks), dtype=np.int64)
        add_values_of_all(takers, peaks, typed, total, _work(takers))
        for peak, sum_of_all in zip(peaks.tolist(), total.tolist(), strict=True):
            by_hand = [
                _best(
                    sizes, values, np.flatnonzero(takers.allowed[q]), int(count), peak - int(base)
                )
                for base, count, q in zip(*takers[:3], strict=True)
            ]
            pool = Pool(np.full((W, 3), 7), np.empty(W, np.int64), np.empty(W))
            found, number = add_best(takers, peak, typed, dual, pool, 0, _work(takers))
            if min(by_hand) == UNREACHABLE:
                assert found <= UNREACHABLE // 2
                assert sum_of_all <= UNREACHABLE // 2
                assert number == 0
                nothing += 1
                continue
            assert found == sum_of_all == sum(by_hand)
            assert sorted(pool.worker.tolist()) == list(range(number)) == list(range(W))
            for g, members, worth in zip(pool.worker, pool.members, pool.worth, strict=True):
                chosen = members[members >= 0]
                assert values[chosen].sum() == by_hand[g]
                assert len(np.unique(chosen)) == takers.capacity[g]
                assert takers.allowed[takers.menu[g], chosen].all()
                assert sizes[chosen].sum() == worth <= peak - takers.base[g]
                filled += 1
    assert min(nothing, filled) > 50


def test_only_subsets_that_improve_the_program_are_added() -> None:
    """By hand: worth 5 for a worker whose dual is 3; the request costs 1, or 2 as well."""
    sizes = np.array([5])
    zero = np.zeros(1, np.int64)
    one = np.ones(1, np.int64)
    takers = Takers(zero, one, zero, np.ones((1, 1), dtype=np.bool_), sizes, zero)
    for price, added in ((1.0, 1), (2.0, 0)):
        pool = Pool(np.empty((1, 1), np.int64), np.empty(1, np.int64), np.empty(1))
        dual = np.array([3.0, price])
        assert add_best(takers, 5, sizes, dual, pool, 0, _work(takers)) == (5, added)
