"""Combine the values of two test parameters: some pairs by default, all in the deep profile."""

from collections.abc import Sequence
from typing import Any

import pytest


def pairs(ones: Sequence[str], others: Sequence[str], each: int = 2) -> list[Any]:
    """Return pairs of values: all in the deep profile, otherwise ``each`` others per value."""
    return [
        pytest.param(
            one,
            other,
            marks=() if (each * i + j) % len(others) < each else pytest.mark.deep,
            id=f"{one}-{other}",
        )
        for i, one in enumerate(ones)
        for j, other in enumerate(others)
    ]
