"""The line of settings of a study, and its notes on unexpected settings."""

from pathlib import Path

import pytest

from bfio.decode.policy_registry import choose
from bfio.decode.state import DecodeState
from bfio.studies.report.page import write_report
from bfio.studies.report.tables import build
from bfio.studies.results import shared_and_varied, study_remarks, study_settings
from bfio.studies.row import RowContext
from bfio.studies.row_parts.arguments import Arguments
from bfio.studies.row_parts.runs import ARGUMENTS, run_plan
from bfio.studies.runner import StudyRunOptions, plan, run_study
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
    path.write_text(STUDY.replace("pool = 8", more or "pool = 8"))
    return path


def test_what_is_shared_and_what_varies(tmp_path: Path) -> None:
    """Requests used and dropped, machine, arrivals, what is known, and options of policies."""
    shared, varied = shared_and_varied(plan(read_study(_file(tmp_path))))
    assert shared == [
        "trace: 55 requests (5 without output dropped)",
        "pool of 8",
        "predictor none (unknown lengths)",
        "gamma 0.5",
    ]
    assert varied == [
        "machine (2x3 (workers x slots), 3x3 (workers x slots))",
        "look-ahead (20 (constant loads), 2 (constant loads))",
        "seed (0 to 7, 8 values)",
        "policy (br-h, br-h:horizon=2)",
    ]


class Ahead:
    """A policy that says how far it looks only once it is made."""

    def __init__(self) -> None:
        self.horizon = 9

    def __call__(self, state: DecodeState) -> list[int | None]:
        """Fill the lowest worker first."""
        return list(choose("fcfs").make()(state))


POLICIES = {
    "br-h", "br-h:horizon=3", "bf-io", "bf-io:horizon=5", "br-0", "fcfs", f"{__name__}:Ahead",
    f"{__name__}:Ahead:horizon=30",
}  # fmt: skip


@pytest.mark.parametrize("horizon", [None, 4])
@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_the_look_ahead_told_is_that_of_the_run(policy: str, horizon: int | None) -> None:
    """By default, as an argument, behind a policy's name and as an attribute of one's own."""
    arguments = {"synthetic": "demo", "requests": 20, "workers": 2, "slots": 2, "policy": policy}
    given = arguments | ({} if horizon is None else {"horizon": horizon})
    run = run_plan(Arguments(given, ARGUMENTS), RowContext(Path()))
    assert run.look_ahead == run.run().policy_options.get("horizon", 0)
    told = (
        "look-ahead 0" if run.look_ahead == 0 else f"look-ahead {run.look_ahead} (constant loads)"
    )
    assert run.setting()["look-ahead"] == told


def test_constants_are_told_once_with_their_defaults() -> None:
    """Memory with its rule, the step time with the constants left as published, limits."""
    machine = {"memory": 900, "step_overhead": 0.25, "prefix_cache": 512, "slo": "ttft=2"}
    run = {"synthetic": "demo", "requests": 20, "workers": 2, "slots": 2, "policy": "fcfs"}
    told = run_plan(Arguments(run | machine, ARGUMENTS), RowContext(Path())).setting()
    assert told["memory"] == "memory 900 tokens (recompute)"
    assert told["step time"] == "step time 0.25 s + 1.00525e-07 s/token of the peak"
    assert told["service level"] == "service level TTFT <= 2 s"
    assert not told.keys() & machine.keys() - {"memory"}


@pytest.mark.parametrize(
    ("fixed", "grid", "shared", "varied"),
    [
        ("", 'policy = ["br-h"]', ["look-ahead 20 (constant loads)"], []),
        ("horizon = 7", 'policy = ["br-h"]', ["look-ahead 7 (constant loads)"], []),
        (
            'predictor = "oracle"',
            'policy = ["fcfs", "br-h"]\nhorizon = [5, 30]',
            [],
            ["look-ahead (0, 5 (constant loads), 30 (constant loads))"],
        ),
    ],
)
def test_look_ahead_of_a_study(
    tmp_path: Path, fixed: str, grid: str, shared: list[str], varied: list[str]
) -> None:
    """Fixed, along the grid, and by default, as far as policies read it."""
    path = tmp_path / "ahead.toml"
    path.write_text(
        'name = "ahead"\nquestion = "?"\ncomputes = "simulate"\n[fixed]\nsynthetic = "demo"\n'
        f"requests = 20\nworkers = 2\nslots = 2\n{fixed}\n[[grid]]\n{grid}\n"
    )
    parts = shared_and_varied(plan(read_study(path)))
    told = [[part for part in found if "look-ahead" in part] for found in parts]
    assert told == [shared, varied]


def test_look_aheads_of_two_runs_of_a_row(tmp_path: Path) -> None:
    """That of the policy and that of its baseline."""
    path = tmp_path / "ratio.toml"
    path.write_text(
        'name = "r"\nquestion = "?"\ncomputes = "improvement-ratio"\n[fixed]\nsynthetic = "demo"\n'
        'requests = 20\nworkers = 2\nslots = 2\n[[grid]]\npolicy = ["br-h"]\n'
    )
    shared, _ = shared_and_varied(plan(read_study(path)))
    assert "look-ahead 0 to 20 (constant loads)" in shared


def test_unused_arrival_times_are_told(tmp_path: Path) -> None:
    """With the argument that uses them; nothing where they are used."""
    remark, *_ = study_remarks(plan(read_study(_file(tmp_path))))
    assert remark.endswith('Use arrivals="timed" to run with these times.')
    used = study_remarks(plan(read_study(_file(tmp_path, 'arrivals = "timed"'))))
    assert not any("arrival times" in remark for remark in used)


@pytest.mark.parametrize(
    ("fixed", "grid", "told"),
    [
        (
            'predictor = "oracle"',
            'policy = ["fcfs", "br-0"]',
            ["Predictor oracle has no effect", "No predictor of these rows learns: the first 20 "],
        ),
        ('predictor = "survival"', 'policy = ["fcfs", "br-h"]', []),
        ("", 'policy = ["br-h"]\npredictor = ["none", "survival"]', []),
        (
            "",
            'policy = ["br-h"]',
            [
                "Look-ahead has no effect here: no ends are predicted",
                "No predictor of these rows learns",
            ],
        ),
        ('projection = "growing"', 'policy = ["br-h"]', ["No predictor of these rows learns"]),
        (
            'predictor = "survival"',
            'policy = ["br-h", "br-h:horizon=20", "br-h:horizon=21"]\nseed = [1, 2]',
            ["Rows with policy br-h and with policy br-h:horizon=20 are the same under two"],
        ),
        (
            'policy = "br-h"',
            'predictor = ["noisy-oracle:0.5", "survival", "noisy-oracle", "survival:refresh=5"]',
            ["Rows with predictor noisy-oracle:0.5 and with predictor noisy-oracle are the"],
        ),
    ],
)
def test_what_changes_nothing_in_a_study(
    tmp_path: Path, fixed: str, grid: str, told: list[str]
) -> None:
    """A predictor that no row asks, a history that none learns from, one thing spelt twice."""
    (tmp_path / "trace.csv").write_text(TRACE)
    path = tmp_path / "unused.toml"
    path.write_text(
        'name = "u"\nquestion = "?"\ncomputes = "simulate"\n[fixed]\ntrace = "trace.csv"\n'
        f"slots = 3\nworkers = 2\ntrain_share = 0.37\npool = 8\n{fixed}\n[[grid]]\n{grid}\n"
    )
    _, *others = study_remarks(plan(read_study(path)))
    assert len(others) == len(told)
    assert all(one.startswith(other) for one, other in zip(others, told, strict=True))


def test_a_gap_over_a_window_asks_the_predictor(tmp_path: Path) -> None:
    """Whatever the policy does; the gap of single steps does not."""
    path = tmp_path / "gap.toml"
    asked = []
    for horizon in (0, 3):
        path.write_text(
            'name = "g"\nquestion = "?"\ncomputes = "gap"\n[fixed]\nsynthetic = "demo"\n'
            'requests = 9\nworkers = 2\nslots = 2\npredictor = "oracle"\n'
            f'gap_horizon = {horizon}\n[[grid]]\npolicy = ["fcfs"]\n'
        )
        asked.append(not any("has no effect" in r for r in study_remarks(plan(read_study(path)))))
    assert asked == [False, True]


def test_arguments_stand_for_kinds_without_words_of_their_own(tmp_path: Path) -> None:
    """As the study file has them."""
    path = tmp_path / "own.toml"
    path.write_text(
        'name = "own"\nquestion = "?"\ncomputes = "tests.studies.rows:square"\n'
        "[fixed]\nb = true\n[[grid]]\nx = [1, 2]\n"
    )
    assert shared_and_varied(plan(read_study(path))) == (["b true"], ["x (1, 2)"])


@pytest.mark.usefixtures("rows_in_this_process")
def test_pages_tables_and_figures_carry_it(tmp_path: Path) -> None:
    """Each that of its own rows, with the version that computed them."""
    results = run_study(
        read_study(_file(tmp_path)), tmp_path / "s.sqlite", StudyRunOptions(jobs=1)
    )
    whole = study_settings(results)
    assert ", bfio " in whole
    view = build(results.study.report.tables[0], results)
    assert "3x3 (workers x slots), pool of 8" in view.settings
    assert view.settings.endswith(
        "; varies: look-ahead (20 (constant loads), 2 (constant loads)), "
        "policy (br-h, br-h:horizon=2)"
    )
    write_report(results, tmp_path / "report")
    page = (tmp_path / "report" / "report.html").read_text()
    assert page.count(whole) == 2  # at the head, and with the figure, which has all rows
    assert view.settings in page
