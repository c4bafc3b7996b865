"""The line of settings of a study, and what its reader might not expect."""

from pathlib import Path

from bfio.studies.report.page import write_report
from bfio.studies.report.tables import build
from bfio.studies.runner import plan, run_study
from bfio.studies.settings import shared_and_varied, study_remarks, study_settings
from bfio.studies.study_file import read_study

TRACE = "arrival_time_s,prompt_tokens,output_tokens\n" + "".join(
    f"{i},{7 + i * 37 % 90},{i * 11 % 13}\n" for i in range(60)
)
STUDY = """
name = "lines"
question = "What is it made of?"
computes = "simulate"
[fixed]
trace = "trace.csv"
slots = 3
pool = 8
gamma = 0.5
[[grid]]
workers = [2, 3]
policy = ["br-h", "br-h:horizon=2"]
seed = { from = 0, count = 8 }
[[report.tables]]
title = "Three workers"
rows = ["policy"]
values = ["avg_imbalance"]
where = { workers = 3, seed = 0 }
[[report.figures]]
title = "Workers"
kind = "lines"
x = "workers"
y = "avg_imbalance"
"""


def _file(folder: Path, more: str = "") -> Path:
    (folder / "trace.csv").write_text(TRACE)
    path = folder / "study.toml"
    path.write_text(STUDY.replace("pool = 8", f"pool = 8\n{more}"))
    return path


def test_what_is_shared_and_what_varies(tmp_path: Path) -> None:
    """Requests used and dropped, machine, arrivals, what is known, and options of policies."""
    shared, varied = shared_and_varied(plan(read_study(_file(tmp_path))))
    assert shared == [
        "trace: 55 requests (5 without output dropped)",
        "pool of 8",
        "look-ahead 0",
        "predictor none (unknown lengths)",
        "gamma 0.5",
    ]
    assert varied == [
        "machine (2x3 (workers x slots), 3x3 (workers x slots))",
        "seed (0 to 7, 8 values)",
        "policy (br-h, br-h:horizon=2)",
    ]


def test_unused_arrival_times_are_told(tmp_path: Path) -> None:
    """With the argument that uses them; nothing where they are used."""
    (remark,) = study_remarks(plan(read_study(_file(tmp_path))))
    assert remark.endswith('arrivals = "timed" uses them.')
    assert study_remarks(plan(read_study(_file(tmp_path, 'arrivals = "timed"')))) == []


def test_arguments_stand_for_kinds_without_words_of_their_own(tmp_path: Path) -> None:
    """As the study file has them."""
    path = tmp_path / "own.toml"
    path.write_text(
        'name = "own"\nquestion = "?"\ncomputes = "tests.studies.rows:square"\n'
        "[fixed]\nb = true\n[[grid]]\nx = [1, 2]\n"
    )
    assert shared_and_varied(plan(read_study(path))) == (["b true"], ["x (1, 2)"])


def test_pages_tables_and_figures_carry_it(tmp_path: Path) -> None:
    """Each that of its own rows, with the version that computed them."""
    results = run_study(read_study(_file(tmp_path)), tmp_path / "s.sqlite")
    whole = study_settings(results)
    assert ", bfio " in whole
    view = build(results.study.report.tables[0], results)
    assert "3x3 (workers x slots), pool of 8" in view.settings
    assert view.settings.endswith("; varies: policy (br-h, br-h:horizon=2)")
    write_report(results, tmp_path / "report")
    page = (tmp_path / "report" / "report.html").read_text()
    assert page.count(whole) == 2  # at the head, and with the figure, which has all rows
    assert view.settings in page
