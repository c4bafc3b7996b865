"""Rows on the memory of segments: known totals, sums by hand, and the best against all."""

import json
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bfio.studies import kinds
from bfio.studies.row import RowContext
from formulations.errors import CapabilityError, InputError
from tests.places import STUDIES
from tests.studies.here import compute_row

#: The study's own file: ten bins of 50 outputs, prompt 62.
STUDY = STUDIES / "15-segments-and-memory"
FIGURE: dict[str, Any] = {
    "fluid": "lengths.json", "spread": "classes", "horizon_s": 200, "probability": 0.1,
    "logarithm": "figures",
}  # fmt: skip
TINY = {
    "classes": [{"rate": r, "prompt": 5, "output": o} for r, o in ((4, 2), (2, 4), (1, 6))],
    "d0": "1/100",
    "d1": "1/100000",
    "memory": 1000,
}


compute = partial(compute_row, "segment-memory")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a tiny instance."""
    (tmp_path / "tiny.json").write_text(json.dumps(TINY))
    return tmp_path


@pytest.mark.parametrize(
    ("rate", "d1", "segments", "total"),
    [
        # From the specification, where they were rounded and not up, hence at most 1 more here.
        (50, "2.6e-7", 2, 349_805),
        (50, "2.6e-7", 4, 241_530),
        (50, "2.6e-7", 5, 260_998),
        (50, "2.6e-7", 10, 437_561),
        (500, "2.6e-8", 5, 546_051),
        (500, "2.6e-8", 10, 579_763),
    ],
)
def test_totals_of_figures_16_and_17(rate: int, d1: str, segments: int, total: int) -> None:
    """Least whole thresholds, exact full batch, the logarithm of the figures."""
    row = compute(STUDY, **FIGURE, rate=rate, d1=d1, segments=segments)
    found = row.values["total_memory"]
    assert isinstance(found, int)
    assert 0 <= found - total <= 1
    assert row.violations == {}
    names = ("batch_memory", "waiting_memory", "deviation_memory")
    assert sum(int(row.values[name] or 0) for name in names) == found
    printed = row.values["printed_total_memory"]
    assert isinstance(printed, float)
    assert printed < found


def test_one_segment_treats_all_requests_as_the_longest() -> None:
    """50 a second of 501·(62 + 250) = 156,312 token-iterations, times 2.6e-7: a load of 2.03."""
    row = compute(STUDY, **FIGURE, rate=50, segments=1)
    assert row.values["segment_load"] == pytest.approx(50 * 156_312 * 2.6e-7)
    assert row.values["keeps_up"] is False
    assert row.values["total_memory"] is None


def test_three_segments_by_hand(folder: Path) -> None:
    """Rates that reach them: 7, 3, 1. ΔT is nearly 1/100, so n_1 = 1 > 0.07 and all are 1.

    Stages 0..2, 3..4, 5..6 of prompt 5: 5 + 6 + 7 = 18, 8 + 9 = 17, 10 + 11 = 21 tokens; before
    segments 2 and 3 one request of 7 and one of 9 tokens; no queue, since no n is below the one
    before it. Printed: 2·(5 + 1) + 2·(5 + 2) + 2·(5 + 3) = 42.
    """
    row = compute(folder, fluid="tiny.json", horizon_s=100, probability=0.1).values
    assert (row["thresholds"], row["boundaries"], row["num_segments"]) == ("1,1,1", "2,4,6", 3)
    assert (row["batch_memory"], row["waiting_memory"], row["deviation_memory"]) == (56, 16, 0)
    assert (row["total_memory"], row["total_memory_share"]) == (72, 0.072)
    assert (row["printed_batch_memory"], row["printed_total_memory"]) == (42, 58)
    assert row["printed_over_exact"] == 0.75
    assert row["least_exponent"] is None
    assert row["policy_batch_s"] == pytest.approx(float(Fraction(1, 100) + Fraction(56, 10**5)))


@pytest.mark.parametrize("rate", [7, 300])
def test_the_best_segments_are_at_least_as_good_as_equal_ones(folder: Path, rate: int) -> None:
    """Over all four sets of boundaries; raised thresholds never need more."""
    arguments: dict[str, Any] = {"fluid": "tiny.json", "horizon_s": 100, "rate": rate}
    best = compute(folder, **arguments, segments="best").values["total_memory"]
    equal = [
        compute(folder, **arguments, segments=count).values["total_memory"] for count in (1, 3)
    ]
    assert isinstance(best, int)
    assert all(total is None or best <= int(total) for total in equal)
    raised = compute(folder, **arguments, segments="best", raised=True).values["total_memory"]
    assert isinstance(raised, int)
    assert raised <= best


def test_unequal_segments_have_no_printed_formula(folder: Path) -> None:
    """It takes them to be equally wide."""
    uneven = {**TINY, "classes": [{"rate": 1, "prompt": 5, "output": o} for o in (2, 5)]}
    (folder / "uneven.json").write_text(json.dumps(uneven))
    row = compute(folder, fluid="uneven.json", horizon_s=100).values
    assert row["boundaries"] == "2,5"
    assert (row["printed_batch_memory"], row["printed_total_memory"]) == (None, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"segments": 2}, "segments: 2 do not divide 3 output lengths evenly"),
        ({"segments": 0}, "argument segments"),
        ({"segments": "worst"}, "argument segments"),
        ({"horizon_s": None}, "argument horizon_s: missing"),
        ({"probability": 2}, "argument probability: 2 is out of range"),
        ({"logarithm": "natural"}, "argument logarithm: 'natural' is unknown"),
        ({"spread": "requests"}, "argument spread: 'requests' is unknown"),
        ({"raised": 1}, "argument raised"),
        ({"policy": "wait"}, "argument policy: unknown"),
    ],
)
def test_bad_settings_are_refused_in_one_line(
    folder: Path, arguments: dict[str, Any], message: str
) -> None:
    """While a study is planned, before any row is computed."""
    given = {"fluid": "tiny.json", "horizon_s": 100, **arguments}
    with pytest.raises(InputError) as caught:
        kinds.find("segment-memory").instance(given, RowContext(folder))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_too_many_sets_of_boundaries_are_refused() -> None:
    """The best of 2^499 is not enumerated."""
    with pytest.raises(CapabilityError, match="choices of boundaries"):
        compute(STUDY, **FIGURE, rate=50, segments="best")
