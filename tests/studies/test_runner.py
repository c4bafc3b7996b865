"""Runs of studies: complete, resumed, stopped, and side by side."""

import threading
from pathlib import Path

import pytest

from bfio.studies.report_plan import ReportPlan, Table
from bfio.studies.results import Results
from bfio.studies.row import Limits, Row, Status
from bfio.studies.runner import StudyRunOptions, plan, run_study, stored_results
from bfio.studies.store import open_for_reading
from bfio.studies.study import Grid, Study
from formulations.errors import InputError

_LIMITS = Limits(seconds=20, memory_gib=1)
_ONE, _TWO = StudyRunOptions(jobs=1), StudyRunOptions(jobs=2)
_here = pytest.mark.usefixtures("rows_in_this_process")


def _squares(count: int, nap: float = 0.0) -> Study:
    grid = Grid({"i": list(range(count))})
    return Study("squares", "?", "tests.studies.rows:square", [grid], {"nap": nap}, _LIMITS)


def _contents(results: Results) -> list[dict[str, object]]:
    return [row.content() for row in results.rows.values()]


def test_all_rows_in_the_order_of_the_plan(tmp_path: Path) -> None:
    """Whatever order they were finished in."""
    results = run_study(_squares(20), tmp_path / "s", _TWO)
    assert [row.values["square"] for row in results.rows.values()] == [i * i for i in range(20)]
    assert results.missing == 0
    assert results.counts()[Status.DONE] == 20


@_here
def test_a_second_run_computes_nothing(tmp_path: Path) -> None:
    """What is there is there."""
    study, seen = _squares(5), list[Row]()
    run_study(study, tmp_path / "s", _ONE)
    run_study(study, tmp_path / "s", _ONE, on_row=seen.append)
    assert seen == []


@_here
def test_a_longer_study_computes_only_what_is_new(tmp_path: Path) -> None:
    """Rows belong to their arguments, not to the study."""
    seen = list[Row]()
    run_study(_squares(5), tmp_path / "s", _ONE)
    results = run_study(_squares(8), tmp_path / "s", _ONE, on_row=seen.append)
    assert sorted(str(row.values["square"]) for row in seen) == ["25", "36", "49"]
    assert results.missing == 0
    assert stored_results(_squares(3), tmp_path / "s").missing == 0


def test_one_and_two_processes_give_the_same_table(tmp_path: Path) -> None:
    """Every column but time and machine; the rows solve programs and are checked."""
    study = Study(
        "solving", "?", "tests.studies.rows:solving", [Grid({"seed": [0, 1, 2, 3]})],
        limits=_LIMITS,
    )  # fmt: skip
    one = run_study(study, tmp_path / "one", _ONE)
    two = run_study(study, tmp_path / "two", _TWO)
    assert _contents(one) == _contents(two)
    assert all(row.solves == 1 and row.verdict == "passed" for row in one.rows.values())


def test_stopping_finishes_rows_in_flight_and_resuming_the_rest(tmp_path: Path) -> None:
    """The first Ctrl-C: no row is begun, none is lost."""
    study, seen = _squares(12, nap=0.1), list[Row]()
    results = run_study(
        study, tmp_path / "s", _TWO, on_row=seen.append, stop=lambda: len(seen) >= 3
    )
    assert 3 <= len(results.rows) < 12
    resumed = run_study(study, tmp_path / "s", _TWO)
    assert _contents(resumed) == _contents(run_study(study, tmp_path / "other", _ONE))


def test_an_error_where_rows_are_kept_ends_all_processes(tmp_path: Path) -> None:
    """The second Ctrl-C, a full disk: at once, with a row in flight that would take long."""
    study = Study(
        "hanging", "?", "tests.studies.rows:misbehave",
        [Grid({"deed": ["none", "hang"]})], limits=Limits(seconds=1000, memory_gib=1),
    )  # fmt: skip
    before = threading.active_count()

    def refuse(row: Row) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(study, tmp_path / "s", _TWO, on_row=refuse)
    assert threading.active_count() == before
    assert len(stored_results(study, tmp_path / "s").rows) == 1


def test_rows_without_a_result_stay_unless_a_retry_is_asked_for(tmp_path: Path) -> None:
    """A time-out is a row; a retry computes it again, and no row that is done."""
    study = Study(
        "mixed", "?", "tests.studies.rows:misbehave",
        [Grid({"deed": ["none", "raise", "segmentation fault"]})], limits=_LIMITS,
    )  # fmt: skip
    seen = list[Row]()
    first = run_study(study, tmp_path / "s", _ONE)
    assert first.counts()[Status.FAILED] == first.counts()[Status.CRASHED] == 1
    run_study(study, tmp_path / "s", _ONE, on_row=seen.append)
    assert seen == []
    again = run_study(
        study, tmp_path / "s", StudyRunOptions(jobs=1, retry=True), on_row=seen.append
    )
    assert {row.status for row in seen} == {Status.FAILED, Status.CRASHED}
    assert _contents(again) == _contents(first)


@_here
def test_other_data_under_the_same_name_are_other_rows(tmp_path: Path) -> None:
    """The digest of the data is part of the key."""
    file = tmp_path / "data"
    file.write_text("1")
    study = Study(
        "sized", "?", "tests.studies.rows:SIZED", [Grid({"file": ["data"]})], folder=tmp_path,
        limits=_LIMITS,
    )  # fmt: skip
    run_study(study, tmp_path / "s", _ONE)
    file.write_text("12")
    assert stored_results(study, tmp_path / "s").missing == 1
    run_study(study, tmp_path / "s", _ONE)
    file.write_text("1")
    assert stored_results(study, tmp_path / "s").missing == 0
    with open_for_reading(tmp_path / "s") as store:
        assert store.count() == 2


def test_a_slip_in_the_arguments_stops_the_study_before_its_first_row(tmp_path: Path) -> None:
    """Not at row 4,000."""
    with pytest.raises(InputError, match="unknown row kind; did you mean simulate"):
        plan(Study("s", "?", "simulat", [Grid({"a": [1]})]))
    study = Study(
        "s", "?", "simulate", [Grid({"policy": ["fcfs", "fcsf"], "synthetic": ["demo"]})]
    )
    with pytest.raises(InputError, match="fcsf"):
        run_study(study, tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_study_without_rows_to_compute_needs_no_process(tmp_path: Path) -> None:
    """A smoke grid may be empty of new rows."""
    run_study(_squares(1), tmp_path / "s", _ONE)
    before = threading.active_count()
    run_study(_squares(1), tmp_path / "s", StudyRunOptions(jobs=8))
    assert threading.active_count() == before


@pytest.mark.parametrize("jobs", [0, -1, 5000])
def test_impossible_numbers_of_processes_are_refused(tmp_path: Path, jobs: int) -> None:
    """At least one, and no slip of the pen."""
    with pytest.raises(InputError, match="jobs"):
        run_study(_squares(1), tmp_path / "s", StudyRunOptions(jobs=jobs))


def test_a_misspelt_value_is_refused_before_rows_are_computed() -> None:
    """With the nearest one that rows of the kind have."""
    table = Table("t", ["policy"], ["steady.avg_imbalence"])
    study = Study(
        "s", "?", "simulate", [Grid({"policy": ["fcfs"], "synthetic": ["demo"]})],
        report=ReportPlan([table]),
    )  # fmt: skip
    with pytest.raises(InputError, match=r"did you mean steady\.avg_imbalance\?"):
        plan(study)
