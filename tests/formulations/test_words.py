"""Numbers with their nouns."""

import pytest

from formulations.words import counted


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [(1, "entry", "1 entry"), (0, "entry", "0 entries"), (2000, "step", "2,000 steps")],
)
def test_a_noun_is_in_the_plural_unless_there_is_one(count: int, noun: str, text: str) -> None:
    """Of both kinds of nouns."""
    assert counted(count, noun) == text
