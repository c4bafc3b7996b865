"""Rows of Nested WAIT on traces: what is known of the first part, what is served of the rest."""

from bisect import bisect_left
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.studies import kinds
from bfio.studies.row import RowContext, RowResult
from bfio.studies.row_parts.arguments import Arguments
from bfio.studies.row_parts.wait_offer import (
    TRACE_ARGUMENTS,
    TraceParts,
    bin_ends,
    drawn,
    split_of,
    trace_parts,
)
from bfio.wait.arrivals import workload_instance
from bfio.wait.chains import nested_policy
from bfio.wait.simulation import serve
from formulations.errors import InputError
from formulations.fluid import FluidWorker
from tests.studies.here import compute_row

#: Eight requests, one every two seconds; the first four are the training.
LENGTHS = [(5, 1), (6, 2), (9, 2), (7, 8), (4, 3), (5, 10), (5, 10), (3, 1)]
WORKER: dict[str, Any] = {"d0": "1/10", "d1": "1/100", "memory": 100}
ARGUMENTS: dict[str, Any] = {
    "trace": "eight.csv", **WORKER, "policy": "nested-wait", "load": 0.5, "bins": 2,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the trace."""
    write(tmp_path, LENGTHS)
    return tmp_path


def write(folder: Path, lengths: list[tuple[int, int]]) -> None:
    """Write a trace with a request every two seconds from 3 s on."""
    rows = [f"{3 + 2 * i},{prompt},{output}" for i, (prompt, output) in enumerate(lengths)]
    text = "\n".join(["arrival_time_s,prompt_tokens,output_tokens", *rows]) + "\n"
    (folder / "eight.csv").write_text(text)


def compute(folder: Path, **arguments: Any) -> RowResult:
    """Compute one row of a small offer."""
    return compute_row("wait", folder, **{**ARGUMENTS, **arguments})


def parts(folder: Path, **arguments: Any) -> TraceParts:
    """Cut the trace."""
    given = Arguments({"trace": "eight.csv", **arguments}, TRACE_ARGUMENTS)
    return trace_parts(split_of(given, 100, RowContext(folder)))


def test_bins_by_hand(folder: Path) -> None:
    """Training outputs 1, 2, 2, 8; the longest of all is 10; prompts 5, 6, 9, 7 have mean 6.75."""
    by_width = parts(folder, bins=2).bins
    assert [(kind.output, kind.rate) for kind in by_width] == [
        (5, Fraction(3, 4)), (10, Fraction(1, 4)),
    ]  # fmt: skip
    assert {kind.prompt for kind in by_width} == {7}
    # Two requests each: 1 and 2 up to the second smallest output, which is 2 like the third.
    by_count = parts(folder, bins=2, binning="count").bins
    assert [(kind.output, kind.rate) for kind in by_count] == [
        (2, Fraction(3, 4)), (10, Fraction(1, 4)),
    ]  # fmt: skip
    # Width 2.5, ends 3, 5, 8, 10: nothing is in 4..5 and 9..10, so 4..8 and beyond are one bin.
    assert [kind.output for kind in parts(folder, bins=4).bins] == [3, 10]


def test_the_rest_by_hand(folder: Path) -> None:
    """The last four, their times from 0; two of them are alike."""
    found = parts(folder)
    assert found.rest.prompt_tokens.tolist() == [4, 5, 5, 3]
    assert found.rest.arrival_times == tuple(map(Fraction, (0, 2, 4, 6)))
    quarter = Fraction(1, 4)
    assert [(kind.prompt, kind.output, kind.rate) for kind in found.kinds] == [
        (3, 1, quarter), (4, 3, quarter), (5, 10, 2 * quarter),
    ]  # fmt: skip
    assert len(parts(folder, training="1/4").rest) == 6


def test_the_policy_knows_nothing_of_the_rest_but_the_longest_output(folder: Path) -> None:
    """Other requests in the second half, the longest as long: the same bins."""
    before = parts(folder, bins=3)
    write(folder, [*LENGTHS[:4], (9, 10), (1, 1), (1, 2), (8, 8)])
    after = parts(folder, bins=3)
    assert after.bins == before.bins
    assert after.kinds != before.kinds


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=40),
    st.integers(1, 12),
    st.sampled_from(["count", "width"]),
    st.integers(0, 30),
)
def test_bins_cover_everything_and_none_is_empty(
    outputs: list[int], count: int, binning: str, beyond: int
) -> None:
    """Any outputs, with ties; equal width against the definition."""
    longest = max(outputs) + beyond
    ends = bin_ends(np.array(outputs), count, binning, longest)
    assert list(ends) == sorted(set(ends))
    assert ends[-1] == longest
    assert len(ends) <= count
    used = {bisect_left(ends, output) for output in outputs}
    assert used == set(range(len(ends)))
    if binning == "width":
        edges = [-(-longest * k // count) for k in range(1, count + 1)]
        taken = sorted({edges[bisect_left(edges, output)] for output in outputs})
        assert list(ends) == [*taken[:-1], longest]


def test_a_row_is_the_run_of_the_engine(folder: Path) -> None:
    """The rest at its own times, drained; a request every two seconds."""
    row = compute(folder, load=None, arrivals="trace", policy="fcfs").values
    rest = parts(folder).rest
    worker = FluidWorker(Fraction(1, 10), Fraction(1, 100), 100)
    # One after the other, so that every policy with room does the same.
    run = serve(workload_instance(rest, worker), nested_policy((10,), (1,)), drain=True)
    assert row["rate_per_s"] == 0.5
    assert (row["completed"], row["verdict"], row["open_share"]) == (4, "finished", 0)
    first = serve(workload_instance(rest.head(1), worker), nested_policy((10,), (1,)))
    # Prompt 4, output 3: four batches of 4, 5, 6, 7 tokens, 0.4 + 0.22 s.
    assert first.latencies.tolist() == [pytest.approx(0.62)]
    assert row["requests"] == len(run.instance)


def test_a_load_is_that_of_the_rest(folder: Path) -> None:
    """Poisson or at its own times, from whatever the policy believes."""
    for arrivals in ("poisson", "trace"):
        row = compute(folder, load=0.25, arrivals=arrivals).values
        assert row["offered_load"] == pytest.approx(0.25)
    faster = compute(folder, load=None, rate=3, arrivals="trace", policy="fcfs").values
    assert faster["rate_per_s"] == 3


def test_drawn_requests_follow_their_seed(folder: Path) -> None:
    """Equal seeds, equal requests, whatever the policy; others with other seeds."""
    rest = parts(folder).rest
    one, again, other = (drawn(rest, 50, seed) for seed in (1, 1, 2))
    assert one.output_tokens.tolist() == again.output_tokens.tolist()
    assert one.output_tokens.tolist() != other.output_tokens.tolist()
    rows = [compute(folder, requests=50, seed=4, policy=p) for p in ("fcfs", "nested-wait")]
    assert rows[0].values["stage_events"] == rows[1].values["stage_events"]
    assert compute(folder, requests=50, seed=4, policy="fcfs").values == rows[0].values
    assert all(row.violations == {} for row in rows)


def test_oversized_requests_are_left_out_only_if_asked(folder: Path) -> None:
    """With 14 tokens, prompts and outputs of 15 do not fit: three of the eight."""
    with pytest.raises(InputError, match="3 of 8 requests do not fit alone"):
        compute(folder, memory=14)
    row = compute(folder, memory=14, skip_oversized=True, policy="fcfs")
    assert row.values["left_out"] == 3
    assert row.violations == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"d1": None}, "argument d1: missing"),
        ({"load": None}, "argument load: missing"),
        ({"training": 1}, "argument training: 1 is out of range"),
        ({"training": "1/100"}, "0 of 8 requests are training requests"),
        ({"bins": 0}, "argument bins"),
        ({"binning": "depth"}, "argument binning: 'depth' is unknown"),
        ({"arrivals": "even"}, "use one of poisson, trace"),
        (
            {"arrivals": "trace", "requests": 3},
            "argument requests: drawn requests have no arrival times",
        ),
        ({"spread": "classes"}, "argument spread"),
        ({"policy": "wait"}, "no class has prompt"),
        ({"policy": "nested-wait:segments=4,5:thresholds=1,1"}, "the end of the last segment"),
        ({"trace": "absent.csv"}, "absent.csv"),
        ({"trace": "untimed.csv", "arrivals": "trace"}, "no arrival times"),
        ({"trace": "at-once.csv", "arrivals": "trace", "load": None}, "all requests arrive at"),
    ],
)
def test_bad_settings_are_refused_in_one_line(
    folder: Path, arguments: dict[str, Any], message: str
) -> None:
    """While a study is planned, before any row is computed."""
    head = "arrival_time_s,prompt_tokens,output_tokens\n"
    (folder / "untimed.csv").write_text(head + ",5,3\n,5,3\n")
    (folder / "at-once.csv").write_text(head + "0,5,3\n0,5,3\n0,4,2\n0,4,2\n")
    with pytest.raises(InputError) as caught:
        kinds.find("wait").instance({**ARGUMENTS, **arguments}, RowContext(folder))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
