"""Time limits of code from outside."""

import time

import pytest

from bfio.common.plugins import patience
from formulations.errors import InputError


@pytest.mark.parametrize("inner_s", [0.0, 0.2], ids=["in time", "late"])
def test_a_limit_leaves_the_one_around_it(inner_s: float) -> None:
    """The outer limit of 0.1 s ends what follows the inner part, however long that part took."""
    with pytest.raises(InputError, match=r"^outer: it takes more than 0\.1 s"):
        _wait_twice(inner_s)


@patience(0.1, "outer", "it", "wait")
def _wait_twice(inner_s: float) -> None:
    with patience(60.0, "inner", "it", "wait"):
        time.sleep(inner_s)
    time.sleep(5.0)
