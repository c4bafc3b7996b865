"""Provenance of results: planted wrong digests, commits and numbers are detected."""

import runpy
from pathlib import Path

import pytest

from benchmarks.cli import main
from benchmarks.readme import CODE, COMMIT, RESULTS, plain_lines
from benchmarks.results_command import (
    CHANGED,
    CURRENT,
    DERIVED,
    Result,
    differences,
    headlines,
    other_lines,
    refusals,
    remake,
    results,
    sample,
)
from bfio.cli.command import BAD_INPUT, DONE
from bfio.common.provenance import has_commit
from bfio.studies.kinds import code_version
from bfio.studies.report.markdown import parsed_records
from formulations.errors import InputError
from tests.places import STUDIES

pytestmark = pytest.mark.usefixtures("rows_of_module_in_this_process")

STUDY = """
name = "tiny"
question = "How much imbalance is there?"
computes = "simulate"

[fixed]
synthetic = "demo"
requests = 40
workers = 2
slots = 4
pool = 8

[[grid]]
policy = ["fcfs", "br-0"]
seed = [0, 1]

[[report.tables]]
name = "imbalance"
title = "Imbalance"
rows = ["policy"]
values = ["avg_imbalance", "wall_s"]
baseline = { policy = "fcfs" }
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a small result, and return its folder."""
    folder = tmp_path_factory.mktemp("result")
    (folder / "tiny.toml").write_text(STUDY, encoding="utf-8")
    assert remake(_result(folder), folder, 1)
    # Whoever works on the sources tests them, too.
    made = folder / "tiny.csv"
    made.write_text(
        made.read_text(encoding="utf-8").replace(" with changes", ""), encoding="utf-8"
    )
    return folder


@pytest.fixture(autouse=True)
def committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the sources as committed, as they are in continuous integration."""
    monkeypatch.setattr("benchmarks.results_command.is_dirty", lambda *folders: False)


def _result(folder: Path) -> Result:
    return Result(folder / "tiny.csv", folder / "tiny.toml")


def _planted(made: Path, folder: Path, old: str, new: str) -> Result:
    """Return a copy of the result with another text in it."""
    text = (made / "tiny.csv").read_text(encoding="utf-8")
    assert old in text
    (folder / "tiny.csv").write_text(text.replace(old, new), encoding="utf-8")
    (folder / "tiny.toml").write_text(STUDY, encoding="utf-8")
    return _result(folder)


def test_a_result_names_its_code(made: Path) -> None:
    """The digest is that of its rows' keys, and the result is current; a sample repeats it."""
    result = _result(made)
    assert result.origin["code"] == code_version("simulate")
    assert result.state() == CURRENT
    assert result.origin["processor"]
    assert sample(result) == []


def test_a_planted_digest_is_stale(made: Path, tmp_path: Path) -> None:
    """Another digest, or none, is told; as a sample repeats the numbers, they pass."""
    code = _result(made).origin["code"]
    result = _planted(made, tmp_path, code, "0" * 16)
    assert result.state() == CHANGED
    assert not any("avg_imbalance" in line for line in refusals(result))
    assert _planted(made, tmp_path, code, "").state() == CHANGED


def test_a_planted_commit_is_refused(made: Path, tmp_path: Path) -> None:
    """A commit that does not exist is named, and sources that were changed are in no commit."""
    if has_commit("HEAD") is None:
        pytest.skip("not in a checkout with its history")
    commit = _result(made).origin["commit"]
    for planted in ("0123abc", f"{commit} with changes"):
        result = _planted(made, tmp_path, commit, planted)
        assert planted in result.lost_commits()
        assert f"commit {planted} does not exist" in refusals(result)


def test_a_commit_that_history_lost_is_renamed(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the digest is today's, so is the code of today's commit: nothing is computed again."""
    if has_commit("HEAD") is None:
        pytest.skip("not in a checkout with its history")
    commit = _result(made).commits[0]
    result = _planted(made, tmp_path, commit.split()[0], "0123abc")
    monkeypatch.setattr("benchmarks.results_command.is_dirty", lambda *folders: True)
    with pytest.raises(InputError, match="commit them first"):
        remake(result, tmp_path, 1)
    monkeypatch.setattr("benchmarks.results_command.is_dirty", lambda *folders: False)
    assert remake(result, tmp_path, 1) == []
    assert "0123abc" not in result.path.read_text(encoding="utf-8")
    assert not _result(tmp_path).lost_commits()
    assert not list(tmp_path.glob("*.sqlite"))


def test_fewer_rows_than_before_are_not_written(made: Path, tmp_path: Path) -> None:
    """A busy machine, on which rows run out of time, spoils no result."""
    result = _planted(made, tmp_path, "rows,,done,4,", "rows,,done,5,")
    before = result.path.read_bytes()
    with pytest.raises(InputError, match="4 rows are successful, but 5 were before"):
        remake(result, tmp_path, 1)
    assert result.path.read_bytes() == before


def test_a_planted_number_of_older_code_is_refused(made: Path, tmp_path: Path) -> None:
    """Whichever line the sample takes, a wrong number in it is found; remaking corrects it."""
    lines = (made / "tiny.csv").read_text(encoding="utf-8").splitlines()
    for policy in ("fcfs", "br-0"):
        (line,) = [row for row in lines if f"{policy},avg_imbalance," in row]
        number = line.split(",")[3]
        result = _planted(made, tmp_path, line, line.replace(number, "7.25", 1))
        found = remake(result, tmp_path, 1)
        assert any(f"7.25 before, {number} now" in difference for difference in found)
        assert remake(_result(tmp_path), tmp_path, 1) == []
    both = _planted(made, tmp_path, "avg_imbalance,", "avg_imbalance,9")
    assert any("estimate" in line for line in sample(both))


def test_times_clocks_and_rounding_are_left_out() -> None:
    """What a clock measured or decided is no difference, nor is the last digit."""
    head = "table,argument.policy,value,estimate,rows_clocked\n"
    old = parsed_records(f"{head}rows,,commit,1,\nt,a,wall_s,1,\nt,a,x,1.0000001,\nt,b,x,5,\n")
    new = parsed_records(f"{head}rows,,commit,2,\nt,a,wall_s,2,\nt,a,x,1.0000002,\nt,b,x,6,1\n")
    assert differences(old, new, {"wall_s"}) == []
    assert differences(old, new, set()) == ["t policy=a wall_s estimate: 1 before, 2 now"]


def test_every_cell_of_a_measured_table_is_compared() -> None:
    """The whole table of README.md, apart from the names of the code."""
    lines = plain_lines(RESULTS / "compare.csv")
    for line, cells in enumerate(lines[1:], start=1):
        for place, name in enumerate(lines[0]):
            other = [*cells[:place], f"{cells[place]}7", *cells[place + 1 :]]
            found = other_lines(lines, [*lines[:line], other, *lines[line + 1 :]])
            assert len(found) == (name not in (COMMIT, CODE))


def test_commits_of_results_exist() -> None:
    """Every commit that a result names is in the history."""
    if has_commit("HEAD") is None:
        pytest.skip("not in a checkout with its history")
    assert not [result.name for result in results() if result.lost_commits()]


def test_results_are_all_there_is() -> None:
    """Results of studies and derived tables; those of pages among them."""
    states = {result.name: result.state() for result in results()}
    # Nothing was written down by hand, and no study is without its rows.
    assert set(states.values()) <= {CURRENT, CHANGED, DERIVED}
    assert all(result.script for result in results() if states[result.name] == DERIVED)
    pages = {result.name for result in headlines()}
    assert pages < set(states)
    assert {"results/compare", "results/gap", "01-paper-table/study"} <= pages


@pytest.mark.deep
def test_derived_tables_are_those_of_their_script(tmp_path: Path) -> None:
    """Study 37's tables without runs come out of the script beside them."""
    folder = STUDIES / "37-saturation"
    script = tmp_path / "derived.py"
    script.write_bytes((folder / script.name).read_bytes())
    runpy.run_path(str(script), run_name="__main__")
    made = sorted(tmp_path.glob("*.csv"))
    assert [path.stem for path in made] == ["capacity", "groups-derived", "vllm"]
    for path in made:
        assert path.read_text(encoding="utf-8") == (folder / path.name).read_text(encoding="utf-8")
        assert Result(folder / path.name, None).script == script.name


def test_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """A list says how long each result takes; what there is not is refused in one line."""
    assert main(["remake", "--list", "41-worst-cases/steady"]) == DONE
    assert " s on " in capsys.readouterr().out
    assert main(["stale", "no-such"]) == BAD_INPUT
    assert capsys.readouterr().err.startswith("error: no-such: result does not exist; ")
