"""Certificates: what is wrong with one is found; ratios compare as they should."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.worst_cases.barrier import BarrierSpace, BarrierTarget
from bfio.worst_cases.cache import CacheSpace, CacheTarget
from bfio.worst_cases.case import Case, Ratio, exceeds, plain
from bfio.worst_cases.search import exhaustive

CACHE = exhaustive(CacheTarget("semi-online"), CacheSpace(4, 5)).case
BARRIER = exhaustive(BarrierTarget("fcfs"), BarrierSpace(3, prompt=2, output=2)).case
#: What is changed, and a part of the name of what is found.
MUTATIONS: list[tuple[Case, dict[str, Any], str]] = [
    (CACHE, {"schedule": tuple(p + 1 for p in CACHE.schedule)}, "policy.schedule"),
    (CACHE, {"schedule": CACHE.other}, "policy.schedule"),
    (CACHE, {"schedule": (0,) * 4}, "policy.memory"),
    (CACHE, {"other": (0,) * 4}, "other.memory"),
    (CACHE, {"other": (-1, *CACHE.other[1:])}, "other.arrival"),
    (CACHE, {"other": CACHE.other[1:]}, "other.starts"),
    (CACHE, {"other": tuple(p + 20 for p in CACHE.other)}, "other.proven"),
    (BARRIER, {"schedule": BARRIER.other}, "policy.schedule"),
    (BARRIER, {"other": ((0, 0, 0), (0, 0, 0))}, "other.slots"),
    (BARRIER, {"other": ((0, 0, 0), (0, 1, 5))}, "other."),
]


@pytest.mark.parametrize("case", [CACHE, BARRIER])
def test_a_valid_certificate_passes(case: Case) -> None:
    """And says what it says: cost, least, ratio."""
    assert case.violations() == {}
    document = case.to_mapping()
    assert document["ratio"] == str(case.ratio)
    assert document["policy_schedule"] == plain(case.schedule)
    assert document["cost"] > document["least"]


@pytest.mark.parametrize(("case", "changes", "found"), MUTATIONS)
def test_a_changed_certificate_is_caught(case: Case, changes: dict[str, Any], found: str) -> None:
    """Whichever part of it is wrong."""
    assert any(name.startswith(found) for name in replace(case, **changes).violations())


RATIOS = st.tuples(st.integers(0, 5), st.integers(0, 5))


@given(RATIOS, RATIOS, RATIOS)
def test_ratios_are_ordered(a: Ratio, b: Ratio, c: Ratio) -> None:
    """Above is a strict order that 0/0 and x/0 do not break."""
    assert not exceeds(a, a)
    assert not (exceeds(a, b) and exceeds(b, a))
    if exceeds(a, b) and exceeds(b, c):
        assert exceeds(a, c)
    assert exceeds(a, None)
    if b[1] and a[1]:
        assert exceeds(a, b) == (a[0] * b[1] > b[0] * a[1])
