"""Laws of lengths written as text."""

import pytest

from bfio.workloads.arrivals import (
    ArrivalProcess,
    Diurnal,
    GammaRenewal,
    MarkovModulated,
    OnOff,
    Poisson,
    Surges,
)
from bfio.workloads.generators import parse_arrivals, parse_law
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
        ("", "outputs: '' is unknown; use one of geometric"),
        ("geometrical:mean=2", "did you mean geometric"),
        ("geometric:men=2", "unknown option 'men'; did you mean mean"),
        ("geometric:mean", "outputs: 'mean' is not an option"),
        ("geometric:mean=x", "'x' is not a value of mean"),
        ("geometric:mean=0.5", "mean: 0.5 is out of range"),
        ("geometric:mean=nan", "mean: nan is out of range"),
        ("geometric:mean=2:mean=3", "outputs: option 'mean' occurs twice"),
        ("uniform:lowest=2", "lacks a parameter; add highest"),
        ("uniform:lowest=1.5:highest=3", "'1.5' is not a value of lowest"),
        ("homogeneous:value=0", "value: 0 is out of range"),
    ],
)
def test_a_slip_is_named(text: str, message: str) -> None:
    """The argument, what is wrong with it, and what there is."""
    with pytest.raises(InputError, match=message):
        parse_law(text, "outputs")


@pytest.mark.parametrize(
    ("text", "process"),
    [
        ("poisson:rate=300", Poisson(300)),
        ("gamma:rate=300:cv=5", GammaRenewal(300, 5)),
        ("on-off:rate_on=9:rate_off=0:mean_on_s=2:mean_off_s=5", OnOff(9, 0, 2, 5)),
        ("mmpp:rates=9/3/0:mean_stays_s=2/5/1", MarkovModulated((9, 3, 0), (2, 5, 1))),
        ("diurnal:rate=3:amplitude=0.5:period_s=60", Diurnal(3, 0.5, 60)),
        ("surges:rate_base=1:rate_surge=9:every_s=60:length_s=5", Surges(1, 9, 60, 5)),
    ],
)
def test_a_text_is_its_arrival_process(text: str, process: ArrivalProcess) -> None:
    """Parameters by name, lists with strokes."""
    assert parse_arrivals(text, "arrivals") == process


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("poison:rate=3", "did you mean poisson"),
        ("poisson", "lacks a parameter; add rate"),
        ("mmpp:rates=9,3:mean_stays_s=2/5", "'9,3' is not a value of rates"),
        ("mmpp:rates=9/3:mean_stays_s=2", "rates: 2 rates and 1 mean stays"),
    ],
)
def test_bad_arrival_processes(text: str, message: str) -> None:
    """One line says what is wrong."""
    with pytest.raises(InputError, match=message):
        parse_arrivals(text, "arrivals")
