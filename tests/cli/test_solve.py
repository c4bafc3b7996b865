"""``bfio solve``."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Bfio

P1 = {
    "capacity": [1, 2, 0],
    "base": [[40], [25], [60]],
    "contribution": [[18], [9], [30], [22], [5]],
}
#: Equal requests, so that several assignments are optimal: both loads end at 12.
TIES = {"capacity": [1, 1], "base": [[5], [5]], "contribution": [[7], [7], [7]]}


def _write(folder: Path, document: object, name: str = "step.json") -> str:
    path = folder / name
    path.write_text(json.dumps(document))
    return str(path)


@pytest.mark.parametrize("method", ["exact", "cp-sat", "brute-force"])
def test_methods_that_prove(bfio: Bfio, tmp_path: Path, method: str) -> None:
    """P1's optimum is 2; these methods prove it."""
    done = bfio("solve", _write(tmp_path, P1), "--method", method, "--json")
    answer = done.json
    assert done.status == 0
    assert (answer["termination"], answer["objective"], answer["bound"]) == ("optimal", 2, 2)
    assert answer["assignment"] == [0, None, 1, None, 1]
    assert answer["violations"] == {}
    assert answer["seconds"] >= 0


@pytest.mark.parametrize("method", ["highs", "pyomo", "pyomo:highs", "two-stage"])
def test_methods_that_do_not_prove(bfio: Bfio, tmp_path: Path, method: str) -> None:
    """They reach 2 on P1, and do not call it optimal."""
    answer = bfio("solve", _write(tmp_path, P1), "--method", method, "--json").json
    assert (answer["termination"], answer["objective"]) == ("feasible", 2)


def test_brute_force_takes_the_smallest_optimum(bfio: Bfio, tmp_path: Path) -> None:
    """Of equal requests the oldest two start, the first on worker 0."""
    answer = bfio("solve", _write(tmp_path, TIES), "--method", "brute-force", "--json").json
    assert answer["assignment"] == [0, 1, None]
    assert answer["tie_rule"] == "lexicographic"


def test_text_output_says_what_is_proven(bfio: Bfio, tmp_path: Path) -> None:
    """Without --json a person reads termination, objective and placement."""
    done = bfio("solve", _write(tmp_path, P1))
    assert "optimal" in done.out
    assert "objective 2, bound 2 (integer)" in done.out
    assert "0->0, 2->1, 4->1" in done.out


def test_no_waiting_request_is_a_valid_problem(bfio: Bfio, tmp_path: Path) -> None:
    """Loads 3 and 5: imbalance 2, nothing to assign."""
    problem = {"capacity": [1, 1], "base": [[3], [5]], "contribution": []}
    answer = bfio("solve", _write(tmp_path, problem), "--json").json
    assert (answer["objective"], answer["assignment"]) == (2, [])


def test_infeasible_exits_0_with_its_termination(bfio: Bfio, tmp_path: Path) -> None:
    """A request of 30 tokens cannot start in memory for 20."""
    problem = {"capacity": [1], "base": [[0]], "contribution": [[30]], "token_capacity": [20]}
    done = bfio("solve", _write(tmp_path, problem), "--method", "cp-sat", "--json")
    assert (done.status, done.json["termination"]) == (0, "infeasible")
    assert done.json["objective"] is None
    assert done.json["bound"] is None


def test_jsonl_answers_line_by_line(bfio: Bfio, tmp_path: Path) -> None:
    """A bad line is answered in its place, a blank one is not; the status at the end is 2."""
    path = tmp_path / "steps.jsonl"
    path.write_text(f'{json.dumps(P1)}\n\n{{"capacity": [1\n{json.dumps(TIES)}\n \n')
    done = bfio("solve", str(path))
    answers = [json.loads(line) for line in done.out.splitlines()]
    assert done.status == 2
    assert [a.get("objective") for a in answers] == [2, None, 0]
    assert "line 3" in answers[1]["error"]


def test_the_discount_is_exact_and_its_scale_reported(bfio: Bfio, tmp_path: Path) -> None:
    """One worker, one request, peaks 4 and 5 weighed 1 and 1/3: 4·10^6 + 5·333,333."""
    problem = {
        "capacity": [1],
        "base": [[0, 0]],
        "contribution": [[4, 5]],
        "discount": ["1", "1/3"],
        "objective": "max-load",
    }
    answer = bfio("solve", _write(tmp_path, problem), "--method", "cp-sat", "--json").json
    assert (answer["objective"], answer["scale"]) == (5_666_665, 1_000_000)


def test_the_two_stage_heuristic_says_that_it_found_no_answer(bfio: Bfio, tmp_path: Path) -> None:
    """Five required requests for three slots: an error, not an infeasible answer."""
    problem = _write(tmp_path, P1 | {"required": [True] * 5})
    done = bfio("solve", problem, "--method", "two-stage")
    assert done.status == 2
    assert "problem: the two-stage heuristic found no feasible answer" in done.err


def test_an_infeasible_point_of_a_backend_is_no_answer(bfio: Bfio, tmp_path: Path) -> None:
    """It is shown with what it violates, and the status says that nothing was found."""
    (tmp_path / "idle.py").write_text(
        "from formulations.backends import Outcome\n"
        "from formulations.results import BoundKind, Termination\n"
        "class Idle:\n"
        "    def solve(self, program, limits, hint):\n"
        "        values = program.standard_form.lower.astype(float)\n"
        "        return Outcome(termination=Termination.OPTIMAL, values=values, bound=0,\n"
        "                       bound_kind=BoundKind.INTEGER, seconds=0.0)\n"
    )
    done = bfio("solve", _write(tmp_path, P1), "--method", "idle:Idle")
    assert (done.status, "violated: use_slots by 3" in done.out) == (3, True)


def test_a_named_number_is_admitted(bfio: Bfio, tmp_path: Path) -> None:
    """One request of P1: 18 on worker 0 leaves 58, 25, 60: 3·60 − 143 = 37; 30 on worker 1: 25."""
    answer = bfio("solve", _write(tmp_path, P1 | {"admit": 1}), "--json").json
    assert (answer["termination"], answer["objective"]) == ("optimal", 25)
    assert answer["assignment"] == [None, None, 1, None, None]


def test_a_second_objective_chooses_among_the_optima(bfio: Bfio, tmp_path: Path) -> None:
    """By hand: both fives of the oldest; its proof stands apart from the first's."""
    document = {
        "capacity": [1, 1, 0],
        "base": [[10], [12], [30]],
        "contribution": [[3], [5], [3], [5], [5]],
    }
    file = _write(tmp_path, document)
    answer = bfio("solve", file, "--second", "age", "--json").json
    assert (answer["objective"], answer["termination"]) == (28, "optimal")
    assert answer["assignment"] == [None, 0, None, 1, None]
    second = answer["second"]
    assert (second["name"], second["slack"], second["value"], second["bound"]) == ("age", 0, 4, 4)
    assert (second["proven"], answer["tie_rule"]) == (True, "second")
    wider = bfio("solve", file, "--second", "age", "--slack", "2", "--json").json
    assert (wider["objective"], wider["bound"], wider["termination"]) == (30, 28, "feasible")
    assert (wider["second"]["value"], wider["second"]["proven"]) == (1, True)
    assert "second objective age within 2 of the optimum: 1, bound 1" in (
        bfio("solve", file, "--second", "age", "--slack", "2").out
    )


def test_a_second_objective_of_an_unproven_first_is_not_proven(bfio: Bfio, tmp_path: Path) -> None:
    """Nor is there one where nothing can be assigned."""
    answer = bfio("solve", _write(tmp_path, P1), "--method", "highs", "--second", "age", "--json")
    assert answer.json["termination"] == "feasible"
    assert answer.json["second"]["value"] == answer.json["second"]["bound"]
    assert answer.json["second"]["proven"] is False
    assert answer.json["second"]["proof"] is None
    assert answer.json["tie_rule"] == "backend"
    full = {"capacity": [1], "base": [[5]], "contribution": [[5]], "token_capacity": [4]}
    answer = bfio("solve", _write(tmp_path, full), "--second", "age", "--json")
    assert answer.json["termination"] == "infeasible"
    assert answer.json["second"] == {"name": "age", "slack": 0, "proven": False}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--second", "agee"], "second: 'agee' is unknown; did you mean age?"),
        (["--slack", "3"], "--slack: has no effect without a second objective; add --second NAME"),
        (["--second", "age", "--method", "lp"], "--second: lp returns a bound only"),
        (["--second", "age", "--slack", "-1"], "slack: -1 is out of range"),
        (["--second", "age", "--write", "x.lp"], "--second: has no effect with --write"),
    ],
)
def test_second_objectives_that_mean_nothing(
    bfio: Bfio, tmp_path: Path, arguments: list[str], message: str
) -> None:
    """One line: where, what, remedy."""
    done = bfio("solve", _write(tmp_path, P1), *arguments)
    assert done.status == 2
    assert message in done.err


def test_show_sets_the_methods_side_by_side(bfio: Bfio, tmp_path: Path) -> None:
    """P1: optimum 2, relaxation 0; each family of rows has its sentence."""
    name = _write(tmp_path, P1)
    shown = bfio("show", name, "--methods", "exact,highs,lp", "--json").json
    assert shown["constraints"] == {"admit_once": 5, "capacity": 3, "use_slots": 1, "peak": 3}
    answers = {a["method"]: (a["objective"], a["bound"], a["status"]) for a in shown["answers"]}
    assert answers == {
        "exact": (2, 2, "optimal, proven"),
        "highs": (2, 2, "solved, bound in floats"),
        "lp": (None, 0, "bound only"),
    }
    text = bfio("show", name, "--methods", "exact").out
    assert "(2) No worker takes more than its free slots." in text
    assert len(text.splitlines()) <= 60


def test_show_refuses_a_file_without_a_program(bfio: Bfio, tmp_path: Path) -> None:
    """One line that says which fields each kind has."""
    done = bfio("show", _write(tmp_path, {"rate": 3}))
    assert done.status == 2
    assert "no problem with a program" in done.err
