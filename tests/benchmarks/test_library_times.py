"""Rows that time methods on the library."""

from pathlib import Path

import pytest

from benchmarks.library.times import KIND, plan
from bfio.library import entries
from bfio.studies.row import RowContext, RowResult
from formulations.errors import InputError

CONTEXT = RowContext(folder=Path())


def test_a_row_counts_what_is_proven() -> None:
    """All thresholds are proven, and as good as the best known ones."""
    arguments = {"kind": "wait", "family": "thresholds", "method": "fixed-point"}
    row = plan(arguments, CONTEXT).compute()
    assert isinstance(row, RowResult)
    number = sum((e.kind_name, e.family) == ("wait", "thresholds") for e in entries())
    assert row.values["entries"] == number
    assert row.values["proven"] == row.values["reached"] == number
    assert row.violations == {}
    assert 0 < row.timings["median_s"] <= row.timings["longest_s"]
    assert KIND.name == "library-times"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"family": "H = 7"}, "argument family: kind step has no family 'H = 7'"),
        ({"method": "exactt"}, "argument method: 'exactt' is unknown; did you mean exact?"),
    ],
)
def test_unknown_words_are_told(arguments: dict[str, str], said: str) -> None:
    """One line."""
    with pytest.raises(InputError, match="argument") as caught:
        plan(arguments, CONTEXT)
    assert said in str(caught.value)
