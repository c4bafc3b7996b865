"""What decides a row: the seed if anything draws, and the content of every file it names."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from bfio.batching.hardware import HARDWARE
from bfio.common.options import names_of, options_of
from bfio.decode.options import RunOptions
from bfio.decode.policy_registry import built_in
from bfio.studies import kinds
from bfio.studies.results import Results
from bfio.studies.row import RowContext, RowResult
from bfio.studies.runner import StudyRunOptions, plan, run_study
from bfio.studies.study import Grid, Study
from formulations.errors import InputError
from tests.decode.option_samples import Sample, run_samples

pytestmark = pytest.mark.usefixtures("rows_in_this_process")

TRACE = "arrival_time_s,prompt_tokens,output_tokens\n" + "".join(
    f"{i / 20},{7 + i * 37 % 90},{1 + i * 11 % 13}\n" for i in range(40)
)
SAMPLES = {str(s): s for s in run_samples() if s.owner == "RunOptions"}
#: Steps of so many seconds that what is drawn happens within a run.
SLOW: dict[str, Any] = {"trace": "trace.csv", "workers": 3, "slots": 3, "step_overhead": 0.5}
EVENTS = {
    "failures": "time_s,worker,event\n1,0,fail\n{},0,recover\n",
    "stragglers": "time_s,worker,factor\n1,0,3\n{},0,1\n",
    "cancellations": "time_s,request\n1,0\n{},5\n",
}


def _check(folder: Path, kind: str, given: dict[str, Any]) -> bool:
    """Check that a row whose numbers differ by seed says so; return whether it does."""
    (folder / "trace.csv").write_text(TRACE)
    rows = [
        kinds.find(kind).planned(given | {"seed": seed}, RowContext(folder)) for seed in range(3)
    ]
    (draws,) = {row.draws for row in rows}
    if not draws:
        first, *others = [row.compute() for row in rows]
        assert isinstance(first, RowResult)
        for other in others:
            assert isinstance(other, RowResult)
            assert other.values == first.values
    return draws


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_no_option_of_runs_draws_unsaid(sample: Sample, tmp_path: Path) -> None:
    """Every value of every option that is declared."""
    for given in sample.rows():
        _check(tmp_path, "simulate", SLOW | given | {"policy": "br-0"})


@pytest.mark.parametrize("policy", [*built_in(), "pausing:base=random", "pausing:base=fcfs"])
def test_no_policy_draws_unsaid(policy: str, tmp_path: Path) -> None:
    """Those that ask another policy included."""
    draws = _check(tmp_path, "simulate", SLOW | {"policy": policy})
    assert draws == (policy in ("random", "power-of-2", "pausing:base=random"))


@pytest.mark.parametrize(
    "given",
    [
        {"failures": "random:mtbf=3:mttr=1:until=1000"},
        {"stragglers": "random:mtbf=3:mttr=1:until=1000"},
        {"cancellations": "random:patience=1", "arrivals": "timed"},
        {"telemetry": "loss=0.5"},
        {"policy": "pausing", "base": "random"},
        {"policy": "br-h", "predictor": "noisy-oracle"},
    ],
)
def test_seeds_that_draw_are_replicates(given: dict[str, Any], tmp_path: Path) -> None:
    """They stay, with other numbers; those of a run in which nothing draws are one."""
    (tmp_path / "trace.csv").write_text(TRACE)
    chosen = {"policy": "br-0"} | given

    def results(fixed: dict[str, Any], name: str) -> Results:
        grid = Grid({"seed": [0, 1, 2]})
        study = Study(name, "Which?", "simulate", [grid], SLOW | fixed, folder=tmp_path)
        return run_study(study, tmp_path / f"{name}.sqlite", StudyRunOptions(jobs=1))

    drawn = results(chosen, "drawn")
    assert drawn.repeated == 0
    assert len({tuple(row.values.items()) for row in drawn.done}) > 1
    assert results({"policy": chosen["policy"]}, "plain").repeated == 2


def test_a_gap_asks_a_predictor_that_draws(tmp_path: Path) -> None:
    """Its program looks ahead, though its policy does not."""
    given = SLOW | {"policy": "br-0", "predictor": "noisy-oracle", "gap_horizon": 5}
    assert _check(tmp_path, "gap", given)
    assert not _check(tmp_path, "gap", given | {"gap_horizon": 0})


@pytest.mark.parametrize("kind", ["simulate", "gap", "improvement-ratio"])
@pytest.mark.parametrize("option", EVENTS)
def test_the_content_of_a_schedule_belongs_to_the_row(
    kind: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read from the folder of the data; one that has changed makes other rows."""
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    data.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    (data / "trace.csv").write_text(TRACE)
    given = SLOW | {"policy": "br-0", "arrivals": "timed", option: "events.csv"}
    with pytest.raises(InputError, match=rf"argument {option}: cannot read 'events.csv'"):
        kinds.find(kind).planned(given, RowContext(data))
    keys, values = [], []
    for time in (2, 9):
        (data / "events.csv").write_text(EVENTS[option].format(time))
        study = Study("events", "Which?", kind, [Grid({"seed": [0]})], given, folder=data)
        (task,) = plan(study)
        keys.append(task.key)
        results = run_study(study, tmp_path / "events.sqlite", StudyRunOptions(jobs=1))
        (row,) = results.done
        values.append(dict(row.values))
        assert f"{option} events.csv" in task.setting.values()
    assert keys[0] != keys[1]
    # How long steps last is not a value of a gap, nor of a ratio of imbalances.
    assert values[0] != values[1] or (option == "stragglers" and kind != "simulate")


def test_every_option_that_may_name_a_file_is_read_so() -> None:
    """As those above."""
    files = {e.name for e in options_of(RunOptions) if e.kind.is_file("events.csv")}
    assert files == set(EVENTS) <= set(names_of(RunOptions))


@pytest.mark.parametrize(
    ("kind", "given", "sources"),
    [
        (
            "batching",
            {"hardware": next(iter(HARDWARE)), "horizon": 3, "rate": 5, "policy": "own.py:rule"},
            (
                "def rule(state):\n    return [0] * len(state)\n",
                "def rule(state):\n    return [1] * len(state)\n",
            ),
        ),
        (
            "worst-case",
            {"system": "cache", "policy": "own.py:rule", "requests": 2},
            (
                "def rule(state):\n    return state\n",
                "def rule(state):\n    return list(state)\n",
            ),
        ),
        (
            "simulate",
            SLOW | {"policy": "bf-io", "backend": "own.py:rule"},
            ("def rule(): return 1\n", "def rule(): return 2\n"),
        ),
    ],
)
def test_a_file_of_ones_own_belongs_to_the_row(
    kind: str, given: dict[str, Any], sources: tuple[str, str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """One that has changed makes other rows, whatever names it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace.csv").write_text(TRACE)
    keys = []
    for source in sources:
        (tmp_path / "own.py").write_text(source)
        shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)
        study = Study("own", "Which?", kind, [Grid({"seed": [0]})], given, folder=tmp_path,
                      home=tmp_path)  # fmt: skip
        (task,) = plan(study)
        keys.append(task.key)
    assert keys[0] != keys[1]


def test_a_study_refuses_arguments_that_none_of_its_rows_reads(tmp_path: Path) -> None:
    """One that a row reads stays, and rows that do not read it are told to be one."""

    def study(policies: list[str]) -> Study:
        grids = [Grid({"policy": policies, "gamma": ["0.5", "0.9"], "max_wait": [3]})]
        return Study("unread", "Which?", "simulate", grids, SLOW, folder=tmp_path)

    (tmp_path / "trace.csv").write_text(TRACE)
    message = "unread: argument gamma: fcfs reads no such option; leave it out, or add a"
    with pytest.raises(InputError, match=message):
        plan(study(["fcfs", "br-0"]))
    message = (
        "unread: argument max_wait: each policy that reads it has its own value after its name"
    )
    with pytest.raises(InputError, match=message):
        plan(study(["br-h:max_wait=2"]))
    first, second, *others = plan(study(["br-0", "br-h"]))
    assert first.meaning == second.meaning
    assert len({task.meaning for task in others}) == 2
