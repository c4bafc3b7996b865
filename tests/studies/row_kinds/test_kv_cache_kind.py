"""Rows of one worker with a KV cache: against the engine itself, and by hand."""

from fractions import Fraction
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.kvcache.instance import PUBLISHED, CacheInstance, arrival_rate
from bfio.kvcache.simulation import serve
from bfio.studies import kinds
from bfio.studies.row import RowContext
from bfio.studies.row_kinds.kv_cache import time_means
from bfio.workloads.trace_file import read_trace
from formulations.errors import InputError
from tests.studies.here import compute_row

#: Lengths near the memory of 60, so that the α policies outgrow it.
SMALL: dict[str, Any] = {
    "prompts": "uniform:lowest=1:highest=9",
    "outputs": "uniform:lowest=1:highest=30",
    "requests": 120,
    "memory": 60,
    "load": 1.2,
}
TRACE = "arrival_time_s,prompt_tokens,output_tokens\n0,5,3\n2,9,8\n3,40,30\n7,1,1\n"


compute = partial(compute_row, "kv-cache")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a folder with four requests; with a memory of 60 the third does not fit."""
    (tmp_path / "four.csv").write_text(TRACE)
    return tmp_path


def test_a_row_is_the_run_of_the_engine(trace: Path) -> None:
    """The trace's own times, scaled so that the mean gap offers the load; by the engine itself."""
    row = compute(
        trace, trace="four.csv", memory=60, arrivals="trace", load=2, skip_oversized=True
    )
    workload = read_trace(trace / "four.csv")
    plain = CacheInstance.in_seconds(workload, 60, leave_out_oversized=True)
    rate = arrival_rate(plain, Fraction(2))
    # Three requests over 7 s: two gaps.
    scale = rate * 7 * 10**9 / 2
    data = CacheInstance.in_seconds(workload, 60, rate_scale=scale, leave_out_oversized=True)
    run = serve(data, "mc-sf")
    assert row.values["latency_mean_s"] == pytest.approx(float(run.latencies.mean()) / 1e9)
    assert row.values["makespan_s"] == run.completion.max() / 1e9
    assert row.values["rate_per_s"] == float(rate * 10**9)
    assert (row.values["requests"], row.values["left_out"]) == (3, 1)
    assert row.violations == {}


def test_own_times_are_kept_without_a_load(trace: Path) -> None:
    """One request alone: C, s = 5, o = 3: three batches by the published coefficients."""
    row = compute(trace, trace="four.csv", memory=60, arrivals="trace", requests=1)
    nanoseconds = 3 * (44_600_000 + 520_000) + 2_700 * (1 + 2) + 378_000 * 5
    assert row.values["latency_mean_s"] == pytest.approx(nanoseconds / 1e9, abs=1e-12)
    assert row.values["rate_per_s"] is None


def test_poisson_arrivals_have_the_rate_of_the_load() -> None:
    """4,000 gaps: their mean is that of the load within 5 % (the standard error is 1.6 %)."""
    row = compute(**{**SMALL, "requests": 4000, "load": 0.1, "algorithm": "mc-benchmark"})
    rate = row.values["rate_per_s"]
    assert isinstance(rate, float)
    assert row.values["makespan_s"] == pytest.approx(4000 / rate, rel=0.05)


def test_loads_differ_by_their_pace_only() -> None:
    """The same gaps, half as long: at twice the load everyone arrives in half the time."""
    from bfio.studies.row_kinds.kv_cache import ARGUMENTS, offer_of, offered_instance
    from bfio.studies.row_parts.arguments import Arguments

    slow, fast = (
        offered_instance(
            offer_of(Arguments({**SMALL, "load": load}, ARGUMENTS), RowContext(Path()))
        )
        for load in (0.5, 1)
    )
    assert np.abs(slow.arrival - 2 * fast.arrival).max() <= 2_000
    assert slow.prompt.tolist() == fast.prompt.tolist()


def test_the_first_requests_lie_on_one_path() -> None:
    """MC-Benchmark takes them in order: who comes later changes nothing for the first ones."""
    part, more = (compute(first=first, algorithm="mc-benchmark", **SMALL) for first in (40, 80))
    assert part.values["rate_per_s"] == more.values["rate_per_s"]
    assert (part.values["requests"], more.values["requests"]) == (40, 80)
    latencies = [
        compute(first=first, algorithm="mc-benchmark", **SMALL).values["latency_max_s"]
        for first in (10, 20, 40, 80)
    ]
    assert all(early <= late for early, late in pairwise(latencies))  # type: ignore[operator]


@pytest.mark.parametrize(
    "algorithm", ["mc-sf", "mc-benchmark", "alpha-greedy:alpha=0.5", "beta-clearing:beta=0.5"]
)
def test_equal_arguments_give_equal_rows(algorithm: str) -> None:
    """Values and series; and the memory is never exceeded."""
    first, again = (compute(algorithm=algorithm, seed=4, **SMALL) for _ in range(2))
    assert first.values == again.values
    assert first.series == again.series
    assert not first.stopped_by_clock
    assert first.violations == {}
    peak = first.values["peak_memory"]
    assert isinstance(peak, int)
    assert peak <= 60
    assert first.values["peak_memory_share"] == peak / 60


def test_a_run_that_loops_has_no_latency() -> None:
    """Without protection the requests outgrow the memory again and again."""
    row = compute(algorithm="alpha-greedy", alpha=0, **{**SMALL, "load": 50})
    assert row.values["verdict"] == "loop"
    assert [row.values[f"is_{end}"] for end in ("finished", "loop", "stopped")] == [0, 1, 0]
    assert row.values["latency_mean_s"] is None
    assert row.values["makespan_s"] is None
    assert row.values["overflows"] != 0
    assert row.violations == {}


def test_a_limit_of_batches_stops_a_run() -> None:
    """It is counted, and has no latency either."""
    row = compute(batches=5, **SMALL)
    assert (row.values["verdict"], row.values["batches"]) == ("stopped", 5)
    assert row.values["latency_mean_s"] is None


def test_options_apart_are_options_in_the_name() -> None:
    """``alpha = 0.3`` and ``alpha-greedy:alpha=0.3`` are one algorithm."""
    apart = compute(algorithm="beta-clearing", alpha=0.3, beta=0.5, **SMALL)
    inside = compute(algorithm="beta-clearing:alpha=0.3:beta=0.5", **SMALL)
    assert apart.values == inside.values


def test_series_are_means_over_time() -> None:
    """Pieces [0, 2) at 3 and [4, 5) at 6, edges 0, 1, 3, 5: 3, 3/2, 6/2."""
    start, end, values = (np.array(column) for column in ([0, 4], [2, 5], [3, 6]))
    edges = np.array([0.0, 1.0, 3.0, 5.0])
    assert time_means(start, end, values, edges) == [3.0, 1.5, 3.0]
    assert time_means(start, end, values, edges[:1]) == []


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(1, 9), st.integers(0, 99)),
        min_size=1,
        max_size=20,
    ),
    st.integers(2, 9),
)
def test_series_keep_the_area(pieces: list[tuple[int, int, int]], bins: int) -> None:
    """Any gaps, lengths and heights: the means times the width add up to the integral."""
    gaps, lengths, values = np.array(pieces, dtype=np.int64).T
    end = np.cumsum(gaps + lengths)
    start, last = end - lengths, int(end[-1])
    means = time_means(start, end, values, np.linspace(0, last, bins + 1))
    assert sum(means) * last / bins == pytest.approx(float((values * lengths).sum()))


def test_series_of_a_row_cover_the_time_asked_for() -> None:
    """400 intervals of the whole run, or of the first seconds as far as it lasts."""
    whole = compute(**SMALL)
    assert {len(points) for points in whole.series.values()} == {400}
    mean = float(np.mean(whole.series["memory"]))
    share, busy = whole.values["mean_memory_share"], whole.values["busy_s"]
    assert isinstance(share, float)
    assert isinstance(busy, float)
    assert mean * float(whole.values["makespan_s"] or 0) == pytest.approx(60 * share * busy)
    assert {len(points) for points in compute(series_s=1, **SMALL).series.values()} == {400}
    longer = compute(series_s=10**6, **SMALL)
    assert {len(points) for points in longer.series.values()} == {0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"load": 0}, "argument load: 0 is out of range"),
        ({"load": None}, "argument load: missing"),
        ({"load": "much"}, "argument load"),
        ({"arrivals": "timed"}, "argument arrivals: 'timed' is unknown"),
        ({"arrivals": "trace"}, "no arrival times"),
        ({"algorithm": "mc-fs"}, "did you mean mc-sf"),
        ({"algorithm": "mc-sf", "alpha": 0.1}, "unknown option 'alpha'"),
        ({"algorithm": "alpha-greedy:alpha=0.1", "alpha": 0.2}, "sets it as well"),
        ({"algorithm": "alpha-greedy", "alpha": 1}, "use 0 <= alpha < 1"),
        ({"algorithm": "beta-clearing", "beta": 0}, "beta"),
        ({"convention": "D"}, "use one of A, B, C"),
        (
            {"memory": 20},
            "exclude them: leave_out_oversized=True (studies: skip_oversized = true)",
        ),
        ({"memory": 1, "skip_oversized": True}, "no request fits"),
        ({"first": 121}, "121 of 120 requests"),
        ({"first": 0}, "argument first"),
        ({"series_s": 0}, "argument series_s"),
        ({"batches": 0}, "argument batches"),
        ({"slots": 3}, "argument slots: unknown"),
        ({"synthetic": "demo", "prompts": None, "outputs": None}, "argument synthetic"),
    ],
)
def test_bad_settings_are_refused_in_one_line(arguments: dict[str, Any], message: str) -> None:
    """While a study is planned, before any row is computed."""
    with pytest.raises(InputError) as caught:
        kinds.find("kv-cache").instance({**SMALL, **arguments}, RowContext(Path()))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_changed_trace_makes_new_rows(trace: Path) -> None:
    """The digest is of the requests; so is the source of an algorithm of one's own."""
    kind, context = kinds.find("kv-cache"), RowContext(trace)
    arguments = {"trace": "four.csv", "memory": 80, "arrivals": "trace"}
    before = kind.instance(arguments, context)
    own = {**arguments, "algorithm": f"{__name__}:one_at_a_time"}
    assert kind.instance(own, context) != before
    (trace / "four.csv").write_text(TRACE.replace("9,8", "9,7"))
    assert kind.instance(arguments, context) != before


def one_at_a_time(state: Any) -> list[int]:
    """Start the oldest request on an empty worker."""
    return [] if len(state.running) else [0]


def test_an_algorithm_of_ones_own_runs() -> None:
    """Alone in the cache, each request takes its own batches."""
    row = compute(algorithm=f"{__name__}:one_at_a_time", **SMALL)
    assert row.values["verdict"] == "finished"
    assert row.violations == {}
    busy = row.values["busy_s"]
    assert isinstance(busy, float)
    assert busy > float(row.values["batches"] or 0) * PUBLISHED.base / 1e9
