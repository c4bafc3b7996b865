"""``bfio wait``: tables, documents, traces and plots."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bfio.wait.arrivals import varying_instance
from bfio.wait.registry import BUILT_IN, build
from bfio.wait.simulation import serve
from formulations.fluid import FluidProblem, RateProfile, SinusoidalRates
from tests.cli.conftest import Bfio
from tests.cli.test_fluid import I0

TRACE = "arrival_time_s,prompt_tokens,output_tokens\n0,1,1\n1,1,2\n2.5,1,1\n3,1,2\n"


def _write(folder: Path, **change: object) -> str:
    path = folder / "load.json"
    path.write_text(json.dumps(I0 | change))
    return str(path)


def _trace(folder: Path, text: str = TRACE) -> str:
    path = folder / "trace.csv"
    path.write_text(text)
    return str(path)


def test_the_golden_instance(bfio: Bfio, tmp_path: Path) -> None:
    """Even arrivals on I0 for 1000 s: 8 stages are open at the end, as counted by hand."""
    done = bfio(
        "wait",
        _write(tmp_path),
        *("--policy", "wait:thresholds=1,1", "--policy", "fcfs"),
        *("--horizon", "1000", "--arrivals", "even", "--json"),
    )
    answer: dict[str, Any] = done.json
    assert done.status == 0
    assert answer["fluid"] == {
        "throughput": 5,
        "decode_throughput": 3,
        "load": 0.5,
        "equilibrium_memory": 9,
        "iteration_time": 1,
        "notes": [],
    }
    wait, fcfs = answer["runs"]
    assert [run["policy"] for run in answer["runs"]] == ["wait:thresholds=1,1", "fcfs"]
    assert wait["gap"] == pytest.approx(8 / 1000)
    assert (wait["requests"], wait["completed"], wait["peak_memory"]) == (1998, 1995, 9)
    assert wait["verdict"] == "horizon"
    assert wait["violations"] == fcfs["violations"] == {}


def test_the_fluid_optimum_tells_what_no_engine_completes(bfio: Bfio, tmp_path: Path) -> None:
    """As ``bfio fluid`` does: a request of class 1 needs 3 tokens."""
    done = bfio("wait", _write(tmp_path, memory=2), "--horizon", "20")
    told = "class 1: one request needs 3 tokens at its end, more than the memory of any worker"
    assert told in " ".join(done.out.split())


def test_the_table(bfio: Bfio, tmp_path: Path) -> None:
    """One row per policy, the fluid optimum below; the default policy is WAIT."""
    done = bfio("wait", _write(tmp_path), "--horizon", "50")
    assert done.status == 0
    assert "│ wait " in done.out
    assert "fluid optimum: 5 stages/s, 3 decode tokens/s" in done.out
    assert "equilibrium 9, load 0.5 of the engine's time" in done.out
    words = " ".join(done.out.split())
    assert "2 classes, poisson arrivals for 50 s, d0 1/2 s and d1 1/18 s a token, memory " in words
    assert "9 tokens, observed for 50 s, seed 0, bfio " in words
    assert "wait exceeds the memory: " in words
    assert " batches held more than 9 tokens, at most 18. Such a batch runs" in words
    assert "BROKEN" not in done.out


def test_equal_seeds_give_equal_runs(bfio: Bfio, tmp_path: Path) -> None:
    """The same document for the same seed, another for another."""
    name = _write(tmp_path)
    answers = [
        bfio("wait", name, "--horizon", "50", "--seed", seed, "--json").json["runs"]
        for seed in ("3", "3", "4")
    ]
    assert answers[0] == answers[1] != answers[2]


def test_drained_runs_complete_everything(bfio: Bfio, tmp_path: Path) -> None:
    """Arrivals end at T, and the run when all have completed: no gap."""
    name = _write(tmp_path)
    (run,) = bfio("wait", name, "--horizon", "50", "--drain", "--json").json["runs"]
    assert (run["verdict"], run["gap"]) == ("finished", 0)
    assert run["completed"] == run["requests"]
    assert run["horizon_s"] > 50


def test_heavy_traffic(bfio: Bfio, tmp_path: Path) -> None:
    """ζ = 4: the same seed over T/4 gives throughput times 4, latency over 4."""
    name = _write(tmp_path)
    (one,) = bfio("wait", name, "--horizon", "80", "--json").json["runs"]
    scaled = bfio("wait", name, "--horizon", "20", "--scale", "4", "--json").json
    (four,) = scaled["runs"]
    assert four["throughput"] == pytest.approx(4 * one["throughput"])
    assert four["latency_mean_s"] == pytest.approx(one["latency_mean_s"] / 4)
    assert scaled["fluid"]["throughput"] == 20


@pytest.mark.parametrize(
    "rates",
    [
        {"breaks": [0, 20], "rates": [["1/2", 2], [2, 0]], "period": 40},
        {"means": [1, 2], "amplitudes": [1, "1/2"], "period": 40, "phases": [0, 0.5]},
    ],
    ids=["steps", "sines"],
)
def test_rates_that_vary(bfio: Bfio, tmp_path: Path, rates: dict[str, Any]) -> None:
    """The same run as in Python; a file of that form is the only difference."""
    profile = tmp_path / "rates.json"
    profile.write_text(json.dumps(rates))
    named = ("--policy", "nested-wait:thresholds=4,3", "--seed", "5", "--horizon", "80", "--json")
    answer = bfio("wait", _write(tmp_path), "--profile", str(profile), *named).json
    problem = FluidProblem.from_mapping(I0)
    made = (SinusoidalRates if "means" in rates else RateProfile)(**rates)
    data = varying_instance(problem, made, 80, seed=5)
    run = serve(data, build("nested-wait:thresholds=4,3", problem), horizon_s=80)
    (shown,) = answer["runs"]
    same = ("requests", "completed", "throughput", "latency_mean_s", "peak_memory", "batches")
    assert {name: shown[name] for name in same} == {name: run.summary()[name] for name in same}
    assert shown["requests"] != bfio("wait", _write(tmp_path), *named).json["runs"][0]["requests"]


def test_a_trace(bfio: Bfio, tmp_path: Path) -> None:
    """Its own times, without a fluid optimum; all complete if there is no horizon."""
    name, trace = _write(tmp_path), _trace(tmp_path)
    answer = bfio("wait", name, "--trace", trace, "--json").json
    (run,) = answer["runs"]
    assert answer["fluid"] is None
    assert (run["requests"], run["completed"], run["verdict"]) == (4, 4, "finished")
    cut = bfio("wait", name, "--trace", trace, "--horizon", "2", "--json").json["runs"][0]
    assert (cut["requests"], cut["verdict"], cut["horizon_s"]) == (2, "horizon", 2)
    fast = ("--trace", trace, "--rate-scale", "2", "--horizon", "2", "--json")
    assert bfio("wait", name, *fast).json["runs"][0]["requests"] == 4
    drawn = ("--trace", trace, "--rate", "0.5", "--policy", "fcfs")
    assert "4 requests" in bfio("wait", name, *drawn).out
    assert "of fluid" in bfio("wait", name, *drawn).out


def test_a_plot(bfio: Bfio, tmp_path: Path) -> None:
    """Written where asked; a run without batches is no obstacle."""
    name = _write(tmp_path)
    for horizon, plot in (("30", tmp_path / "a.svg"), ("1e-9", tmp_path / "b.svg")):
        done = bfio("wait", name, "--horizon", horizon, "--policy", "fcfs", "--plot", str(plot))
        assert done.status == 0
        assert f"plot: {plot}" in done.out
        assert "<svg" in plot.read_text(encoding="utf-8")


def test_a_users_policy(bfio: Bfio, tmp_path: Path) -> None:
    """From the working directory; one that never starts anybody is stuck, and it is said why."""
    (tmp_path / "mine_wait.py").write_text(
        "def all_of_them(state):\n    return [*state.held, *state.waiting]\n"
        "def nobody(state):\n    return []\n"
    )
    chosen = ("--policy", "mine_wait:all_of_them", "--policy", "mine_wait:nobody")
    done = bfio("wait", _write(tmp_path), "--horizon", "20", "--drain", *chosen)
    assert done.status == 0
    assert "mine_wait:nobody: the policy serves none of the remaining requests" in done.out
    assert re.search(r"^mine_wait:all_of_them: (\d+)/\1$", done.err, flags=re.MULTILINE)
    assert re.search(r"^mine_wait:nobody: 0/[1-9]\d*$", done.err, flags=re.MULTILINE)


def test_an_interrupted_comparison_keeps_what_is_done(bfio: Bfio, tmp_path: Path) -> None:
    """The second policy is interrupted: the first one's row is printed, status 130."""
    (tmp_path / "wait_stopper.py").write_text("def stop(state):\n    raise KeyboardInterrupt\n")
    arguments = ("wait", _write(tmp_path), "--horizon", "20", "--json", "--policy")
    done = bfio(*arguments, "fcfs", "--policy", "wait_stopper:stop")
    assert done.status == 130
    assert [run["policy"] for run in done.json["runs"]] == ["fcfs"]
    alone = bfio(*arguments, "wait_stopper:stop")
    assert (alone.status, alone.json) == (130, {"interrupted": True})


def test_damaged_rows_may_be_left_out(bfio: Bfio, tmp_path: Path) -> None:
    """The remedy that the reader names: 4 of 5 rows are served, and it is said."""
    name, trace = _write(tmp_path), _trace(tmp_path, TRACE + "4,x,1\n")
    damaged = bfio("wait", name, "--trace", trace)
    assert damaged.status == 2
    assert "--skip-bad-rows" in damaged.err
    done = bfio("wait", name, "--trace", trace, "--skip-bad-rows")
    assert "4 requests" in done.out
    assert "trace.csv: 1 damaged rows left out" in done.out
    answer = bfio("wait", name, "--trace", trace, "--skip-bad-rows", "--json").json
    assert answer["workload"]["skipped_bad_rows"] == 1


def test_a_trace_with_columns_of_its_own(bfio: Bfio, tmp_path: Path) -> None:
    """The same requests under other names give the same answer."""
    name, trace = _write(tmp_path), _trace(tmp_path, TRACE)
    other = tmp_path / "other.csv"
    rows = TRACE.partition("\n")[2].replace(",", ";")
    other.write_text(f"sent;in;out\n{rows}")
    columns = ("--columns", "arrival=sent,prompt=in,output=out")
    first = bfio("wait", name, "--trace", trace, "--json").json
    second = bfio("wait", name, "--trace", str(other), *columns, "--json").json
    assert first["runs"] == second["runs"]


def test_progress_is_what_completed_in_time(bfio: Bfio, tmp_path: Path) -> None:
    """A batch that ends after T completes nothing that counts.

    At 1 s request (1, 1) starts; its batches last 0.5 + 1/18 and 0.5 + 2/18 s. T = 2 cuts the
    second.
    """
    classes = [{"rate": 1, "prompt": 1, "output": 1}]
    name = _write(tmp_path, classes=classes)
    arguments = ("--horizon", "2", "--arrivals", "even", "--policy", "fcfs")
    done = bfio("wait", name, *arguments)
    assert bfio("wait", name, *arguments, "--json").json["runs"][0]["completed"] == 0
    assert re.search(r"^fcfs: 0/2$", done.err, flags=re.MULTILINE)


def test_more_than_the_fluid_optimum_is_explained(bfio: Bfio, tmp_path: Path) -> None:
    """Memory 3 holds no full batch of the thresholds, which are served all the same."""
    name = _write(tmp_path, memory=3)
    arguments = ("wait", name, "--horizon", "50", "--policy")
    assert "above 100 %: thresholds ignore" in bfio(*arguments, "wait:thresholds=1,1").out
    assert "above 100 %" not in bfio(*arguments, "fcfs").out


def test_overload_has_no_equilibrium(bfio: Bfio, tmp_path: Path) -> None:
    """Load 2: listed thresholds are served all the same, and the optimum is that of memory 9."""
    name = _write(tmp_path, d1="2/9")
    answer = bfio(
        "wait", name, "--horizon", "50", "--policy", "wait:thresholds=1,1", "--json"
    ).json
    assert (answer["fluid"]["load"], answer["fluid"]["equilibrium_memory"]) == (2, None)
    assert answer["fluid"]["throughput"] < 5


def test_help_names_every_policy_and_option(bfio: Bfio) -> None:
    """The list is written out in the help text; this keeps it current."""
    lines = bfio("wait", "--help").out.split("Policies")[1].splitlines()
    for name, known in BUILT_IN.items():
        (first,) = (k for k, line in enumerate(lines) if line.split()[:1] == [name])
        shown = " ".join(lines[first : first + 2])
        assert all(f"{option}=" in shown for option in known.option_names)
    assert len(BUILT_IN) == 5


@pytest.mark.parametrize("width", [40, 60])
def test_tables_fit_a_narrow_terminal(
    bfio: Bfio, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """No line is longer, and no number is cut into two lines."""
    (Path.cwd() / "load.json").write_text(json.dumps(I0))
    monkeypatch.setenv("COLUMNS", str(width))
    command = ["wait", "load.json", "--horizon", "200", "--policy=wait", "--policy=fcfs"]
    shown = bfio(*command).out
    assert max(map(len, shown.splitlines())) <= width
    summary = json.loads(bfio(*command, "--json").out)["runs"][0]
    assert re.search(rf"│ peak memory +│ +{summary['peak_memory']} +│", shown)
    shown = bfio("simulate", "--policy", "fcfs", "--requests", "50").out
    assert max(map(len, shown.splitlines())) <= width
    assert re.search(r"│ work +│ +[\d,]+ +│", shown)
