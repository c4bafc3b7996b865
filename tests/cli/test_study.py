"""``bfio study`` as users type it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Bfio
from tests.places import ROOT
from tests.processes import PATIENCE_S, started, wait_until
from tests.studies.here import num_rows

_ROWS = """
import time

def row(arguments, context):
    time.sleep(arguments["nap"])
    if arguments["i"] < 0:
        raise ValueError("negative")
    return {"square": arguments["i"] ** 2}
"""
_STUDY = """
name = "squares"
question = "What are the squares?"
computes = "rows:row"
[fixed]
nap = 0.0
[[grid]]
i = [AXIS]
seed = [0]
[limits]
seconds = 60
memory_gib = 1
[smoke.fixed]
nap = 0.01
[smoke.grid]
i = [7]
[[report.tables]]
title = "Squares"
rows = ["i"]
values = ["square"]
"""


def _study(folder: Path, axis: str, nap: float = 0.0) -> None:
    (folder / "rows.py").write_text(_ROWS)
    text = _STUDY.replace("AXIS", axis).replace("nap = 0.0\n", f"nap = {nap}\n")
    (folder / "study.toml").write_text(text)


@pytest.fixture(autouse=True)
def _other_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the module of an earlier test: each has its own in its own folder."""
    monkeypatch.delitem(sys.modules, "rows", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])


def test_run_status_report_and_export(bfio: Bfio, tmp_path: Path) -> None:
    """The four actions in a row; each says what comes next."""
    _study(tmp_path, "1, 2, 3")
    done = bfio("study", "run", "study.toml", "--jobs", "1")
    assert (done.status, "3 rows: done 3, missing 0" in done.out) == (0, True), done.err
    assert "next: bfio study report study.toml" in done.out
    document = bfio("study", "status", "study.toml", "--json").json
    assert (document["planned"], document["rows"]["done"], document["missing"]) == (3, 3, 0)
    done = bfio("study", "report", "study.toml")
    assert done.status == 0
    assert "out/studies/squares-report/report.html" in done.out
    page = (tmp_path / "out/studies/squares-report/report.html").read_text()
    assert "What are the squares?" in page
    assert "bfio study run study.toml" in page
    document = bfio("study", "export", "study.toml", "--output", "here", "--json").json
    assert {Path(name).name for name in document["files"]} == {"rows.csv", "rows.parquet"}


@pytest.mark.usefixtures("rows_in_this_process")
def test_a_seed_moves_the_smoke_size_too(bfio: Bfio, tmp_path: Path) -> None:
    """Other seeds are other rows, and the store says that it holds more than this study."""
    _study(tmp_path, "1")
    bfio("study", "run", "study.toml", "--smoke", "--jobs", "1")
    done = bfio("study", "run", "study.toml", "--smoke", "--seed", "5", "--jobs", "1")
    assert "0 of 1 row already stored" in done.err
    assert "the store also has 1 row of other code, data or arguments" in done.out
    assert "--smoke --seed 5" in done.out


@pytest.mark.usefixtures("rows_in_this_process")
def test_a_study_without_any_result(bfio: Bfio, tmp_path: Path) -> None:
    """Status 3, and the way on is a retry."""
    _study(tmp_path, "-1, -2")
    done = bfio("study", "run", "study.toml", "--jobs", "1")
    assert done.status == 3
    assert "failed: ValueError: negative" in done.out
    assert "next: bfio study run study.toml --retry" in done.out
    assert "no row has a result: see the errors above" in done.out
    for form in ("html", "markdown", "csv"):
        done = bfio("study", "report", "study.toml", "--format", form)
        assert done.status == 2
        assert "--retry" in done.err


@pytest.mark.usefixtures("rows_in_this_process")
def test_reports_of_rows_that_are_not_there(bfio: Bfio, tmp_path: Path) -> None:
    """None is an error in every form, some missing a line on standard error; beside the store."""
    _study(tmp_path, "1, 2")
    bfio("study", "run", "study.toml", "--jobs", "1", "--store", "kept/s.sqlite")
    for form in ("html", "markdown"):
        words = ("study", "report", "study.toml", "--store", "kept/s.sqlite", "--format", form)
        done = bfio(*words, "--seed", "12345")
        assert done.status == 2
        assert (
            "the store has 2 rows of other code, data or arguments; run the study first"
            in done.err
        )
    _study(tmp_path, "1, 2, 3")
    done = bfio("study", "report", "study.toml", "--store", "kept/s.sqlite")
    assert (done.status, "kept/s-report/report.html" in done.out) == (0, True)
    assert "1 of 3 rows not computed; compute them with: bfio study run" in done.err


@pytest.mark.parametrize("times", [1, 2])
def test_interrupts(tmp_path: Path, times: int) -> None:
    """The first finishes the rows in flight, the second ends them; both say how to go on."""
    _study(tmp_path, ", ".join(str(i) for i in range(400)), nap=0.3)
    store = tmp_path / "out/studies/squares.sqlite"
    command = [sys.executable, "-m", "bfio", "study", "run", "study.toml", "--jobs", "2"]
    environment, pipe = {**os.environ, "PYTHONPATH": str(ROOT)}, subprocess.PIPE
    with started(command, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe) as process:
        wait_until(lambda: num_rows(store), "a row is computed")
        for _ in range(times):
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "bfio study run study.toml" in out + err
    assert 0 < num_rows(store) < 400


def test_bad_input_is_one_line(bfio: Bfio, tmp_path: Path) -> None:
    """A missing file, a missing store, a bad number."""
    _study(tmp_path, "1")
    for words, what in (
        (("run", "none.toml"), "cannot be read"),
        (("status", "study.toml"), "no such store"),
        (("run", "study.toml", "--jobs", "0"), "jobs"),
        (("run", "study.toml", "--store", "/proc/x/y"), "cannot be written"),
        (("walk", "study.toml"), "unknown action walk"),
    ):
        done = bfio("study", *words)
        assert (done.status, done.out) == (2, "")
        assert what in done.err.splitlines()[-1]
        assert "Traceback" not in done.err
