"""Use objects that a user defines in own files: predictors, metrics, claims, backends."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import bfio
from bfio.cli import main
from bfio.studies.runner import plan, run_study
from bfio.studies.study_file import read_study
from formulations.backends import SolveLimits, backend
from formulations.errors import InputError
from formulations.results import BoundKind
from formulations.step import StepProblem, StepProgram
from proofs_checks.store import COUNTEREXAMPLES, RECORDED

LOAD = bfio.synthetic("demo", 60, seed=1)
CLUSTER = bfio.Cluster(workers=2, slots=4)
PROBLEM = StepProblem.from_mapping(
    {"capacity": [1, 1], "base": [[4], [2]], "contribution": [[2], [1]]}
)
_STUDY = """
name = "own"
question = "?"
computes = "simulate"
[fixed]
synthetic = "demo"
requests = 40
workers = 2
slots = 4
policy = "plug/mine.py:policy"
predictor = "plug/mine.py:Predictor"
metrics = "plug/mine.py:metric"
[[grid]]
horizon = [2]
"""
_MINE = """
import numpy as np
def policy(state):
    worker = int(state.free_slots.argmax())
    return [worker] + [None] * (state.num_waiting - 1)
policy.horizon = 2
class Predictor:
    def __init__(self, task): pass
    def remaining(self, requests, ages, horizon): return np.full(len(requests), 2)
def metric(part): return len(part.steps) + 0.5
"""


def test_a_study_finds_what_stands_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A study finds modules beside its file; a changed predictor gives new rows."""
    home, elsewhere = tmp_path / "study", tmp_path / "elsewhere"
    (home / "plug").mkdir(parents=True)
    elsewhere.mkdir()
    (home / "plug" / "mine.py").write_text(_MINE)
    (home / "study.toml").write_text(_STUDY)
    monkeypatch.chdir(elsewhere)
    study = read_study(home / "study.toml")
    (row,) = run_study(study, tmp_path / "store").rows.values()
    assert row.error == ""
    assert row.values["metric"] == row.values["steps"] + 0.5  # type: ignore[operator]
    (before,) = plan(study)
    (home / "plug" / "mine.py").write_text(_MINE + "# changed\n")
    (after,) = plan(study)
    assert after.key != before.key


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("np.full(len(requests), 2.0)", r"shape \(\d+,\) and type float64; return \d+ integers"),
        ("np.full(len(requests), np.nan)", "type float64"),
        ("[1]", r"shape \(1,\)"),
        ("None", "returned None"),
        ("7", "returned 7"),
        ("1 / 0", "raised ZeroDivisionError"),
        ("np.full(len(requests), -5)", "-5 remaining steps"),
    ],
)
def test_a_predictor_is_checked(answer: str, words: str) -> None:
    """An invalid prediction raises an error, instead of being used as a number."""
    space: dict[str, object] = {"np": np}
    body = f"def remaining(self, requests, ages, horizon): return {answer}"
    exec(f"class Mine:\n    {body}", space)
    with pytest.raises(InputError, match=f"predictor Mine: .*{words}"):
        bfio.simulate(LOAD, "br-h", CLUSTER, predictor=space["Mine"]())  # type: ignore[operator]


@pytest.mark.parametrize(("given", "meant"), [(0, 1), (10**9, 21)])
def test_steps_left_are_cut_to_the_window(given: int, meant: int) -> None:
    """Predicted remaining steps are clipped to 1..H+1, H = 20; ``finished`` is optional."""

    class Mine:
        def __init__(self, steps: int) -> None:
            self.steps = steps

        def remaining(self, requests: object, ages: object, horizon: int) -> object:
            return np.full(len(requests), self.steps)  # type: ignore[arg-type]

    runs = [bfio.simulate(LOAD, "br-h", CLUSTER, predictor=Mine(k)) for k in (given, meant)]
    assert runs[0].options.predictor == "Mine"
    assert runs[0].worker.tolist() == runs[1].worker.tolist()


def test_what_is_no_predictor_is_told() -> None:
    """A class in place of an object, or an object without the method, is rejected as predictor."""
    with pytest.raises(InputError, match="dict is a class; give an instance of the class"):
        bfio.simulate(LOAD, "br-h", CLUSTER, predictor=dict)
    with pytest.raises(InputError, match="has no method remaining or estimate; write remaining"):
        bfio.simulate(LOAD, "br-h", CLUSTER, predictor=3)


def test_metrics_are_functions_of_a_part() -> None:
    """User metrics appear beside built-in ones; a value that is no number is an error."""

    def peaks(part: object) -> int:
        return len(part.steps)  # type: ignore[attr-defined]

    def half(part: object) -> Fraction:
        return Fraction(1, 2)

    compared = bfio.compare(LOAD, "fcfs", CLUSTER, pool=4, metrics=[peaks, half, "avg_gap"])
    (document,) = compared.documents()
    assert document["half"] == 0.5
    assert document["peaks"] == document["steps"]
    assert "peaks" in compared._repr_html_()
    peaks.__name__ = "avg_gap"
    with pytest.raises(InputError, match="metric avg_gap: a metric of that name exists"):
        bfio.compare(LOAD, "fcfs", CLUSTER, metrics=peaks)
    near = "unknown metric 'avg_gp'; did you mean avg_gap.*metrics.md lists all"
    with pytest.raises(InputError, match=near) as caught:
        bfio.compare(LOAD, "fcfs", CLUSTER, metrics="avg_gp")
    assert len(str(caught.value)) < 160
    for value, told in ((float("nan"), "returned nan; return a number, or None"),
                        (10**5000, "returned a number beyond floats; return a")):  # fmt: skip
        bad = bfio.compare(LOAD, "fcfs", CLUSTER, metrics=lambda part, value=value: value)
        with pytest.raises(InputError, match=told):
            bad.documents()


def test_a_metric_that_fails_costs_no_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If a user metric fails, the other metrics are printed, then the error line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.py").write_text("def metric(part): return 1 / 0\n")
    command = ["compare", "--requests", "50", "--policies", "fcfs", "--no-plots"]
    assert main([*command, "--metrics", "bad.py:metric"]) == 2
    shown = capsys.readouterr()
    assert "AvgImbalance" in shown.out
    last = shown.err.splitlines()[-1]
    assert last.startswith("error: metric metric: raised ZeroDivisionError: division by zero at ")


_CLAIM = """
from proofs_checks.claim import Claim, Kind, Mutation
from proofs_checks.search import refute, examine
from proofs_checks.claim import Defect
def verify(data): return "negative" if data["n"] < 0 else None
def check(context, *, least=-2):
    numbers = range(least, 3)
    printed = refute("printed", "some", numbers, verify, lambda n: {"n": n})
    return printed, examine("corrected", "some", numbers, lambda n: n * n >= 0)
def claim(name):
    return Claim(id=name, source="s", title="t", statement="s", formula="f", hypotheses=(),
    kind=Kind.COUNTEREXAMPLE, check=check, mutations=(Mutation("none below 0", least=0),),
    correction="c", defect=Defect.RESULT, verify=verify)
CLAIMS = [claim("mine.a"), claim("mine.b"), claim("mine.c"), claim("mine.d")]
STOLEN, TWICE, NUMBER = claim("balance.lemma1"), CLAIMS + CLAIMS[:1], 3
"""


def test_claims_of_ones_own_are_recorded_beside_their_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Results of user claims are stored beside the user's file, also from other processes."""
    inside = {path.name for folder in (RECORDED, COUNTEREXAMPLES) for path in folder.iterdir()}
    file = tmp_path / "conjectures.py"
    file.write_text(_CLAIM)
    assert main(["check", str(file), "--record", "--jobs", "2", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "mine.a: refuted, holds, recorded in " in err
    found = json.loads(out)["claims"]
    assert [claim["recorded"] for claim in found] == [["refuted", "holds"]] * 4
    assert [claim["stored_counterexample"] for claim in found] == ["verified"] * 4
    record = tmp_path / "conjectures_record"
    assert {path.name for path in record.iterdir()} == {"counterexamples", "mine.json"}
    after = {path.name for folder in (RECORDED, COUNTEREXAMPLES) for path in folder.iterdir()}
    assert after == inside


def test_a_record_names_no_verdict_that_there_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The claim has no corrected statement."""
    file = tmp_path / "conjecture.py"
    file.write_text(
        _CLAIM.replace("printed, examine(", "examine(")
        .replace('"corrected"', '"printed"')
        .replace('correction="c", defect=Defect.RESULT, verify=verify', "")
        .replace("COUNTEREXAMPLE", "FINITE")
        .replace("n * n >= 0", "n * n >= 0 and len(numbers) > 3")
    )
    assert main(["check", f"{file}:CLAIMS", "--record"]) == 0
    assert "mine.a: holds, recorded in " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("STOLEN", "balance.lemma1 is the id of a built-in claim; give yours another id"),
        ("TWICE", "mine.a occurs twice; give yours another id"),
        ("NUMBER", "int is not a claim; give a Claim or a sequence of Claims"),
        ("CLAMS", "has no CLAMS; did you mean CLAIMS?"),
    ],
)
def test_what_is_no_claim_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    """A name that is not a claim raises a one-line error."""
    (tmp_path / "conjectures.py").write_text(_CLAIM)
    assert main(["check", f"{tmp_path}/conjectures.py:{name}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("solve = 3", "has no method solve; write a class with a method solve"),
        ("def solve(self, program): pass", r"cannot be called with \(program, limits, hint\)"),
        ("def solve(self, program, limits, hint): return 5", "returned an int; return a"),
        ("def solve(self, program, limits, hint): return 1 / 0", "raised ZeroDivisionError"),
        ("def solve(self, p, l, h): return Outcome('ok', None, 0, None, 0.0)", "termination 'ok'"),
        (
            "def solve(self, p, l, h): return Outcome(T.OPTIMAL, [1.0], 0, None, 0.0)",
            r"values of shape \(1,\); give \d+ finite numbers",
        ),
    ],
)
def test_a_backend_is_checked(tmp_path: Path, body: str, words: str) -> None:
    """A backend is checked when it is named, and when it answers."""
    file = tmp_path / "solver.py"
    head = "from formulations.backends import Outcome\n"
    head += "from formulations.results import Termination as T\n"
    file.write_text(f"{head}class Mine:\n    {body}\n")
    with pytest.raises(InputError, match=words):
        bfio.solve_step(PROBLEM, method=f"{file}:Mine")


def test_a_false_claim_of_ones_own_is_told(tmp_path: Path) -> None:
    """There is a solution, and the bound is this project's own."""
    file = tmp_path / "solver.py"
    file.write_text(
        "from formulations.backends import Outcome\n"
        "from formulations.results import Termination as T, BoundKind as B\n"
        "class Mine:\n    def solve(self, program, limits, hint):\n"
        "        return Outcome(T.INFEASIBLE, None, None, B.FLOAT, 0.0)\n"
    )
    _, bound, told = bfio.solve_step(PROBLEM, method=f"{file}:Mine").summary().splitlines()
    assert bound.endswith("(integer), no solution")
    claim = "the solver claims that there is no solution; not proven"
    assert told == f"solver {file}:Mine; {claim}"


def test_a_bound_of_ones_own_is_no_proof(tmp_path: Path) -> None:
    """A bound of a user's backend never counts as a proof."""
    file = tmp_path / "solver.py"
    file.write_text(
        "from formulations.backends import Outcome\n"
        "from formulations.results import Termination as T, BoundKind as B\n"
        "class Mine:\n    def solve(self, program, limits, hint):\n"
        "        return Outcome(T.OPTIMAL, None, 7, B.INTEGER, 0.0)\n"
    )
    outcome = backend(f"{file}:Mine").solve(StepProgram(PROBLEM), SolveLimits(), None)
    assert (outcome.bound, outcome.bound_kind) == (7, BoundKind.FLOAT)


def test_bf_io_asks_a_backend_of_ones_own(tmp_path: Path) -> None:
    """bf-io with a user's backend that calls CP-SAT gives the run of CP-SAT."""
    file = tmp_path / "solver.py"
    file.write_text("from formulations.backends.cp_sat import CpSat as Mine\n")
    runs = [
        bfio.simulate(LOAD.head(12), "bf-io", CLUSTER, backend=backend, steps=20)
        for backend in (f"{file}:Mine", "cp-sat")
    ]
    assert runs[0].worker.tolist() == runs[1].worker.tolist()
