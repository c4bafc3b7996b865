"""Rows of worst cases: anchors, what they say of instances, what is refused."""

from pathlib import Path
from typing import Any

import pytest

from bfio.studies import kinds
from bfio.studies.row import RowContext, RowResult
from formulations.errors import InputError
from tests.studies.here import compute_row

HERE = RowContext(Path())


def compute(**arguments: Any) -> RowResult:
    """Compute one row without violations."""
    result = compute_row("worst-case", **arguments)
    assert result.violations == {}
    return result


def test_a_row_of_the_cache() -> None:
    """Algorithm 1 on four requests."""
    values = compute(system="cache", requests=4, memory=6, convention="A").values
    assert values["exact"] == "9/8"
    assert values["ratio"] == 1.125
    assert values["instance"] == "M=6 [2x2 3x2]"
    assert values["is_maximal"] is True


def test_a_row_of_barriers() -> None:
    """Where the optimum has no imbalance there is no ratio."""
    row = {"system": "barrier", "requests": 4, "prompt": 1, "longest": 2, "criterion": "imbalance"}
    values = compute(**row).values
    assert (values["ratio"], values["exact"], values["least"]) == (None, "none", 0)
    assert values["instance"] == "[1+1 1+2 1+1 1+2]"
    long = compute(system="barrier", method="adversary", longest=8).values
    assert long["instance"] == "18 requests"
    assert long["is_maximal"] is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"system": "barrier", "memory": 3}, "argument memory: is of cache"),
        ({"system": "cache", "workers": 3}, "argument workers: is of barrier"),
        ({"system": "fluid"}, "argument system"),
        ({"system": "cache", "memory": 1}, "fits no memory"),
        ({"system": "cache", "method": "guess"}, "argument method"),
        ({"system": "cache", "polcy": "mc-sf"}, "argument polcy"),
        ({"system": "barrier", "known": "some"}, "argument known"),
    ],
)
def test_arguments_that_are_refused(arguments: dict[str, Any], message: str) -> None:
    """Before anything is computed."""
    with pytest.raises(InputError, match=message):
        kinds.find("worst-case").instance(arguments, HERE)
