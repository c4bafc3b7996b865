"""Formatting of numbers and of tables."""

import csv
import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.common.provenance import ROOT
from bfio.common.text import TableForm, TextTable, joined_csv
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


TABLE = TextTable(
    "Gap_1 & more",
    ["policy", "idle\n[%]"],
    [["br-0|x", "12 %"], ["[own]", "−3 ± 1"]],
    "demo: 60 requests, seed 0",
)


def test_markdown() -> None:
    """Settings above it; bars of cells are no columns; numbers to the right."""
    assert TABLE.markdown() == (
        "demo: 60 requests, seed 0\n\n"
        "| policy | idle [%] |\n| --- | ---: |\n| br-0\\|x | 12 % |\n| [own] | −3 ± 1 |\n"
    )


def test_latex() -> None:
    """Rules of booktabs, the settings in the caption, and nothing that LaTeX takes for its own."""
    lines = [line.strip() for line in TABLE.latex().splitlines()]
    assert lines[2] == r"\caption{Gap\_1 \& more. demo: 60 requests, seed 0}"
    assert lines[3:6] == [r"\begin{tabular}{lr}", r"\toprule", r"policy & idle [\%] \\"]
    assert r"br-0|x & 12 \% \\" in lines
    # A bracket after the end of a line would be an argument of it.
    assert r"{}[own] & $-$3 $\pm$ 1 \\" in lines
    assert lines[-3:] == [r"\bottomrule", r"\end{tabular}", r"\end{table}"]


def test_csv() -> None:
    """Titles and settings in columns of their own; numbers that other programs read."""
    other = TextTable("whole", ["policy", "steps"], [["br-0", "1,622"], ["a, b", "1,6"]])
    first, _, third, last = csv.DictReader(io.StringIO(joined_csv([TABLE, other])))
    assert first == {
        "table": "Gap_1 & more",
        "policy": "br-0|x",
        "idle [%]": "12 %",
        "steps": "",
        "settings": "demo: 60 requests, seed 0",
    }
    assert (third["table"], third["steps"], third["idle [%]"]) == ("whole", "1622", "")
    assert (last["policy"], last["steps"]) == ("a, b", "1,6")
    assert TABLE.written(TableForm.CSV) == joined_csv([TABLE])
