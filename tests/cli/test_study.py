"""``bfio study`` as users type it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.places import ROOT

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


def _start(folder: Path, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "bfio", "study", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _run(folder: Path, *words: str) -> tuple[int, str, str]:
    process = _start(folder, *words)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_run_status_report_and_export(tmp_path: Path) -> None:
    """The four actions in a row; each says what comes next."""
    _study(tmp_path, "1, 2, 3")
    status, out, err = _run(tmp_path, "run", "study.toml", "--jobs", "1")
    assert (status, "3 rows: done 3, missing 0" in out) == (0, True), err
    assert "next: bfio study report study.toml" in out
    status, out, _ = _run(tmp_path, "status", "study.toml", "--json")
    document = json.loads(out)
    assert (document["planned"], document["rows"]["done"], document["missing"]) == (3, 3, 0)
    status, out, _ = _run(tmp_path, "report", "study.toml")
    assert status == 0
    assert "out/studies/squares-report/report.html" in out
    page = (tmp_path / "out/studies/squares-report/report.html").read_text()
    assert "What are the squares?" in page
    assert "bfio study run study.toml" in page
    status, out, _ = _run(tmp_path, "export", "study.toml", "--output", "here", "--json")
    assert {Path(name).name for name in json.loads(out)["files"]} == {"rows.csv", "rows.parquet"}


def test_a_seed_moves_the_smoke_size_too(tmp_path: Path) -> None:
    """Other seeds are other rows, and the store says that it holds more than this study."""
    _study(tmp_path, "1")
    _run(tmp_path, "run", "study.toml", "--smoke", "--jobs", "1")
    _, out, err = _run(tmp_path, "run", "study.toml", "--smoke", "--seed", "5", "--jobs", "1")
    assert "0 of 1 rows there already" in err
    assert "besides, 1 rows of other code, data or arguments are in it" in out
    assert "--smoke --seed 5" in out


def test_a_study_without_any_result(tmp_path: Path) -> None:
    """Status 3, and the way on is a retry."""
    _study(tmp_path, "-1, -2")
    status, out, _ = _run(tmp_path, "run", "study.toml", "--jobs", "1")
    assert status == 3
    assert "failed: ValueError: negative" in out
    assert "next: bfio study run study.toml --retry" in out
    status, _, err = _run(tmp_path, "report", "study.toml")
    assert status == 2
    assert "--retry" in err


@pytest.mark.parametrize("times", [1, 2])
def test_interrupts(tmp_path: Path, times: int) -> None:
    """The first finishes the rows in flight, the second ends them; both say how to go on."""
    _study(tmp_path, ", ".join(str(i) for i in range(40)), nap=0.3)
    process = _start(tmp_path, "run", "study.toml", "--jobs", "2")
    deadline = time.monotonic() + 60
    while not _rows(tmp_path):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "bfio study run study.toml" in out + err
    assert 0 < _rows(tmp_path) < 40


def _rows(folder: Path) -> int:
    if not (folder / "out/studies/squares.sqlite").exists():
        return 0
    status, out, _ = _run(folder, "status", "study.toml", "--json")
    return int(json.loads(out)["rows"]["done"]) if status == 0 else 0


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    """A missing file, a missing store, a bad number."""
    _study(tmp_path, "1")
    for words, what in (
        (("run", "none.toml"), "cannot be read"),
        (("status", "study.toml"), "no such store"),
        (("run", "study.toml", "--jobs", "0"), "jobs"),
        (("run", "study.toml", "--store", "/proc/x/y"), "cannot be written"),
        (("walk", "study.toml"), "invalid choice"),
    ):
        status, out, err = _run(tmp_path, *words)
        assert (status, out) == (2, "")
        assert what in err.splitlines()[-1]
        assert "Traceback" not in err
