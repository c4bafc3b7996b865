"""The linear program over subsets, its bounds, and the search for disjoint subsets."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from bfio.step.exact.columns import PRICE_SCALE, ColumnGeneration
from bfio.step.exact.effort import Effort
from bfio.step.exact.fill import FillProblem, reduce_to_fill
from bfio.step.exact.master import Pool, empty_basis, improve_basis, start_basis
from tests.step.exact.cases import instant


def _core(capacity: list[int], base: list[int], sizes: list[int]) -> FillProblem:
    core = reduce_to_fill(instant(capacity, base, sizes))
    assert core is not None
    return core


@st.composite
def _tight_cores(draw: st.DrawFn) -> tuple[FillProblem, int]:
    """Two or three workers of one to three slots, more requests than slots, and a peak."""
    capacity = draw(st.sampled_from(([1, 1], [2, 1], [1, 2], [2, 2], [1, 1, 1], [3, 1])))
    W = len(capacity)
    scale = draw(st.sampled_from((1, 50_000)))
    N = sum(capacity) + draw(st.integers(1, 2))
    sizes = [s * scale for s in draw(st.lists(st.integers(0, 12), min_size=N, max_size=N))]
    base = [b * scale for b in draw(st.lists(st.integers(0, 6), min_size=W, max_size=W))]
    return _core(capacity, base, sizes), draw(st.integers(max(base) // scale, 30)) * scale


def _placements(core: FillProblem) -> list[tuple[int, int]]:
    """Enumerate all ways to fill all slots: peak and total of each."""
    found = [(int(core.base.max()), 0, frozenset(range(len(core.sizes))))]
    for load, count in zip(core.base.tolist(), core.capacity.tolist(), strict=True):
        longer = set()
        for peak, total, free in found:
            for subset in combinations(sorted(free), count):
                tokens = int(core.sizes[list(subset)].sum())
                longer.add((max(peak, load + tokens), total + tokens, free - set(subset)))
        found = list(longer)
    return [(peak, total) for peak, total, _ in found]


def _largest_total(core: FillProblem, peak: int) -> int | None:
    """Most tokens that fill all slots under ``peak``."""
    return max((total for p, total in _placements(core) if p <= peak), default=None)


def _check(core: FillProblem, peak: int, owner: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
    """Assert that an owner fills all slots under the peak; return its total."""
    W = len(core.base)
    assert [int((owner == g).sum()) for g in range(W)] == core.capacity.tolist()
    assert all(core.base[g] + core.sizes[owner == g].sum() <= peak for g in range(W))
    return int(core.sizes[owner >= 0].sum())


@given(_tight_cores())
def test_no_bound_is_below_the_best_total(case: tuple[FillProblem, int]) -> None:
    """A placement under the peak has at most the bound's total."""
    core, peak = case
    best = _largest_total(core, peak)
    generation = ColumnGeneration(core, int(core.sizes.sum()), Effort())
    generation.start(peak, np.full(len(core.sizes), -1))
    total, _ = generation.bound_total(peak, -1)
    assert best is None or total >= best


@given(_tight_cores())
def test_equal_sizes_share_a_price(case: tuple[FillProblem, int]) -> None:
    """Requests of one size cost the same; an integral solution gives each to one worker only."""
    core, peak = case
    generation = ColumnGeneration(core, int(core.sizes.sum()), Effort())
    generation.start(peak, np.full(len(core.sizes), -1))
    total, prices = generation.bound_total(peak, -1)
    for size in np.unique(core.sizes):
        assert len(np.unique(prices[core.sizes == size])) == 1
    owner = generation.placement()
    if total >= 0 and owner is not None:
        assert _check(core, peak, owner) <= total


def test_equal_sizes_by_hand() -> None:
    """A size counts as often as it is there.

    Two workers with one slot and room for 5 take both requests of size 5: 10. If one has two slots
    and room for 10, {5, 5} and 5 would be 15, but there are two of size 5 only: 5 + 5 + 3 = 13.
    """
    core = _core([1, 1], [0, 0], [3, 5, 5])
    generation = ColumnGeneration(core, 5, Effort())
    generation.start(5, np.array([0, -1, -1]))
    assert generation.bound_total(5, -1)[0] == 10
    core = _core([2, 1], [0, 5], [2, 3, 5, 5])
    generation = ColumnGeneration(core, 10, Effort())
    generation.start(10, np.full(4, -1))
    assert generation.bound_total(10, -1)[0] == 13


@given(_tight_cores())
def test_raised_bounds_are_valid(case: tuple[FillProblem, int]) -> None:
    """Prices of one peak bound the peaks around it."""
    core, peak = case
    generation = ColumnGeneration(core, int(core.sizes.sum()), Effort())
    generation.start(peak, np.full(len(core.sizes), -1))
    _, prices = generation.bound_total(peak, -1)
    first = max(int(core.base.max()), peak - 2)
    bounds = np.full(5, -(10**9))
    generation.raise_bounds(first, prices, bounds, 1 << 60)
    for needed, total in _placements(core):
        for k in range(5):
            assert needed > first + k or bounds[k] <= core.value(first + k, total)


def test_linear_program_by_hand() -> None:
    """Two workers with one slot and room for 6 want the same 6; the other sizes are 1 and 1.

    The best total is 7, and the prices 5, 0, 0 prove it.
    """
    core = _core([1, 1], [0, 0], [6, 1, 1])
    generation = ColumnGeneration(core, 6, Effort())
    generation.start(6, np.array([-1, 0, 1]))
    total, prices = generation.bound_total(6, -1)
    assert total == 7
    assert prices.tolist() == [0, 0, 5 * PRICE_SCALE]


@pytest.mark.parametrize("seed", range(5))
def test_simplex_reaches_the_optimum(seed: int) -> None:
    """A pool of random columns against another solver, from slacks and from a placement."""
    rng = np.random.default_rng(seed)
    W, N, K = 4, 12, 60
    columns = np.array([rng.choice(N, 2, replace=False) for _ in range(K)])
    owner = np.arange(K) % W
    sizes = rng.integers(1, 50, N)
    worth = sizes[columns].sum(axis=1).astype(np.float64)
    columns[:W] = np.arange(2 * W).reshape(W, 2)
    worth[:W] = sizes[: 2 * W].reshape(W, 2).sum(axis=1)
    rows = np.zeros((W + N, K))
    rows[owner, np.arange(K)] = 1
    rows[W + columns.T, np.arange(K)] = 1
    expected = linprog(
        -worth, A_ub=rows[W:], b_ub=np.ones(N), A_eq=rows[:W], b_eq=np.ones(W), method="highs"
    )
    pool = Pool(columns, owner, worth)
    for first in (np.full(W, -1), np.arange(W)):
        basis = empty_basis(W + N)
        start_basis(W, np.ones(N, np.int64), first, pool, 1e4, basis)
        improve_basis(W, pool, 1000, basis)
        dual = basis.dual
        assert (dual[W:] >= -1e-9).all()
        # A dual solution that is feasible and whose value is the optimum is optimal.
        assert (rows.T @ dual >= worth - 1e-6).all()
        assert dual.sum() == pytest.approx(-expected.fun, abs=1e-5)
