"""Laws of lengths written as text."""

import pytest

from bfio.workloads.law_text import parse_law
from bfio.workloads.lengths import Geometric, Homogeneous, LengthDistribution, Lognormal, Uniform
from formulations.errors import InputError


@pytest.mark.parametrize(
    ("text", "law"),
    [
        ("geometric:mean=200", Geometric(200)),
        ("geometric:mean=1.5", Geometric(1.5)),
        ("homogeneous:value=7", Homogeneous(7)),
        ("uniform:highest=9:lowest=2", Uniform(2, 9)),
        ("lognormal:median=800:sigma=1.1", Lognormal(800, 1.1)),
        ("lognormal:median=800:sigma=1.1:maximum=32768", Lognormal(800, 1.1, 32_768)),
    ],
)
def test_a_text_is_its_law(text: str, law: LengthDistribution) -> None:
    """Parameters by name, in any order."""
    assert parse_law(text, "outputs") == law


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "outputs: unknown law ''; use one of geometric"),
        ("geometrical:mean=2", "did you mean geometric"),
        ("geometric:men=2", "unknown option 'men'; did you mean mean"),
        ("geometric:mean", "outputs: 'mean' is no option"),
        ("geometric:mean=x", "'x' is no value of mean"),
        ("geometric:mean=0.5", "mean: 0.5 is out of range"),
        ("geometric:mean=nan", "mean: nan is out of range"),
        ("geometric:mean=2:mean=3", "outputs: option 'mean' occurs twice"),
        ("uniform:lowest=2", "lacks a parameter; give highest"),
        ("uniform:lowest=1.5:highest=3", "'1.5' is no value of lowest"),
        ("homogeneous:value=0", "value: 0 is out of range"),
    ],
)
def test_a_slip_is_named(text: str, message: str) -> None:
    """The argument, what is wrong with it, and what there is."""
    with pytest.raises(InputError, match=message):
        parse_law(text, "outputs")
