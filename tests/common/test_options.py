"""The table of options, as used by the command line, studies, texts and Python."""

import argparse
import inspect
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest

import bfio
from bfio.common.options import (
    NUMBER,
    RATIONAL,
    TEXT,
    WHOLE,
    add_options,
    described,
    from_mapping,
    from_namespace,
    from_texts,
    names_of,
    option,
    spelled_out,
    split_options,
    split_pairs,
)
from formulations.errors import InputError
from formulations.scalars import exact_rational, integer
from tests.processes import python


@dataclass(frozen=True)
class _Settings:
    most: int = option(3, WHOLE, "N", "most of them (3)")
    share: Fraction = option(Fraction(1), RATIONAL, "X", "their share (1)")
    time_s: float = option(1.5, NUMBER, "T", "time [s] (1.5)", name="time")
    word: str = option("all", TEXT, "W", "which (all)")
    hidden: int = 0

    def __post_init__(self) -> None:
        integer(self.most, "most", minimum=1)
        object.__setattr__(self, "share", exact_rational(self.share, "share"))


def _parse(*arguments: str) -> _Settings:
    parser = argparse.ArgumentParser()
    add_options(parser, _Settings)
    return from_namespace(_Settings, parser.parse_args(arguments), hidden=7)


def test_the_command_line_gives_the_dataclass() -> None:
    """With its defaults, its names and its own checks."""
    assert _parse() == _Settings(hidden=7)
    assert _parse("--most", "5", "--share", "2/3", "--time", "2", "--word", "one") == _Settings(
        5, Fraction(2, 3), 2.0, "one", 7
    )
    with pytest.raises(InputError, match=r"^--most: 0 is out of range"):
        _parse("--most", "0")


def test_a_mapping_gives_the_dataclass() -> None:
    """Decimals are taken as printed, None as not given."""
    made = from_mapping(_Settings, {"share": 0.1, "time": 2, "word": None, "other": 1})

    assert made == _Settings(share=Fraction(1, 10), time_s=2.0)
    assert isinstance(made.time_s, float)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"most": 0}, "^argument most: 0 is out of range"),
        ({"most": 1.0}, "^argument most: 1.0 is not an integer"),
        ({"most": True}, "^argument most: True is not an integer"),
        ({"time": "2"}, "^argument time: '2' is not a number"),
        ({"word": 2}, "^argument word: 2 is not a string"),
    ],
)
def test_a_mapping_names_what_is_wrong(mapping: dict[str, Any], message: str) -> None:
    """By the name that users wrote."""
    with pytest.raises(InputError, match=message):
        from_mapping(_Settings, mapping)


def test_texts_replace_some_of_the_options() -> None:
    """As they are written behind a name; the others stay."""
    base = _Settings(word="some")

    assert from_texts(base, {"most": "5", "time": "2"}, "x") == _Settings(
        5, time_s=2.0, word="some"
    )
    with pytest.raises(InputError, match="x: unknown option 'mots'; did you mean most"):
        from_texts(base, {"mots": "5"}, "x")
    with pytest.raises(InputError, match="'five' is not a value of most"):
        from_texts(base, {"most": "five"}, "x")


def test_a_name_is_split_from_its_options() -> None:
    """Modules keep their colon."""
    assert split_options("br-h:horizon=40:gamma=9/10") == (
        "br-h",
        {"horizon": "40", "gamma": "9/10"},
    )
    assert split_options("module:function:k=1") == ("module:function", {"k": "1"})
    for text, message in (("a:k=1:k=2", "occurs twice"), ("a:k=", "without a value")):
        with pytest.raises(InputError, match=message):
            split_options(text)


def test_pairs_are_split_once() -> None:
    """At the last sign of equality; a text without one is a name with nothing behind it."""
    assert split_pairs(["a = 1", "A@1=b=2", "bare"], "x") == {"a": "1", "A@1=b": "2", "bare": ""}
    with pytest.raises(InputError, match="x: 'a' occurs twice; keep one of them"):
        split_pairs(["a=1", " a =2"], "x")


@spelled_out(_Settings)
def _shown(place: str, *, options: _Settings | None = None) -> tuple[str, _Settings]:
    return place, options or _Settings()


def test_a_function_takes_the_fields_as_keywords() -> None:
    """In the place of those of ``options``, which may be given besides."""
    assert _shown("here", most=5) == ("here", _Settings(5))
    assert _shown("here", options=_Settings(5), word="one") == ("here", _Settings(5, word="one"))
    with pytest.raises(InputError, match="no option 'wrod'; did you mean word"):
        _shown("here", wrod="one")


def test_the_signature_states_every_keyword() -> None:
    """So that ``help`` shows them, those of the public functions, too."""
    assert list(inspect.signature(_shown).parameters) == [
        "place", "options", "most", "share", "time_s", "word", "hidden",
    ]  # fmt: skip
    for function in (bfio.simulate, bfio.compare, bfio.measure_gap):
        assert {"engine", "arrivals", "pool", "predictor", "seed"} <= set(
            inspect.signature(function).parameters
        )
    with pytest.raises(InputError, match="no option 'polcy'; did you mean policy"):
        bfio.simulate(polcy="fcfs")


def test_names_are_those_that_users_write() -> None:
    """Fields without an option have none."""
    assert names_of(_Settings) == ("most", "share", "time", "word")


def test_help_needs_no_library() -> None:
    """Declaring options loads no numpy, whichever command's help is asked for."""
    code = (
        "import sys\nfrom bfio.cli.main import main\n"
        "try:\n    main(['simulate', '--help'])\nexcept SystemExit:\n    pass\n"
        "print('numpy' in sys.modules)"
    )
    done = python("-c", code)
    assert done.stdout.endswith("False\n")


def test_the_docstring_has_the_options_before_the_errors() -> None:
    """Types and help come from the declaration; sections that follow stay behind."""

    @described
    @dataclass(frozen=True)
    class Written:
        """Some settings.

        Raises
        ------
        InputError
            If one is wrong.
        """

        most: int = option(3, WHOLE, "N", "most of them (3)")
        hidden: int = 0

    assert Written.__doc__ == (
        "Some settings.\n\nParameters\n----------\nmost : int\n    most of them (3)\n\n"
        "Raises\n------\nInputError\n    If one is wrong."
    )
