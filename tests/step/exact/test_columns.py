"""The linear program over subsets, its bounds, and the search for disjoint subsets."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from bfio.step.exact.columns import PRICE_SCALE, ColumnGeneration
from bfio.step.exact.cover import Columns, cover_workers
from bfio.step.exact.effort import Effort
from bfio.step.exact.fill import FillProblem, reduce_to_fill
from bfio.step.exact.master import Pool, empty_basis, improve_basis, start_basis
from tests.step.exact.cases import instant, spent


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
def test_bound_and_search_agree_with_enumeration(case: tuple[FillProblem, int]) -> None:
    """No bound is below the best total, and the search finds it and nothing above it."""
    core, peak = case
    best = _largest_total(core, peak)
    generation = ColumnGeneration(core, int(core.sizes.sum()), Effort())
    generation.start(peak, np.full(len(core.sizes), -1))
    total, prices = generation.bound_total(peak, -1)
    if best is None:
        assert generation.search(peak, prices, 0)[0] is None
        return
    assert total >= best
    owner, _ = generation.search(peak, prices, best)
    assert owner is not None
    assert _check(core, peak, owner) >= best
    assert generation.search(peak, prices, best + 1) == (None, True)


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


def test_cover_backtracks() -> None:
    """Worker 0 takes 0 or 1, worker 1 only 0: the cheap column of worker 0 has to give way."""
    owner = np.full(3, -1)
    columns = Columns(np.array([[0], [0], [1]]), np.array([0, 1, 0]), np.array([0, 0, 1]))
    arguments = columns, 2, np.array([5, 4, 3]), np.zeros(3, np.int64)
    assert cover_workers(*arguments, 0, 9, 100, owner, spent()) == (False, True)
    assert cover_workers(*arguments, 1, 9, 100, owner, spent()) == (True, True)
    assert owner.tolist() == [1, 0, -1]
    assert not cover_workers(*arguments, 1, 9, -1, np.full(3, -1), spent())[1]


def test_cover_ends_only_when_all_is_searched() -> None:
    """Thirty requests of size 1 for worker 0, and one that lets the total be met comes last.

    However many choices fall short of the total, none may be called the last too soon.
    """
    members = np.arange(31)[:, None]
    columns = Columns(members, np.zeros(31, np.int64), np.zeros(31, np.int64))
    sizes = np.ones(31, np.int64)
    sizes[30] = 2
    owner = np.full(31, -1)
    assert cover_workers(columns, 1, sizes, np.zeros(31, np.int64), 0, 2, 100, owner, spent()) == (
        True,
        True,
    )
    assert owner.tolist() == [-1] * 30 + [0]


def test_cover_agrees_with_enumeration() -> None:
    """Random columns and prices: a placement is found if and only if the budget allows one."""
    rng = np.random.default_rng(12)
    met = 0
    for _ in range(150):
        W, N, K = 3, 6, 12
        members = np.array([rng.choice(N, 2, replace=False) for _ in range(K)])
        worker = np.concatenate([np.arange(W), rng.integers(0, W, K - W)])
        cost, prices = np.sort(rng.integers(0, 6, K)), rng.integers(0, 4, N)
        rng.shuffle(worker)
        least = min(
            (
                int(cost[list(chosen)].sum() + prices.sum() - prices[members[list(chosen)]].sum())
                for chosen in product(*(np.flatnonzero(worker == g).tolist() for g in range(W)))
                if len(np.unique(members[list(chosen)])) == 2 * W
            ),
            default=10**6,
        )
        budget = int(rng.integers(0, 14))
        columns = Columns(members, worker, cost)
        owner = np.full(N, -1)
        sizes = np.ones(N, np.int64)
        found = cover_workers(columns, W, sizes, prices, budget, 2 * W, 10**6, owner, spent())
        # The search may overlook no placement within the budget; beyond it any is welcome.
        assert found[1]
        assert found[0] or least > budget
        met += found[0]
    assert 20 < met < 130
