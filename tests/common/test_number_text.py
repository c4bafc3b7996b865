"""Formatting of numbers."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.common.provenance import ROOT
from bfio.studies.report.traced import traced_share
from formulations.scalars import percent, percentage


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (None, "–"),
        (0, "0.0 %"),
        (1, "100.0 %"),
        (2008 / 2009, "> 99.9 %"),
        (0.9994, "99.9 %"),
        (2e-4, "< 0.1 %"),
        (1.2, "120.0 %"),
    ],
)
def test_percent(share: float | None, text: str) -> None:
    """A share of less than all is not 100 %, and one of more than none is not 0 %."""
    assert percent(share) == text


@given(st.integers(1, 10**7), st.integers(1, 10**7), st.integers(0, 3))
def test_a_part_is_neither_none_nor_all(part: int, rest: int, digits: int) -> None:
    """What is written is true: within half a unit, or as an inequality."""
    share = part / (part + rest)
    sign, _, figure = percentage(share, digits).rpartition(" ")
    value = float(figure)
    assert 0 < value < 100
    if sign:
        assert 100 * share > value if sign == ">" else 100 * share < value
    else:
        assert abs(100 * share - value) <= 0.5001 * 10**-digits


def test_traced_shares_read_alike() -> None:
    """A report's share is written by the same rule and keeps all its digits."""
    traced = traced_share(0.99996, "within-percent")
    assert traced.text == "> 99.9"
    assert float(traced.exact) == pytest.approx(99.996)


def test_percentages_are_written_in_one_place() -> None:
    """No module formats a share in percent itself."""
    by_hand = re.compile(r"\{100 \* [^{}]*:|[0-9]%\}|:[^{}\"]*f\} ?%")
    folders = ("bfio", "benchmarks", "formulations", "proofs_checks")
    files = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    found = [_place(path) for path in files if by_hand.search(path.read_text(encoding="utf-8"))]
    assert found == ["formulations/scalars.py"]


def _place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
