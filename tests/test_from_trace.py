"""Problems out of a trace: counts by an independent reading, and their commands."""

import csv
import json
from fractions import Fraction
from math import ceil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bfio
from bfio.cli import main
from bfio.decode.options import Projection
from bfio.from_trace import fluid_problem, latency_problem, makespan_problem, step_problem
from bfio.workloads import read_trace
from formulations.errors import InputError
from formulations.fluid import FluidProblem
from formulations.hindsight_latency import LatencyProblem
from formulations.hindsight_makespan import MakespanProblem
from formulations.step import StepProblem

TRACE = """\
arrival_time_s,prompt_tokens,output_tokens
0,30,5
0.02,20,9
0.05,40,3
0.051,10,12
0.3,55,4
0.31,12,6
1.0,8,20
"""


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a trace of seven requests into an empty folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    return path


def counted(length: str) -> list[tuple[int, int, int]]:
    """Return (round, prompt, output) of each row of the trace, without the reader."""
    rows = csv.DictReader(TRACE.splitlines())
    return [
        (
            ceil(Fraction(row["arrival_time_s"]) / Fraction(length)),
            int(row["prompt_tokens"]),
            int(row["output_tokens"]),
        )
        for row in rows
    ]


def requests_of(problem: LatencyProblem | MakespanProblem) -> list[tuple[int, int, int]]:
    """Return (arrival, prompt, output) of each request."""
    columns = (problem.arrival.tolist(), problem.prompt.tolist(), problem.output.tolist())
    return list(zip(*columns, strict=True))


def test_hindsight_from_end_to_end(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file holds every request, states its rule, and ``bfio hindsight`` bounds it."""
    arguments = ["to-hindsight", str(trace), "h.json", "--memory", "100", "--round-s", "1/20"]
    assert main(["traces", *arguments]) == 0
    assert "first round of 1/20 s at or after the arrival time" in capsys.readouterr().out
    text = Path("h.json").read_text()
    problem = LatencyProblem.from_json(text)
    assert requests_of(problem) == counted("1/20")
    assert problem.peaks().max() <= problem.memory == 100
    assert json.loads(text)["provenance"]["requests"] == 7
    assert main(["hindsight", "h.json", "--method", "lp", "--json"]) == 0
    # No request waits in a relaxed optimum: the bound is at least the outputs.
    assert json.loads(capsys.readouterr().out)["bound"] >= sum(row[2] for row in counted("1"))


def test_makespan_from_end_to_end(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--skip`` and ``--requests`` take a part, whose times count from its first request."""
    arguments = ["to-makespan", str(trace), "m.json", "--workers", "2", "--slots", "2"]
    assert main(["traces", *arguments, "--skip", "1", "--requests", "3", "--step-s", "0.01"]) == 0
    problem = MakespanProblem.from_json(Path("m.json").read_text())
    assert requests_of(problem) == [(0, 20, 9), (3, 40, 3), (4, 10, 12)]
    assert (problem.workers, problem.slots, problem.memory) == (2, 2, None)
    capsys.readouterr()
    assert main(["makespan", "m.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["termination"] == "optimal"


def test_fluid_from_end_to_end(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rates add up to that of the trace; the reported loss is that of an independent count."""
    arguments = ["to-fluid", str(trace), "f.json", "--memory", "100", "--classes", "3", "--json"]
    assert main(["traces", *arguments]) == 0
    told = json.loads(capsys.readouterr().out)
    problem = FluidProblem.from_json(Path("f.json").read_text())
    # Six gaps in one second.
    assert sum(kind.rate for kind in problem.classes) == 6
    assert len(problem.classes) == 3
    work = sum(sum(s + k for k in range(o + 1)) for _, s, o in counted("1"))
    error = float(problem.work_rate / 6 / Fraction(work, 7) - 1)
    assert told["work_error"] == pytest.approx(error, abs=1e-6)
    assert 0 < told["output_variance_kept"] < 1
    assert main(["fluid", "f.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["feasible"] is True


def test_step_from_end_to_end(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The loads of the step are those of the run, counted from its record."""
    machine = ["--workers", "2", "--slots", "2", "--step", "2", "--look-ahead", "3"]
    assert main(["traces", "to-step", str(trace), "s.json", "--policy", "fcfs", *machine]) == 0
    document = json.loads(Path("s.json").read_text())
    problem = StepProblem.from_mapping(document)
    step = document["provenance"]["step"]
    workload = read_trace(trace)
    run = bfio.simulate(workload, "fcfs", bfio.Cluster(2, 2))
    loads = [0, 0]
    for worker, start, prompt, output in zip(
        run.worker.tolist(),
        run.start_step.tolist(),
        workload.prompt_tokens.tolist(),
        workload.output_tokens.tolist(),
        strict=True,
    ):
        if start < step < start + output:
            loads[worker] += prompt + step - start
    assert problem.base[:, 0].tolist() == loads
    assert problem.base.shape == (2, 4)
    assert set(problem.contribution[:, 0].tolist()) <= set(workload.prompt_tokens.tolist())
    capsys.readouterr()
    assert main(["solve", "s.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["termination"] == "optimal"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("to-hindsight T o --memory 50", "1 of 7 requests exceed the memory of 50 tokens alone"),
        (
            "to-makespan T o --workers 1 --slots 1 --memory 9",
            "raise memory, or add --skip-oversized",
        ),
        ("to-fluid T o --memory 50", "raise memory, or add --skip-oversized"),
        ("to-fluid T o --memory 5 --skip-oversized", "no request is left"),
        ("to-fluid T o --memory 99 --classes 0", "--classes: 0 is out of range"),
        ("to-hindsight T o --memory 99 --round-s 0", "--round-s: 0 is not allowed"),
        ("to-hindsight T o --memory 99 --convention D", "--convention: 'D' is unknown"),
        ("to-hindsight T o --memory 99 --skip 7", "--skip: leaves none of 7 requests"),
        ("to-step T o --step 900", "--step: 900: the run of 7 requests has no decision"),
        ("to-step T o --policy nope", "unknown policy"),
    ],
)
def test_what_cannot_be_is_one_line(
    trace: Path, capsys: pytest.CaptureFixture[str], arguments: str, message: str
) -> None:
    """A request that fits nowhere, or a wrong argument, gives one line and no file."""
    assert main(["traces", *arguments.replace(" T ", f" {trace} ").split()]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
    assert not Path("o").exists()


def test_python_hears_python() -> None:
    """Errors of the functions name keywords, not flags."""
    workload = bfio.Workload(np.array([30, 5]), np.array([5, 5]))
    for call in (
        lambda: latency_problem(workload, 20),
        lambda: makespan_problem(workload, 1, 1, memory=20),
        lambda: fluid_problem(workload, 20, rate=1),
        lambda: fluid_problem(workload, 50),
        lambda: latency_problem(workload, 50, round_s="1/2"),
        lambda: step_problem(workload, "fcfs", step=99),
    ):
        with pytest.raises(InputError) as error:
            call()
        assert "--" not in str(error.value)


@given(
    st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300)), min_size=1, max_size=40),
    st.integers(1, 12),
)
def test_classes_keep_requests_and_fit(lengths: list[tuple[int, int]], count: int) -> None:
    """Every request is in a class; classes fit if requests do; one pair loses nothing."""
    prompts, outputs = np.array(lengths).T
    workload = bfio.Workload(prompts, outputs)
    memory = int((prompts + outputs).max())
    made = fluid_problem(workload, memory, classes=count, rate=len(lengths))
    classes = made.problem.classes
    assert sum(kind.rate for kind in classes) == len(lengths)
    assert all(kind.rate.denominator == 1 for kind in classes)
    assert len(classes) <= count
    assert max(kind.prompt + kind.output for kind in classes) <= memory
    if len(set(lengths)) == 1:
        assert [(kind.prompt, kind.output) for kind in classes] == lengths[:1]
        assert made.provenance["work_error"] == 0


def test_a_step_problem_takes_the_keywords_of_a_run() -> None:
    """They decide and fill the window, as the same fields of ``options`` do."""
    requests, cluster = bfio.synthetic("demo", 300, seed=1), bfio.Cluster(4, 8)
    options = bfio.RunOptions(pool=32, predictor="oracle", projection=Projection.GROWING)
    policy = "br-h:horizon=2"
    by_keyword, by_options = (
        step_problem(requests, policy, cluster, step=200, look_ahead=3, **given)
        for given in (
            {"pool": 32, "predictor": "oracle", "projection": "growing"},
            {"options": options},
        )
    )
    assert by_keyword.problem.to_mapping() == by_options.problem.to_mapping()
    assert by_keyword.provenance["settings"] == by_options.provenance["settings"]
    base = by_keyword.problem.base
    assert (base != base[:, :1]).any()
    with pytest.raises(InputError, match="no decision at or after"):
        step_problem(requests, policy, cluster, step=200, look_ahead=3, steps=3)
