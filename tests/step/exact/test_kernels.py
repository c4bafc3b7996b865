"""Each kernel alone, against enumeration."""

from itertools import combinations, permutations
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bfio.step.exact.place import refill, spread_largest
from bfio.step.exact.subsets import (
    SMALL_VALUE,
    PricedRequests,
    Table,
    collect_subsets,
    fill_table,
    largest_value,
    last_sums,
    most_valuable,
    prefix_values,
    with_parts,
)
from bfio.step.exact.sums import UNREACHABLE, floors, largest_nested_total
from bfio.step.exact.windows.pricing import BLOCK, Priced, collect_best, fill_tables
from tests.step.exact.cases import spent

_SIZES = st.lists(st.integers(0, 70), min_size=1, max_size=7)


def test_floors_by_hand() -> None:
    """Pairs of 1, 3, 4 sum to 4, 5, 7; nothing below 4."""
    table = floors(np.array([1, 3, 4]), np.array([2]), 8)
    assert table.tolist() == [[-1, -1, -1, -1, 4, 5, 5, 7, 7]]


@given(_SIZES, st.integers(1, 7), st.integers(0, 300))
def test_floors(sizes: list[int], cardinality: int, limit: int) -> None:
    """The largest c-subset sum below each x, across word borders at 64 and 128."""
    table = floors(np.array(sizes), np.array([cardinality]), limit)[0]
    sums = {sum(s) for s in combinations(sizes, cardinality)}
    for x in range(limit + 1):
        assert table[x] == max((s for s in sums if s <= x), default=-1)


def _priced(
    sizes: list[int], values: list[int], most: int, limit: int, kind: type, lowest: int = 0
) -> PricedRequests:
    """Fill a table up to ``limit`` for sets of ``lowest`` requests on; the tops beyond it."""
    own = np.where(np.arange(most + 1) < lowest, 0, limit)
    reach = with_parts(own)
    cells: Table = np.empty((most + 1, limit + 1), kind)
    fill_table(np.array(sizes), np.array(values, kind), reach, cells)
    order = sorted(range(len(sizes)), key=lambda i: (-values[i], sizes[i]))[:most]
    top_sum, top_value = np.full((2, most + 1), UNREACHABLE)
    for c in range(len(order) + 1):
        top_sum[c] = sum(sizes[i] for i in order[:c])
        top_value[c] = sum(values[i] for i in order[:c])
    worth = np.array(values, dtype=np.int64)
    tops = np.array(order), top_sum, top_value
    return PricedRequests(np.array(sizes), worth, prefix_values(worth, most), *tops, cells, reach)


@given(_SIZES, st.data(), st.sampled_from([np.int32, np.int64]))
def test_priced_subsets(sizes: list[int], data: st.DataObject, kind: type) -> None:
    """Best values of every cardinality, and all subsets within a distance of them."""
    sizes.sort()
    worth = st.integers(-50, 50) if kind is np.int64 else st.integers(-(2**26), 2**26)
    values = data.draw(st.lists(worth, min_size=len(sizes), max_size=len(sizes)))
    most = data.draw(st.integers(1, 4))
    limit = data.draw(st.integers(0, 150))
    lowest = data.draw(st.integers(1, most))
    requests = _priced(sizes, values, most, limit, kind, lowest)
    distance = data.draw(st.integers(0, 60))
    for c in range(lowest, most + 1):
        fitting = {
            s: sum(values[i] for i in s)
            for s in combinations(range(len(sizes)), c)
            if sum(sizes[i] for i in s) <= limit
        }
        best = largest_value(requests, c, limit)
        assert best == max(fitting.values(), default=UNREACHABLE)
        if not fitting:
            continue
        found = np.empty((40, c), np.int64)
        number, complete = collect_subsets(
            requests, c, limit, best - distance, 10**6, found, spent()
        )
        assert complete
        listed = [tuple(sorted(row)) for row in found[:number].tolist()]
        assert sorted(listed) == sorted(s for s, v in fitting.items() if v >= best - distance)


@given(st.lists(st.integers(-9, 9), max_size=8), st.integers(1, 4))
def test_prefix_values(values: list[int], most: int) -> None:
    """Sums of the most valuable requests among the first i."""
    prefix = prefix_values(np.array(values, dtype=np.int64), most)
    for i in range(len(values) + 1):
        ranked = sorted(values[:i], reverse=True)
        for c in range(most + 1):
            assert prefix[i, c] == (sum(ranked[:c]) if c <= i else UNREACHABLE)


def test_subsets_by_hand() -> None:
    """Of 3, 4, 5 worth 3, 4, 1, two of sum <= 8: {3, 4} is worth 7; {3, 5} is worth 4."""
    requests = _priced([3, 4, 5], [3, 4, 1], 2, 8, np.int32)
    assert largest_value(requests, 2, 8) == 7
    assert largest_value(requests, 2, 6) == UNREACHABLE
    assert SMALL_VALUE > 8
    found = np.empty((1, 2), np.int64)
    assert collect_subsets(requests, 2, 8, 7, 100, found, spent()) == (1, True)
    assert found.tolist() == [[1, 0]]


def test_giving_up_is_said() -> None:
    """A search cut short, by scans or by room for what it finds, does not claim to be complete."""
    requests = _priced([1, 2, 3], [1, 2, 3], 1, 3, np.int64)
    found = np.empty((3, 1), np.int64)
    assert collect_subsets(requests, 1, 3, 1, 100, found, spent()) == (3, True)
    assert not collect_subsets(requests, 1, 3, 1, 2, found, spent())[1]
    assert collect_subsets(requests, 1, 3, 1, 100, found[:2], spent()) == (2, False)


@given(
    st.lists(st.integers(0, 9), max_size=5),
    st.lists(st.integers(0, 9), max_size=3),
)
def test_nested_total(sizes: list[int], thresholds: list[int]) -> None:
    """The greedy on nested thresholds is a best matching; -1 if none is complete."""
    totals = [
        sum(chosen)
        for chosen in permutations(sizes, len(thresholds))
        if all(s <= t for s, t in zip(chosen, thresholds, strict=True))
    ]
    found = largest_nested_total(
        np.array(sorted(sizes), dtype=np.int64), np.array(sorted(thresholds), dtype=np.int64)
    )
    assert found == max(totals, default=-1)


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(0, 40), st.sampled_from([1, 10**9]))
def test_refills_keep_their_promises(seed: int, workers: int, most: int, tokens: int) -> None:
    """Every worker keeps its number of requests; a success is within margins and the total."""
    rng = np.random.default_rng(seed)
    capacity = rng.integers(1, 6, workers)
    sizes = np.sort(rng.integers(0, 100, int(capacity.sum()) + int(rng.integers(0, 10)))) * tokens
    margins = rng.integers(0, 300, workers) * tokens
    owner = np.empty(len(sizes), np.int64)
    spread_largest(margins, capacity, sizes, owner)
    failed = refill(margins, sizes, rng.permutation(workers), most * tokens, owner, spent())
    assert np.bincount(owner[owner >= 0], minlength=workers).tolist() == capacity.tolist()
    left = margins - [int(sizes[owner == g].sum()) for g in range(workers)]
    assert -1 <= failed < workers
    assert failed >= 0 or (left.min() >= 0 and left.sum() <= most * tokens)


@given(st.lists(st.integers(0, 60), min_size=3, max_size=9), st.integers(1, 2), st.data())
def test_a_refill_of_one_worker_is_the_best_that_it_looks_at(
    sizes: list[int], slots: int, data: st.DataObject
) -> None:
    """One exchange, or two; the largest free request within half the margin is only the larger."""
    sizes = sorted(sizes)
    own, free = sizes[:slots], sizes[slots:]
    margin = data.draw(st.integers(sum(own), sum(sizes)))
    within = sum(size <= margin // 2 for size in free)
    totals = [sum(own), *(sum(own) - one + other for one in own for other in free)]
    if slots == 2:
        pairs = combinations(range(len(free)), 2)
        totals += [free[i] + free[j] for i, j in pairs if i != within - 1]
    least = margin - max(total for total in totals if total <= margin)
    for most, failed in ((least, -1), (least - 1, 0)):
        if most >= 0:
            owner = np.where(np.arange(len(sizes)) < slots, 0, -1)
            arguments = np.array([margin]), np.array(sizes), np.arange(1), most, owner, spent()
            assert refill(*arguments) == failed


def test_a_refill_takes_requests_of_later_workers() -> None:
    """Margins 9 and 7: the worker of one slot takes the 9; the other fills up with 3 and 4."""
    owner = np.array([-1, 1, -1, 0, 1])
    sizes = np.array([3, 4, 5, 6, 9])
    assert refill(np.array([9, 7]), sizes, np.array([0, 1]), 0, owner, spent()) == -1
    assert owner.tolist() == [1, 1, -1, -1, 0]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.data())
def test_spreading_is_best_for_single_slots(margins: list[int], data: st.DataObject) -> None:
    """With one slot per worker, no placement admits more than the largest-first one."""
    W = len(margins)
    sizes = sorted(data.draw(st.lists(st.integers(0, 9), min_size=W, max_size=W + 2)))
    best = max(
        (
            sum(chosen)
            for chosen in permutations(sizes, W)
            if all(s <= m for s, m in zip(chosen, margins, strict=True))
        ),
        default=-1,
    )
    owner = np.empty(len(sizes), np.int64)
    fits = spread_largest(np.array(margins), np.ones(W, np.int64), np.array(sizes), owner)
    assert (int(np.array(sizes)[owner >= 0].sum()) if fits else -1) == best
    assert np.bincount(owner[owner >= 0], minlength=W).tolist() == [1] * W


def test_spreading_by_hand() -> None:
    """Of 2, 3, 5, 9, the 9 goes to the margin of 10, 5 and 3 to two slots of 8; 2 is left."""
    owner = np.empty(4, np.int64)
    arguments = np.array([1, 2]), np.array([2, 3, 5, 9]), owner
    assert spread_largest(np.array([10, 8]), *arguments)
    assert owner.tolist() == [-1, 1, 1, 0]
    # The two slots must be filled, even beyond a margin of 4.
    assert not spread_largest(np.array([10, 4]), *arguments)
    assert owner.tolist() == [1, 1, -1, 0]


@given(st.integers(0, 2**32), st.integers(1, 8), st.sampled_from([np.int32, np.int64]))
def test_a_set_of_the_best_value_is_found(seed: int, requests: int, width: type) -> None:
    """For every number and sum that some set has."""
    rng = np.random.default_rng(seed)
    sizes = np.sort(rng.integers(1, 7, requests))
    values = rng.integers(-9, 10, (1, requests))
    most, last = min(requests, 4), int(sizes.sum())
    blocks = last // BLOCK + 1
    tables: Any = np.empty((1, most + 1, last + 1), width)
    highest: Any = np.empty((1, most + 1, blocks.bit_length(), blocks), width)
    priced = Priced(sizes, values, values.astype(width), 0, tables, highest, np.zeros(1, np.int64))
    fill_tables(priced, with_parts(np.full(most + 1, last)), spent())
    best: dict[tuple[int, int], int] = {}
    for count in range(most + 1):
        for chosen in combinations(range(requests), count):
            key = (count, int(sizes[list(chosen)].sum()))
            best[key] = max(best.get(key, -100), int(values[0, list(chosen)].sum()))
    counts, totals = np.array(list(best), dtype=np.int64).T.copy()
    bests = prefix_values(values[0], most)[None]
    speeds = np.zeros(len(best), np.int64)
    found, rows = collect_best(priced, speeds, bests, counts, totals, spent())
    assert found.all()
    for row, (count, total), value in zip(rows, best, best.values(), strict=True):
        members = row[:count]
        assert len(set(members.tolist())) == count
        assert sizes[members].sum() == total
        # The search ends at a value that rounding up could not tell from the best.
        assert value - count <= values[0, members].sum() <= value


@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(0, 12), st.integers(0, 30))
def test_the_most_valuable_and_the_last_sums_of_interest(
    seed: int, most: int, num_requests: int, spread: int
) -> None:
    """As sorting says, the smallest of equal value first; of interest is who is not filled so."""
    rng = np.random.default_rng(seed)
    sizes = np.sort(rng.integers(1, 9, num_requests))
    values = rng.integers(-5, 6, num_requests)
    order, top_sum, top_value = most_valuable(sizes, values, most)
    expected = sorted(range(num_requests), key=lambda i: (-values[i], i))[:most]
    assert order.tolist() == expected
    for c in range(most + 1):
        first, known = expected[:c], c <= num_requests
        assert top_sum[c] == (sizes[first].sum() if known else UNREACHABLE)
        assert top_value[c] == (values[first].sum() if known else UNREACHABLE)
    workers = int(rng.integers(1, 5))
    capacity, margins = rng.integers(0, most + 1, workers), rng.integers(-9, 40, workers)
    reach = np.zeros(most + 1, dtype=np.int64)
    for slots, margin in zip(capacity, margins, strict=True):
        if margin - spread < top_sum[slots]:
            reach[slots] = max(reach[slots], min(margin, top_sum[slots]))
    assert last_sums(top_sum, capacity, margins, spread).tolist() == with_parts(reach).tolist()
