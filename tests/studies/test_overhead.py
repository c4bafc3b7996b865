"""Overhead of the runner per row, and speed-up by a second core."""

import os
import time
from pathlib import Path

import pytest

from bfio.studies.row import Limits
from bfio.studies.runner import StudyRunOptions, run_study
from bfio.studies.study import Grid, Study

_LIMITS = Limits(seconds=60, memory_gib=1)


def _seconds(study: Study, store: Path, jobs: int) -> float:
    began = time.perf_counter()
    results = run_study(study, store, StudyRunOptions(jobs=jobs))
    assert len(results.done) == len(results.tasks)
    return time.perf_counter() - began


def _nothing(rows: int) -> Study:
    grid = Grid({"i": list(range(rows))})
    return Study("nothing", "?", "tests.studies.rows:square", [grid], limits=_LIMITS)


def _processor_seconds(study: Study, store: Path) -> float:
    """Return the processor seconds of the runner and of the process it starts."""
    before = os.times()
    _seconds(study, store, jobs=1)
    return sum(os.times()[:4]) - sum(before[:4])


@pytest.mark.parametrize("rows", [300, pytest.param(10_000, marks=pytest.mark.deep)])
def test_a_row_costs_less_than_five_milliseconds(tmp_path: Path, rows: int) -> None:
    """Planning, handing out, reporting and keeping; the rows themselves do nothing."""
    start = _processor_seconds(_nothing(1), tmp_path / "one")
    each = (_processor_seconds(_nothing(rows), tmp_path / "many") - start) / rows
    # A process that is never waited for would count nothing.
    assert 2e-5 < each < 5e-3


@pytest.mark.deep
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core only")
def test_two_cores_are_almost_twice_as_fast(tmp_path: Path) -> None:
    """On rows that keep a core busy. On a machine with other work this fails, as it should."""
    grid = Grid({"i": list(range(200))})
    study = Study("busy", "?", "tests.studies.rows:busy", [grid], limits=_LIMITS)
    one = _seconds(study, tmp_path / "one", jobs=1)
    two = _seconds(study, tmp_path / "two", jobs=2)
    assert one / two >= 1.8
