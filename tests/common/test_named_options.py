"""Names with options behind them."""

from dataclasses import dataclass

import pytest

from bfio.common.options import WHOLE, Named, by_name, option, read_named
from formulations.errors import InputError
from formulations.scalars import integer


@dataclass(frozen=True)
class Some:
    """Options of the names below."""

    most: int = option(3, WHOLE, "N", "at most so many")
    hidden: int = 0

    def __post_init__(self) -> None:
        integer(self.most, "most", minimum=1)


@dataclass(frozen=True)
class Nothing:
    """No options."""


KNOWN = by_name(
    Named("many", "all of them", "page 2", Some(9, hidden=1)),
    Named("few", "some of them", "page 1", Some()),
)


def test_names_are_sorted_and_know_their_options() -> None:
    """For listings and docs."""
    assert list(KNOWN) == ["few", "many"]
    assert KNOWN["many"].option_names == ("most",)


def test_what_is_not_written_stays() -> None:
    """Each name has defaults of its own, and fields that nobody can write."""
    assert read_named("many", KNOWN, "amount") == Some(9, hidden=1)
    assert read_named("many:most=4", KNOWN, "amount") == Some(4, hidden=1)
    assert read_named("module:function", KNOWN, "amount") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fw", "fw: unknown amount; did you mean few"),
        (
            "",
            "an empty name: unknown amount; use one of few, many, or module:NAME or FILE.py",
        ),
        ("few:least=4", "few:least=4: unknown option 'least'; use one of most"),
        ("few:most=x", "few:most=x: 'x' is not a value of most; write one integer"),
        ("few:most=0", "most: 0 is out of range"),
        ("few:", "no option after a colon"),
    ],
)
def test_errors_name_what_is_wrong(text: str, message: str) -> None:
    """And what could be written instead."""
    with pytest.raises(InputError) as caught:
        read_named(text, KNOWN, "amount")
    assert message in str(caught.value)


def test_a_name_without_options_takes_none() -> None:
    """And says so."""
    nothing = by_name(Named("none", "nothing", "page 3", Nothing()))
    with pytest.raises(
        InputError, match="unknown option 'most'; leave it out; no options are accepted"
    ):
        read_named("none:most=1", nothing, "amount")
