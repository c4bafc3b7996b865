import pytest

from benchmarks.case import Row
from benchmarks.engine.tables import growth_exponent, growth_points, speedup
from benchmarks.report import latest_rows
from benchmarks.step_solvers.tables import best_known, paired_ratios, step_tables
from benchmarks.summary import duration, median, p99, plain, share
from tests.benchmarks.examples import step_row


def _engine_row(**changes: object) -> Row:
    row: Row = {
        "case": "engine-growth", "instance": "i", "method": "fcfs/auto", "run": "r",
        "parameters": {"policy": "fcfs", "engine": "auto", "requests": 10},
        "measured": {"wall_s": 2.0},
    }  # fmt: skip
    return row | changes


def test_quantiles_are_observed_values() -> None:
    """p99 of 1..100 is 100, not 99.01: the next higher value that was seen."""
    assert p99([float(k) for k in range(1, 101)]) == 100.0
    assert p99([3.0]) == median([3.0]) == 3.0
    assert median([1.0, 2.0, 10.0]) == 2.0
    assert median([]) is None
    assert p99([]) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0.0, "0 µs"), (1.5e-6, "1.5 µs"), (0.0123, "12.3 ms"), (30.0, "30 s"),
     (0.9996, "1 s"), (12_345.0, "12,345 s")],
)  # fmt: skip
def test_durations(seconds: float | None, text: str) -> None:
    """Three digits and a unit that fits."""
    assert duration(seconds) == text


def test_plain_numbers() -> None:
    """Integers in full, others with three digits."""
    assert [plain(v) for v in (None, 0, 12345, 0.0123, 1.0)] == ["–", "0", "12,345", "0.0123", "1"]
    assert share(1, 4) == "1 (25.0 %)"
    assert share(0, 0) == "0"


def test_ratios_are_taken_within_one_run() -> None:
    """Instance a: 6/2 = 3 in one run; instance b was measured in two runs, so not compared."""
    exact = [step_row(instance="a", counted_s=2.0), step_row(instance="b", run="other")]
    others = [step_row(instance="a", counted_s=6.0), step_row(instance="b", counted_s=9.0)]
    assert paired_ratios(others, exact) == [3.0]


def test_time_outs_are_in_the_median() -> None:
    """One of two solves ran out of time: n = 2, unfinished = 1, median (2 + 30)/2 = 16 s."""
    rows = [
        step_row(method="highs", instance="a", counted_s=2.0),
        step_row(method="highs", instance="b", counted_s=30.0, finished=False, proven=False),
    ]
    (line,) = [text for text in step_tables(rows).splitlines() if "| highs |" in text]
    cells = [cell.strip() for cell in line.split("|")]
    assert cells[3:9] == ["2", "1", "1", "16 s", "30 s", "30 s"]


def test_stages_of_the_exact_method_are_counted() -> None:
    """One closed by bound, by columns, by the solver, one open: half without a solver."""
    closed = ("bound", "columns", "cp-sat", None)
    rows = [step_row(instance=str(k), closed_by=stage) for k, stage in enumerate(closed)]
    line = step_tables(rows).splitlines()[-1]
    cells = [cell.strip() for cell in line.split("|")]
    assert cells[2:10] == ["4", "0", "1", "1", "0", "1", "1", "2 (50.0 %)"]


def test_best_known_values_are_proven_ones() -> None:
    """An unproven objective is no reference."""
    rows = [step_row(instance="a"), step_row(instance="b", proven=False)]
    assert best_known(rows) == {"a": 10}


def test_crashed_rows_do_not_stop_the_tables() -> None:
    """They have nothing measured; the report lists them at its head."""
    assert "| exact |" in step_tables([step_row(), step_row(method="highs") | {"measured": None}])


def test_the_growth_exponent_by_hand() -> None:
    """Time 3·n^2 has exponent 2; one size has none."""
    assert growth_exponent([(10, 300.0), (100, 30_000.0), (1000, 3e6)]) == pytest.approx(2.0)
    assert growth_exponent([(10, 1.0)]) is None
    assert growth_exponent([(10, 1.0), (10, 2.0)]) is None


def test_growth_is_fitted_within_one_run() -> None:
    """Rows of an earlier run do not mix with the latest."""
    small = {"policy": "fcfs", "engine": "auto", "requests": 10}
    rows = [
        _engine_row(run="old", measured={"wall_s": 9.0}),
        _engine_row(parameters=small | {"requests": 100}, measured={"wall_s": 5.0}),
        _engine_row(),
    ]
    assert growth_points(rows) == {("fcfs", "auto"): [(10, 2.0), (100, 5.0)]}


def test_the_speed_up_is_taken_within_one_run() -> None:
    """Reference 8 s over auto 2 s is 4; a reference of another run is not used."""
    slow = {"policy": "fcfs", "engine": "reference", "requests": 10}
    reference = _engine_row(parameters=slow, measured={"wall_s": 8.0})
    assert speedup(_engine_row(), [reference]) == 4.0
    assert speedup(_engine_row(run="other"), [reference]) is None


def test_the_report_takes_the_last_row_of_each_question() -> None:
    """A repeated measurement replaces the earlier; another limit is another question."""
    again = step_row(objective=11)
    other = step_row(parameters=step_row()["parameters"] | {"time_limit": 1.0})
    assert latest_rows([step_row(), other, again]) == [other, again]
