"""The best subset against enumeration of all subsets, for every kind of contribution."""

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.step.two_stage import subset_choice
from bfio.step.two_stage.fscore import ScoreWeights, right_end, score
from bfio.step.two_stage.subset_choice import ReachableSums, best_subset, grows_alike
from formulations.arrays import IntArray
from formulations.errors import InputError

#: Candidates (K, H+1), margins, capacity, weights.
Case = tuple[IntArray, IntArray, int, ScoreWeights]

SIZE = st.integers(0, 4) | st.integers(0, 60) | st.integers(0, 1_000_000)


@st.composite
def cases(draw: st.DrawFn, kind: str) -> Case:
    """Draw candidates that are constant over the window, grow equally, or grow differently."""
    K, columns = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    sizes = draw(st.lists(SIZE, min_size=K, max_size=K))
    drift = np.zeros((K, columns), dtype=np.int64)
    if kind == "growing":
        drift[:] = draw(st.sampled_from([list(range(columns)), [0, 5, 1, 9][:columns]]))
    if kind == "general":
        rows = st.lists(SIZE, min_size=columns - 1, max_size=columns - 1)
        drift[:, 1:] = [draw(rows) for _ in range(K)]
    contribution = np.array(sizes, dtype=np.int64)[:, None] + drift
    margins = draw(st.lists(SIZE, min_size=columns, max_size=columns))
    factor = st.integers(0, 3) | st.integers(0, 50)
    factors = st.lists(factor, min_size=columns, max_size=columns)
    weights = ScoreWeights(tuple(draw(factors)), tuple(draw(factors)))
    return contribution, np.array(margins), draw(st.integers(1, 9)), weights


def by_enumeration(case: Case) -> tuple[tuple[int, ...], int]:
    """All subsets: highest score, then largest size, then oldest requests."""
    contribution, margins, capacity, weights = case
    best: tuple[int, int, tuple[bool, ...]] | None = None
    for c in range(1, min(capacity, len(contribution)) + 1):
        for members in combinations(range(len(contribution)), c):
            added = [int(d) for d in contribution[list(members)].sum(axis=0)]
            value = score(added, [int(m) for m in margins], weights)
            oldest_first = tuple(i in members for i in range(len(contribution)))
            entry = (value, added[0], oldest_first)
            best = entry if best is None else max(best, entry)
    assert best is not None
    return tuple(i for i, chosen in enumerate(best[2]) if chosen), best[0]


@given(cases("constant"))
def test_constant_loads(case: Case) -> None:
    """Two probes per cardinality find what enumeration finds, ties included."""
    assert best_subset(*case) == by_enumeration(case)


@given(cases("growing"))
def test_growing_loads(case: Case) -> None:
    """With a common growth the score depends on the cardinality too."""
    assert best_subset(*case) == by_enumeration(case)


@given(cases("general"))
def test_general_loads(case: Case) -> None:
    """With lengths known, each request has its own trajectory."""
    assert best_subset(*case) == by_enumeration(case)


@pytest.mark.deep
@given(st.sampled_from(["constant", "growing", "general"]).flatmap(cases))
def test_all_kinds_deeply(case: Case) -> None:
    """The three together, in the long profile."""
    assert best_subset(*case) == by_enumeration(case)


@given(cases("general"))
def test_python_integers_give_the_same_choice(case: Case) -> None:
    """The exact arrays for huge values take the same path."""
    contribution, margins, capacity, weights = case
    wide = contribution.astype(object), margins.astype(object)
    assert best_subset(*wide, capacity, weights) == best_subset(*case)


def test_by_hand() -> None:
    """G = 3, margin 35, two slots, sizes 18 9 30 22 5: {30, 5} fills it exactly, F = 35."""
    sizes = np.array([[18], [9], [30], [22], [5]])
    assert best_subset(sizes, np.array([35]), 2, ScoreWeights((1,), (3,))) == ((2, 4), 35)


def test_tie_goes_to_the_oldest() -> None:
    """Margin 10: {10}, {4, 6} and {3, 7} all score 10; request 0 is in {3, 7}."""
    sizes = np.array([[3], [4], [6], [7], [10]])
    assert best_subset(sizes, np.array([10]), 2, ScoreWeights((1,), (2,))) == ((0, 3), 10)


def test_tie_between_safe_and_overflow_goes_to_the_larger() -> None:
    """G = 2, margin 10: 8 scores 8; 12 scores 12 − 2·2 = 8 as well, and is larger."""
    sizes = np.array([[8], [12]])
    assert best_subset(sizes, np.array([10]), 1, ScoreWeights((1,), (2,))) == ((1,), 8)


def test_grows_alike() -> None:
    """Constant, common growth, one window step; not different growth."""
    assert grows_alike(np.array([[5, 5], [9, 9]]))
    assert grows_alike(np.array([[5, 6], [9, 10]]))
    assert grows_alike(np.array([[5], [9]]))
    assert not grows_alike(np.array([[5, 6], [9, 0]]))


def test_too_many_general_candidates_are_refused() -> None:
    """Seventeen requests that grow differently: the remedy names the flag."""
    contribution = np.array([[i + 1, i * i] for i in range(17)])
    with pytest.raises(InputError, match="use candidates=16 or less"):
        best_subset(contribution, np.array([9, 9]), 2, ScoreWeights((1, 1), (2, 2)))


def _smallest_probe_only(
    sums: ReachableSums, cardinality: int, peak: int | None, _most: int | None
) -> list[int]:
    """Broken: forgets the sum above the peak."""
    found = sums.at_most(cardinality, peak if peak is not None else 2**60)
    return [] if found is None else [found]


def _wrong_peak(margins: list[int], drift: list[int], weights: ScoreWeights) -> int | None:
    """Broken: ignores that growth uses up margin."""
    return right_end(margins, [0] * len(drift), weights)


@pytest.mark.parametrize(
    ("name", "broken"), [("_probes", _smallest_probe_only), ("right_end", _wrong_peak)]
)
def test_broken_variants_are_caught(
    monkeypatch: pytest.MonkeyPatch, name: str, broken: Callable[..., object]
) -> None:
    """One probe alone, or a peak that ignores growth, loses to enumeration.

    Margins 10 and 2: {8} grows to 9 (overflow 7), so the peak moves; sizes 1 and 12 leave no
    sum at the peak, so the larger neighbour matters.
    """
    monkeypatch.setattr(subset_choice, name, broken)
    rng = np.random.default_rng(3)
    for _ in range(300):
        sizes, margins = rng.integers(0, 30, (6, 1)), rng.integers(0, 40, 3)
        case = (sizes + np.array([0, 4, 9]), margins, 3, ScoreWeights((1, 1, 1), (2, 3, 2)))
        try:
            found = best_subset(*case)
        except ValueError:
            return
        if found != by_enumeration(case):
            return
    pytest.fail(f"a broken {name} went unnoticed")
