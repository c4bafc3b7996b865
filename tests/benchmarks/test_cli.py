"""``python -m benchmarks``: rows of studies, chosen by options."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cli import (
    FILES,
    ROWS_FAILED,
    contradictions,
    main,
    refuted_claims,
)
from benchmarks.step_times import KIND
from bfio.cli.command import BAD_INPUT, DONE
from bfio.studies.kinds import find
from bfio.studies.row import Row, RowContext, RowResult, Status, Task
from bfio.studies.row_kind import MEASURED
from bfio.studies.store import open_for_reading
from bfio.studies.study_file import read_study

pytestmark = pytest.mark.usefixtures("rows_of_module_in_this_process")

SMOKE = ["steps", "--smoke"]
#: Two runs with a cold and a warm step each, at H = 0 and H = 2, four methods each.
NUM_ROWS = 4 * 2 * 4
#: Benchmarks whose rows start services or solve every step of a run.
LONG_ROWS = ("gap", "live-runs", "router-speed")
_LONG = pytest.mark.deep
NAMES = sorted(path.stem for path in FILES.glob("*.toml"))


def _rows(folder: Path, name: str = "steps") -> list[Row]:
    with closing(sqlite3.connect(folder / f"{name}.sqlite")) as connection:
        keys = [key for (key,) in connection.execute("SELECT key FROM row")]
    with open_for_reading(folder / f"{name}.sqlite") as store:
        return list(store.rows(keys).values())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a benchmark at smoke size and return its folder."""
    folder = tmp_path_factory.mktemp("bench")
    assert main(["run", *SMOKE, "--out", str(folder)]) == DONE
    return folder


def test_rows_say_what_where_and_with_what(finished: Path) -> None:
    """Every row has its machine, versions and commit, and passed its checks."""
    rows = _rows(finished)
    assert len(rows) == NUM_ROWS
    for row in rows:
        assert row.status is Status.DONE
        assert {"processor", "cores"} <= set(row.environment["machine"])
        assert {"python", "numpy", "ortools", "highspy"} <= set(row.environment["versions"])
        assert {"commit", "dirty"} <= set(row.environment)
        assert {"solve_s", "counted_s", "build_s", "load_average"} <= set(row.timings)


def test_methods_agree(finished: Path) -> None:
    """All proven optima of a problem are one number, and exact proves every problem."""
    rows = [row for row in _rows(finished) if row.values["proven"]]
    optima = {(row.values["problem"], row.values["objective"]) for row in rows}
    assert len(optima) == len({problem for problem, _ in optima}) == NUM_ROWS // 4
    assert sum(row.task.arguments["method"] == "exact" for row in rows) == NUM_ROWS // 4
    assert not list(contradictions(rows))


def test_a_repeated_run_measures_nothing(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All rows are there."""
    before = [row.finished_at for row in _rows(finished)]
    assert main(["run", *SMOKE, "--out", str(finished)]) == DONE
    assert f"{NUM_ROWS} of {NUM_ROWS} rows already stored" in capsys.readouterr().err
    assert [row.finished_at for row in _rows(finished)] == before


def test_the_report(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables on the screen, a page in the folder."""
    assert main(["report", *SMOKE, "--out", str(finished)]) == DONE
    text = capsys.readouterr().out
    assert f"{NUM_ROWS} rows: {NUM_ROWS} done, 0 claims of optimality refuted, 0 missing" in text
    assert "| highs |" in text
    assert (finished / "steps" / "report.html").is_file()


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--only", "warm"], NUM_ROWS // 2),
        (["--only", "warm", "--only", "highs"], NUM_ROWS // 8),
        (["--methods", "exact,br-0"], NUM_ROWS // 2),
        (["--instances", "1"], NUM_ROWS // 2),
        (["--instances", "11", "--only", "warm-2"], 10 * NUM_ROWS // 4),
    ],
)
def test_options_choose_rows(
    options: list[str], count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what their arguments hold, by method, by number of problems."""
    planned: list[int] = []

    def run(study: Any, *args: Any, **keywords: Any) -> Any:
        planned.append(len(study.rows()))
        raise KeyboardInterrupt

    monkeypatch.setattr("benchmarks.cli.run_study", run)
    main(["run", *SMOKE, *options, "--out", str(tmp_path)])
    assert planned == [count]


def test_a_part_without_an_argument_of_the_tables_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows are those alone; in a table they have a dash there, as beside all others."""
    planned: list[dict[str, Any]] = []

    def run(study: Any, *args: Any, **keywords: Any) -> Any:
        planned.extend(study.rows())
        raise KeyboardInterrupt

    monkeypatch.setattr("benchmarks.cli.run_study", run)
    main(["run", "step-windows", "--only", "all", "--out", str(tmp_path)])
    assert {row["window_knows"] for row in planned} == {"all"}
    assert not any("discount" in row for row in planned)


def test_a_failing_row_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other rows are measured, the status is 1; the next run measures it again."""
    (tmp_path / "fails.toml").write_text(
        'name = "fails"\nquestion = "?"\ncomputes = "fails:row"\n[[grid]]\ni = [0, 1]\n'
    )
    module = "def row(arguments, context):\n    return {'x': 1 // arguments['i']}\n"
    (tmp_path / "fails.py").write_text(module)
    monkeypatch.setattr("benchmarks.cli.FILES", tmp_path)
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert main(["run", "fails", "--out", str(tmp_path)]) == ROWS_FAILED
        assert "1 row failed" in capsys.readouterr().err
    by_status = {row.status: row for row in _rows(tmp_path, "fails")}
    assert set(by_status) == {Status.DONE, Status.FAILED}
    assert "ZeroDivisionError" in by_status[Status.FAILED].error


def _row(method: str, **values: Any) -> Row:
    given: dict[str, Any] = {"problem": "p", "objective": 10, "bound": 10, "claims_optimum": True}
    given |= values
    return Row(Task(method, "k", {"method": method}, "", ""), Status.DONE, values=given)


def test_two_proven_optima_that_differ_are_a_contradiction() -> None:
    """Whichever came first; on another problem they are none."""
    low, high = _row("a", objective=9, bound=9), _row("b")
    assert list(contradictions([low, high])) == ["problem p: b proves at least 10, a attains 9"]
    assert len(list(contradictions([high, low]))) == 1
    assert not list(contradictions([_row("a", objective=9, bound=9, problem="q"), high]))


def test_an_answer_below_a_proof_is_a_contradiction() -> None:
    """A heuristic cannot beat a lower bound; a row without answer or bound contradicts nothing."""
    heuristic = _row("h", objective=8, bound=None, claims_optimum=False)
    assert len(list(contradictions([heuristic, _row("b")]))) == 1
    empty = _row("h", objective=None, bound=None, claims_optimum=False)
    assert not list(contradictions([empty, _row("b")]))


def test_a_claim_is_refuted_by_a_better_answer() -> None:
    """On the same problem only, and not by an equal answer."""
    claim = _row("highs", bound=None, objective=11)
    assert refuted_claims([claim, _row("b")]) == [claim]
    assert not refuted_claims([_row("a"), _row("b")])
    assert not refuted_claims([claim, _row("b", problem="q")])


def test_list_names_every_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    """One line each."""
    assert main(["list"]) == DONE
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == NAMES


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "step"], "did you mean steps?"),
        (["run", *SMOKE, "--methods", "gurobi"], "'gurobi' is unknown"),
        (["run", *SMOKE, "--only", "nothing-like-this"], "contains all these texts"),
        (["run", *SMOKE, "--instances", "0"], "--instances: 0 is out of range"),
        (["run", *SMOKE, "--time-limit", "nan"], "--time-limit: nan s"),
        (["run", "steps-trace", "--smoke", "--data", "nowhere"], "nowhere"),
        (["report", *SMOKE], "no such store"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where, what and what to do; nothing is measured."""
    assert main([*arguments, "--out", str(tmp_path / "x")]) == BAD_INPUT
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err
    assert not (tmp_path / "x" / "steps.sqlite").exists()


def test_usage_errors_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Those of the parser too."""
    with pytest.raises(SystemExit, match="2"):
        main(["run"])
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=_LONG if name in LONG_ROWS else ()) for name in NAMES]
)
def test_the_report_asks_for_what_there_is(name: str, shared_data: Path) -> None:
    """Every value of its tables and figures is one that a row returns and that is described."""
    study = read_study(FILES / f"{name}.toml")
    study = replace(study, folder=shared_data)
    kind, returned = find(study.computes), set[str]()
    seen: set[str] = set()
    for row in study.small().rows():
        if str(row.get("method")) not in seen:
            seen.add(str(row.get("method")))
            returned |= _names_of(kind.compute(row, RowContext(study.folder)))
    assert all(kind.describe(value).text for value in returned)
    known = returned | {entry.name for entry in MEASURED}
    for table in study.report.tables:
        assert set(table.values) <= known
    for figure in study.report.figures:
        assert figure.y in known


def _names_of(result: RowResult | Mapping[str, Any]) -> set[str]:
    assert isinstance(result, RowResult)
    return {*result.values, *result.timings}


@pytest.mark.parametrize("name", NAMES)
def test_every_row_is_valid(name: str, shared_data: Path) -> None:
    """All rows of the full and the small size pass the checks of their kind."""
    study = read_study(FILES / f"{name}.toml")
    kind = find(study.computes)
    for row in [*study.rows(), *study.small().rows()]:
        assert isinstance(kind.instance(row, RowContext(shared_data)), str)


def test_the_kind_is_found_by_its_name() -> None:
    """As study files write it."""
    assert find("benchmarks.step_times:KIND") is KIND
