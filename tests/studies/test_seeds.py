"""A seed that changes nothing gives no replicates, and so no interval."""

from pathlib import Path

import pytest

from bfio.cli.main import main
from bfio.studies.report.drawing import Places, points
from bfio.studies.report.markdown import markdown_tables, parsed_records, records_csv
from bfio.studies.report.selection import grouped
from bfio.studies.report.tables import build
from bfio.studies.results import Results
from bfio.studies.runner import StudyRunOptions, run_study
from bfio.studies.study_file import read_study

pytestmark = pytest.mark.usefixtures("rows_in_this_process")

TRACE = "arrival_time_s,prompt_tokens,output_tokens\n" + "".join(
    f"{i},{7 + i * 37 % 90},{1 + i * 11 % 13}\n" for i in range(60)
)
OWN = '''
def first_free(state):
    """Worker by worker."""
    free = list(state.free_slots)
    answer = []
    for _ in state.sizes:
        worker = next((g for g, slots in enumerate(free) if slots), None)
        if worker is not None:
            free[worker] -= 1
        answer.append(worker)
    return answer
'''
STUDY = """
name = "seeds"
question = "Does the seed matter?"
computes = "simulate"

[fixed]
trace = "trace.csv"
workers = 2
slots = 3
pool = 8
{fixed}

[[grid]]
policy = {policies}
seed = {{ from = 0, count = 4 }}

[[report.tables]]
title = "Imbalance"
rows = ["policy"]
values = ["avg_imbalance", "decide_s"]
baseline = {{ policy = "fcfs" }}
"""


def _study(folder: Path, fixed: str = "", policies: str = '["fcfs", "random"]') -> Path:
    (folder / "trace.csv").write_text(TRACE)
    path = folder / "study.toml"
    path.write_text(STUDY.format(fixed=fixed, policies=policies))
    return path


def _results(path: Path) -> Results:
    store = path.with_suffix(".sqlite")
    return run_study(read_study(path), store, StudyRunOptions(jobs=1))


def _records(results: Results) -> dict[object, dict[str, object]]:
    view = build(results.study.report.tables[0], results)
    return {r["argument.policy"]: dict(r) for r in view.records if r["value"] == "avg_imbalance"}


def test_a_fixed_trace_and_a_policy_that_never_draws(tmp_path: Path) -> None:
    """Four equal rows are one: no interval; a policy that draws keeps its own."""
    results = _results(_study(tmp_path))
    assert (len(results.done), results.repeated) == (8, 3)
    values = {
        row.task.arguments["seed"]: row.values["avg_imbalance"]
        for row in results.done
        if row.task.arguments["policy"] == "fcfs"
    }
    assert len(set(values.values())) == 1
    records = _records(results)
    assert "lower" not in records["fcfs"]
    assert records["random"]["lower"] < records["random"]["upper"]  # type: ignore[operator]
    # Each row of the policy that draws is divided by the baseline of its seed.
    assert records["random"]["pairs"] == 4
    view = build(results.study.report.tables[0], results)
    notes = " ".join(str(part) for note in view.notes for part in note)
    assert "neither requests nor run" in notes
    assert "resample = true" in notes
    (table,) = markdown_tables(results.study, parsed_records(records_csv(results))).values()
    line = next(line for line in table.splitlines() if line.startswith("| fcfs |"))
    assert " to " not in line.split("|")[2]
    assert "(the seed changes nothing)" in line


def test_it_is_said_at_plan_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is computed, with what to write instead."""
    path = _study(tmp_path)
    store = str(tmp_path / "store.sqlite")
    assert main(["study", "run", str(path), "--store", store, "--jobs", "1"]) == 0
    assert "note: 3 of 8 rows differ from another row only in the seed" in capsys.readouterr().err


def test_requests_that_are_drawn_are_replicates(tmp_path: Path) -> None:
    """Each seed draws others."""
    results = _results(_study(tmp_path, "resample = true"))
    assert results.repeated == 0
    assert "lower" in _records(results)["fcfs"]


def test_a_predictor_that_draws_makes_replicates_of_who_asks_it(tmp_path: Path) -> None:
    """BR-H looks ahead, fcfs does not."""
    fixed = 'predictor = "noisy-oracle:0.5"\nhorizon = 3'
    results = _results(_study(tmp_path, fixed, policies='["fcfs", "br-h"]'))
    assert results.repeated == 3
    records = _records(results)
    assert "lower" not in records["fcfs"]
    assert "lower" in records["br-h"]


def test_ones_own_policy_may_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows, so that its rows count; values that agree are not taken for a repetition."""
    (tmp_path / "own_policies.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    results = _results(_study(tmp_path, policies='["fcfs", "own_policies:first_free"]'))
    assert results.repeated == 3


def test_times_keep_their_intervals(tmp_path: Path) -> None:
    """What a clock measured differs from row to row."""
    results = _results(_study(tmp_path))
    view = build(results.study.report.tables[0], results)
    times = [record for record in view.records if record["value"] == "decide_s"]
    assert all(record["rows_done"] == 4 for record in times)


def test_figures_count_them_once(tmp_path: Path) -> None:
    """A point over equal rows has no error bar."""
    path = _study(tmp_path)
    path.write_text(
        path.read_text()
        + """
[[report.figures]]
title = "By workers"
kind = "lines"
x = "workers"
y = "avg_imbalance"
group = ["policy"]
"""
    )
    results = _results(path)
    figure = results.study.report.figures[0]
    for curve in grouped(results.done, ["policy"]):
        (point,) = points(figure, curve, Places.of(results.done, "workers"))
        assert (point.estimate.interval is None) == (curve.values == ("fcfs",))


def test_a_seed_that_draws_equal_requests(tmp_path: Path) -> None:
    """Laws of one length: known at plan time by the digest of the requests."""
    path = _study(tmp_path, policies='["fcfs"]')
    laws = 'prompts = "homogeneous:value=7"\noutputs = "homogeneous:value=3"\nrequests = 60'
    path.write_text(path.read_text().replace('trace = "trace.csv"', laws))
    results = _results(path)
    assert results.repeated == 3
    assert "lower" not in _records(results)["fcfs"]


def test_equal_values_of_different_seeds(tmp_path: Path) -> None:
    """Two choices of two workers are no choice: a policy that draws, and values that agree."""
    fixed = 'prompts = "homogeneous:value=7"\noutputs = "homogeneous:value=3"\nrequests = 60'
    path = _study(tmp_path, policies='["power-of-2"]')
    text = path.read_text().replace('trace = "trace.csv"', fixed)
    path.write_text(text.replace('baseline = { policy = "fcfs" }', ""))
    results = _results(path)
    assert results.repeated == 0
    (record,) = _records(results).values()
    assert "lower" not in record
    assert record["no_interval"] == "all rows equal"
    (table,) = markdown_tables(results.study, parsed_records(records_csv(results))).values()
    assert "(all rows equal)" in table
