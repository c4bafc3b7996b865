"""Packing every request: splits, exchanges, prices, and the whole search."""

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.step.exact import pack_search, solve_exact
from bfio.step.exact.columns import PRICE_SCALE
from bfio.step.exact.effort import Effort
from bfio.step.exact.fill import FillProblem, reduce_to_fill
from bfio.step.exact.pack_search import PackBound, least_peak_by_sums
from bfio.step.exact.place import spread
from bfio.step.exact.rebalance import find_split, rebalance
from formulations.arrays import IntArray
from formulations.errors import InputError
from formulations.step.certificate import Certificate, certified_bound
from tests.step.exact.cases import instant, spent


def _state(seed: int = 1) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array([seed], dtype=np.uint64)


def _core(capacity: list[int], base: list[int], sizes: list[int]) -> FillProblem:
    core = reduce_to_fill(instant(capacity, base, sizes))
    assert core is not None
    return core


def _least_peak(core: FillProblem) -> int:
    """Enumerate all packings in plain Python."""
    peaks: list[int] = []
    for owner in product(range(len(core.base)), repeat=len(core.sizes)):
        loads = core.base.tolist()
        for size, g in zip(core.sizes.tolist(), owner, strict=True):
            loads[g] += size
        counts = np.bincount(owner, minlength=len(loads))
        if (counts <= core.capacity).all():
            peaks.append(max([core.peak, *loads]))
    return min(peaks)


@st.composite
def _packings(draw: st.DrawFn) -> FillProblem:
    """Up to 3 workers and 6 requests that all find a slot."""
    W = draw(st.integers(1, 3))
    capacity = draw(st.lists(st.integers(1, 4), min_size=W, max_size=W))
    largest = draw(st.sampled_from([2, 10, 300]))
    tokens = st.integers(0, largest)
    base = draw(st.lists(tokens, min_size=W, max_size=W))
    most = min(6, sum(capacity))
    sizes = draw(st.lists(tokens, min_size=1, max_size=most))
    # A fourth, closed worker may hold the peak.
    return _core([*capacity, 0], [*base, draw(tokens)], sizes)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=10), st.data())
def test_splits_against_enumeration(sizes: list[int], data: st.DataObject) -> None:
    """A subset within the bounds on sum and number is found if there is one."""
    low = data.draw(st.integers(-5, sum(sizes) + 5))
    high = low + data.draw(st.integers(0, 20))
    fewest = data.draw(st.integers(0, 4))
    most = fewest + data.draw(st.integers(0, 4))
    items = np.arange(len(sizes))
    buffers = np.empty((4, 2, 1024), np.int64)
    seed = data.draw(st.integers(1, 100))
    bits = find_split(items, np.array(sizes), low, high, fewest, most, buffers, _state(seed))
    if bits < 0:
        assert not any(
            low <= sum(subset) <= high
            for n in range(fewest, most + 1)
            for subset in combinations(sizes, n)
        )
    else:
        chosen = [s for i, s in enumerate(sizes) if bits >> i & 1]
        assert low <= sum(chosen) <= high
        assert fewest <= len(chosen) <= most


def _random_packing(seed: int, W: int, N: int) -> tuple[IntArray, IntArray, IntArray]:
    rng = np.random.default_rng(seed)
    sizes = np.sort(rng.geometric(1 / 500, N))
    return rng.integers(0, 300, W), np.full(W, N // W + 2), sizes


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 60))
def test_loads_are_kept_up_to_date(seed: int, W: int, N: int) -> None:
    """Whatever is moved: every request has a worker, loads and slots agree."""
    base, capacity, sizes = _random_packing(seed, W, N)
    owner = np.empty(N, np.int64)
    loads = spread(base, capacity, sizes, owner)
    peak = -(-int(loads.sum()) // W)
    met = rebalance(peak, capacity, sizes, owner, loads, 50, _state(seed + 1), spent())
    assert met == (loads.max() <= peak)
    assert (np.bincount(owner, minlength=W) <= capacity).all()
    expected = base.copy()
    np.add.at(expected, owner, sizes)
    assert loads.tolist() == expected.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_rebalancing_finds_a_perfect_packing(seed: int) -> None:
    """16 workers, 128 requests of a heavy tail: mean load or largest size is reached."""
    rng = np.random.default_rng(seed)
    sizes = np.sort(np.rint(np.exp(rng.normal(np.log(800), 0.8, 128)))).astype(np.int64)
    core = _core([72] * 16, [0] * 16, sizes.tolist())
    result = solve_exact(instant([72] * 16, [0] * 16, sizes.tolist()), fallback=None)
    assert result.proven
    assert result.method == "closed-form"
    assert core.peak_of(result.objective or 0) == max(sizes[-1], -(-int(sizes.sum()) // 16))


@pytest.mark.parametrize("seed", range(4))
def test_all_loads_are_made_equal(seed: int) -> None:
    """Eight empty workers of 8 slots and 96 requests: all loads can be made equal, J = 0."""
    rng = np.random.default_rng(seed)
    problem = instant([8] * 8, [0] * 8, rng.geometric(1 / 900, 96).tolist())
    result = solve_exact(problem, fallback=None)
    assert result.proven
    assert result.objective == 0


def test_loads_meet_that_of_a_closed_worker() -> None:
    """A closed worker at 3,000 sets the peak, and the three others reach it exactly."""
    sizes = np.random.default_rng(5).geometric(1 / 400, 60).tolist()
    result = solve_exact(instant([6, 6, 6, 0], [0, 0, 0, 3000], sizes), fallback=None)
    assert result.proven
    assert result.objective == 0


@given(_packings())
def test_priced_peaks_are_valid(core: FillProblem) -> None:
    """The bound lies between the closed form and the optimum, and its certificate holds."""
    least = _least_peak(core)
    first = core.least_peak_for_all()
    last = max(first, int(core.base.max() + core.sizes.sum()))
    pricing = PackBound(core, last, Effort())
    pricing.prepare()
    raised = pricing.raise_peak(first, lambda: False)
    assert first <= raised <= least


@pytest.mark.parametrize("most", [0, 3000, 1 << 24])
def test_tables_with_rows_for_some_numbers(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Largest values by enumeration, for workers that have rows for their slots or none."""
    monkeypatch.setattr(pack_search, "_MAX_COUNTED", most)
    rng = np.random.default_rng(8)
    for _ in range(20):
        sizes = np.sort(rng.integers(0, 30, 7))
        core = _core([1, 2, 4, 6, 0], rng.integers(0, 20, 5).tolist(), sizes.tolist())
        last = int(core.base.max()) + int(rng.integers(0, 60))
        pricing = PackBound(core, last, Effort())
        pricing.prepare()
        prices = rng.integers(0, 12 * PRICE_SCALE, 7)
        worth = PRICE_SCALE * sizes - prices
        subsets = [list(s) for n in range(8) for s in combinations(range(7), n)]
        exact, loose = (
            sum(
                max(
                    int(worth[s].sum())
                    for s in subsets
                    if sizes[s].sum() <= last - base and len(s) <= max(slots, least)
                )
                for base, slots in zip(core.base.tolist(), core.capacity.tolist(), strict=True)
            )
            for least in (0, 7)
        )
        found = pricing.total_under(prices, last) - int(prices.sum())
        assert exact <= found <= loose
        assert most == 3000 or found == (loose if most == 0 else exact)


@given(_packings())
def test_peaks_by_sums_are_those_of_each_worker_alone(core: FillProblem) -> None:
    """The least peak with enough largest sums, by enumeration; prices 0 certify it."""
    capacity, base = [*core.capacity.tolist(), 0], [*core.base.tolist(), core.peak]
    core = _core(capacity, base, core.sizes.tolist())
    first = core.least_peak_for_all()
    last = max(first, int(core.base.max() + core.sizes.sum()))
    sizes = core.sizes.tolist()
    sums = [(len(s), sum(s)) for n in range(len(sizes) + 1) for s in combinations(sizes, n)]
    expected = next(
        peak
        for peak in range(first, last + 1)
        if sum(
            max(x for n, x in sums if n <= slots and x <= peak - base)
            for base, slots in zip(core.base.tolist(), core.capacity.tolist(), strict=True)
        )
        >= sum(sizes)
    )
    assert least_peak_by_sums(core, first, last, Effort()) == expected
    problem = instant(capacity, base, sizes)
    claim = core.num_workers * expected - core.total_base - sum(sizes)
    zeros = ((0,) * len(sizes),)
    assert certified_bound(problem, Certificate("sums", claim, zeros, PRICE_SCALE)) == claim


@given(_packings())
def test_search_finds_the_least_peak(core: FillProblem) -> None:
    """The search equals enumeration, and its certificate is re-derived; one more is refused."""
    capacity = [*core.capacity.tolist(), 0]
    problem = instant(capacity, [*core.base.tolist(), core.peak], core.sizes.tolist())
    own = reduce_to_fill(problem)
    assert own is not None
    result = solve_exact(problem, fallback=None)
    assert result.proven
    assert own.peak_of(result.objective or 0) == _least_peak(own)
    assert result.certificate is not None
    assert certified_bound(problem, result.certificate) == result.bound


def test_prices_beat_the_area_by_hand() -> None:
    """Four requests of 5 and one of 1 on three workers: the area allows 7, two 5s need 10.

    Price 5/2 on each 5: under peak 9 a worker holds one 5 and the 1, worth 5/2 + 1; in all
    4·5/2 + 3·(5/2 + 1) = 20.5 < 21 tokens, so 9 is too low.
    """
    problem = instant([9, 9, 9], [0, 0, 0], [5, 5, 5, 5, 1])
    claim = 3 * 10 - 21
    prices = ((5, 5, 5, 5, 0),)
    assert certified_bound(problem, Certificate("sums", claim, prices, 2)) == claim
    result = solve_exact(problem, fallback=None)
    assert result.objective == claim
    with pytest.raises(InputError, match="does not prove"):
        certified_bound(problem, Certificate("sums", claim + 1, prices, 2))


def test_prices_are_needed_and_checked() -> None:
    """Of tight packings some are closed by prices only: stripped of them they prove nothing."""
    stripped = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        sizes = rng.choice([403, 398, 251, 249, 102], 22)
        problem = instant([9] * 6, [0] * 6, sizes.tolist())
        result = solve_exact(problem, fallback=None, node_limit=0)
        certificate = result.certificate
        assert certificate is not None
        assert certificate.price_scale == PRICE_SCALE
        assert certified_bound(problem, certificate) == result.bound
        if result.method == "bound":
            bare = Certificate("sums", certificate.bound)
            with pytest.raises(InputError, match="does not prove"):
                certified_bound(problem, bare)
            stripped += 1
    assert stripped > 0


def test_workers_together_force_a_peak() -> None:
    """Of 1, 9 and 9 on top of 4 and 0: alone 4 + 1, together (4 + 0 + 1 + 9) / 2."""
    assert _core([1, 1], [4, 0], [1, 9, 9]).first_peak() == 7


def test_wide_ranges_of_peaks_are_narrowed_first() -> None:
    """Sizes up to a million leave too many peaks to bound, 2,000 requests dear ones."""
    sizes = np.random.default_rng(3).integers(1, 10**6, 40).tolist()
    found = solve_exact(instant([4] * 4, [0, 1, 2, 3], sizes), fallback=None, work_limit=100_000)
    assert found.objective is not None
    assert found.objective < 1_000
    sizes = np.random.default_rng(1).integers(1, 20_000, 2000).tolist()
    base = np.random.default_rng(2).integers(10**5, 12 * 10**4, 200).tolist()
    crowded = solve_exact(instant([2] * 200, base, sizes), fallback=None, work_limit=100_000)
    assert crowded.proven
    assert crowded.objective == 0
