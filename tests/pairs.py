"""Two parameters of a test: some pairs of their values always, all of them in the long profile."""

from collections.abc import Sequence
from typing import Any

import pytest


def pairs(ones: Sequence[str], others: Sequence[str], each: int = 2) -> list[Any]:
    """Return all pairs; by default a test meets so many of the others with each, in turn."""
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
