import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.case import ROOT
from benchmarks.cli import BAD_INPUT, DONE, ROWS_FAILED, main
from benchmarks.registry import cases
from benchmarks.step_solvers.methods import measure
from benchmarks.store import FILE_NAME, read_rows, row_key
from formulations.step.problem import StepProblem

CASE = "steps-8x24-r64"
SMOKE = ["run", CASE, "--smoke"]
#: 2 cold and 2 warm instances at H = 0 and H = 2, four methods each.
NUM_ROWS = 4 * 2 * 4


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a step case at smoke size and return its folder."""
    folder = tmp_path_factory.mktemp("bench")
    assert main([*SMOKE, "--out", str(folder)]) == DONE
    return folder


def test_smoke_rows_are_well_formed(finished: Path) -> None:
    """Every unit has one row that says what, where, with what, and how it went."""
    rows = read_rows(finished)
    assert len(rows) == len({row_key(row) for row in rows}) == NUM_ROWS
    for row in rows:
        environment, measured = row["environment"], row["measured"]
        assert row["status"] == "ok"
        assert row["problems"] == []
        assert row["parameters"]["seed"] == 0
        assert {"processor", "cores"} <= set(environment["machine"])
        assert {"python", "numpy", "ortools", "highspy", "bfio"} <= set(environment["versions"])
        assert {"commit", "dirty", "sources"} <= set(environment)
        assert measured["violations"] == {}
        assert set(measured["phases"]) == {"build", "bound", "search"}


def test_smoke_methods_agree(finished: Path) -> None:
    """All proven optima of an instance are one number, and exact proves every instance."""
    rows = [r for r in read_rows(finished) if r["measured"]["proven"]]
    optima = {(row["instance"], row["measured"]["objective"]) for row in rows}
    assert len(optima) == len({instance for instance, _ in optima}) == NUM_ROWS // 4
    assert sum(row["method"] == "exact" for row in rows) == NUM_ROWS // 4


def test_a_repeated_run_measures_nothing(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All rows are there; the file does not change."""
    before = (finished / FILE_NAME).read_bytes()
    assert main([*SMOKE, "--out", str(finished)]) == DONE
    assert f"0 rows measured, {NUM_ROWS} already there" in capsys.readouterr().err
    assert (finished / FILE_NAME).read_bytes() == before


def test_the_report(finished: Path) -> None:
    """A page with the tables, and a figure beside it."""
    assert main(["report", str(finished)]) == DONE
    page = (finished / "report.md").read_text(encoding="utf-8")
    assert f"{NUM_ROWS} rows, 0 failed." in page
    assert f"![{CASE}]({CASE}.png)" in page
    assert "| highs |" in page
    assert (finished / f"{CASE}.png").read_bytes().startswith(b"\x89PNG")


def test_a_kill_loses_nothing(tmp_path: Path) -> None:
    """Rows written before SIGKILL stay as they are, and the same command makes the others."""
    path = tmp_path / FILE_NAME
    command = [sys.executable, "-m", "benchmarks", *SMOKE, "--out", str(tmp_path)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    while process.poll() is None and (not path.exists() or path.read_bytes().count(b"\n") < 3):
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    before = path.read_bytes()
    kept = before[: before.rfind(b"\n") + 1]
    assert 3 <= kept.count(b"\n") < NUM_ROWS
    resumed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert resumed.returncode == DONE, resumed.stderr
    assert path.read_bytes().startswith(kept)
    rows = read_rows(tmp_path)
    assert len({(row["instance"], row["method"]) for row in rows}) == len(rows) == NUM_ROWS


def test_a_failing_method_leaves_a_failed_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other methods are measured, the status is 1, and the report names the row."""

    def broken(problem: StepProblem, method: str, time_limit: float, seed: int) -> dict[str, Any]:
        if method == "br-0":
            raise ZeroDivisionError("broken on purpose")
        return measure(problem, method, time_limit, seed)

    monkeypatch.setattr("benchmarks.step_solvers.cases.measure", broken)
    arguments = [*SMOKE, "--methods", "exact,br-0", "--only", "warm-000", "--out", str(tmp_path)]
    assert main(arguments) == ROWS_FAILED
    assert "2 failed" in capsys.readouterr().err
    assert main(["report", str(tmp_path)]) == DONE
    page = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "4 rows, 2 failed." in page
    assert "br-0: ZeroDivisionError: broken on purpose" in page
    monkeypatch.undo()
    assert main(arguments) == DONE
    assert "2 rows measured, 2 already there" in capsys.readouterr().err


def test_list_names_every_case(capsys: pytest.CaptureFixture[str]) -> None:
    """One line each."""
    assert main(["list"]) == DONE
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(cases())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "step-8x24-r64"], "did you mean steps-8x24-r64?"),
        (["run", CASE, "--methods", "gurobi"], "--methods: 'gurobi' is unknown"),
        (["run", CASE, "--only", "nothing-like-this"], "no unit holds these texts"),
        (["run", CASE, "--instances", "0"], "--instances: 0 is out of range"),
        (["run", CASE, "--time-limit", "nan"], "--time-limit: nan s"),
        (["run", "steps-trace-8x24-r64", "--data", "nowhere"], "no such trace"),
        (["report", "nowhere"], "name a folder that `run` wrote"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where, what and what to do; nothing is measured."""
    place = ["--out", str(tmp_path / "x")] if arguments[0] == "run" else []
    assert main([*arguments, *place]) == BAD_INPUT
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err
    assert not (tmp_path / "x" / FILE_NAME).exists()


def test_usage_errors_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the parser too."""
    with pytest.raises(SystemExit, match="2"):
        main(["run"])
    assert capsys.readouterr().err.count("\n") == 1


def test_every_case_has_units_of_its_own() -> None:
    """Names of instance and method tell the units of a case apart, at full size and at smoke."""
    from benchmarks.case import Settings

    for smoke in (True, False):
        for case in cases().values():
            if case.name.startswith("steps-trace"):
                continue
            units = case.units(Settings(out=Path("unused"), smoke=smoke))
            assert len(units) == len({(u.instance, u.method) for u in units}) > 0
