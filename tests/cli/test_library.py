"""``bfio library``: list, get, verify and check-solution, on the command line."""

import json
from pathlib import Path

import pytest

from bfio.library import entries, entry
from tests.cli.conftest import Bfio

SMALL = "step-4x8-synthetic-8-w1-h0"


def test_the_list_says_what_is_open(bfio: Bfio) -> None:
    """A line for each entry, counts below; JSON holds sources with licences."""
    done = bfio("library", "list", "latency-*", "--status", "open")
    assert done.status == 0
    wanted = [e for e in entries() if e.kind_name == "latency" and e.status.value == "open"]
    assert f"{len(wanted)} entries: 0 closed, 0 claimed" in done.out
    assert all(e.name in done.out for e in wanted)
    document = bfio("library", "list", "--kind", "wait", "--json").json
    assert [line["status"] for line in document["entries"]] == ["closed"] * 4
    assert document["entries"][0]["source"]["licence"] == "CC-BY-4.0"
    assert "solution" not in document["entries"][0]["best_known"]


def test_a_problem_goes_through_its_command_and_back(bfio: Bfio) -> None:
    """Got, solved, judged: feasible, optimal, and no better."""
    assert bfio("library", "get", SMALL, "p.json").status == 0
    assert "bfio solve p.json" in bfio("library", "get", SMALL, "p.json", "--overwrite").out
    Path("answer.json").write_text(bfio("solve", "p.json", "--json").out, encoding="utf-8")
    done = bfio("library", "check-solution", SMALL, "answer.json")
    assert done.status == 0
    assert "optimal: its objective equals the certified bound" in done.out
    judged = bfio("library", "check-solution", SMALL, "answer.json", "--json").json
    assert judged["feasible"]
    assert judged["optimal"]
    assert not judged["better"]
    assert bfio("library", "get", SMALL).json == entry(SMALL).document
    whole = bfio("library", "get", SMALL, "--json").json
    assert whole["problem"] == entry(SMALL).document
    assert whole["certificate"]["kind"] == whole["best_known"]["certificate"]


@pytest.mark.parametrize(
    "name",
    [SMALL, "latency-at-once-n6-m20-c", "makespan-2x1-n6-latency", "fluid-margin-azure-conv-9x1"],
)
@pytest.mark.parametrize("format_", ["mps", "lp"])
def test_programs_are_written_on_demand(bfio: Bfio, name: str, format_: str) -> None:
    """Through the exchange of the commands, with the digest of the library."""
    done = bfio("library", "get", name, f"p.{format_}", "--json")
    assert done.json["digest"] == entry(name).digest
    assert entry(name).digest in Path(f"p.{format_}").read_text(encoding="utf-8")


def test_a_solution_file_of_another_solver_is_judged(bfio: Bfio) -> None:
    """Names and values, as for --read-solution."""
    solution = entry(SMALL).best
    assert solution is not None
    assignment, problem = solution.solution["assignment"], entry(SMALL).problem
    x = {
        f"x({i},{g})": int(assignment[i] == g)
        for i in range(problem.num_requests)
        for g in range(problem.num_workers)
    }
    x["M(0)"] = int(problem.loads(assignment).max())
    Path("found.sol").write_text(_plain(x), encoding="utf-8")
    assert "optimal" in bfio("library", "check-solution", SMALL, "found.sol").out
    Path("found.sol").write_text(_plain(x | {"M(0)": 0}), encoding="utf-8")
    done = bfio("library", "check-solution", SMALL, "found.sol")
    assert done.status == 3
    assert "infeasible" in done.out


def _plain(values: dict[str, int]) -> str:
    return "\n".join(f"{name} {value}" for name, value in values.items())


def test_an_infeasible_solution_is_told(bfio: Bfio) -> None:
    """Constraint by constraint, with status 3."""
    number = entry(SMALL).problem.num_requests
    Path("a.json").write_text(json.dumps({"assignment": [0] * number}), encoding="utf-8")
    done = bfio("library", "check-solution", SMALL, "a.json")
    assert done.status == 3
    assert "violated: capacity[0] by " in done.out
    assert not bfio("library", "check-solution", SMALL, "a.json", "--json").json["feasible"]


def test_what_is_not_sound_is_told(bfio: Bfio, monkeypatch: pytest.MonkeyPatch) -> None:
    """With status 1 and the fault; sound entries have status 0."""
    done = bfio("library", "verify", "step-2x4-*", "--kind", "step")
    assert done.status == 0
    assert "20 of 20 sound; 20 bounds derived again" in done.out
    assert "not certified" in done.out
    monkeypatch.setattr("bfio.library.store.digest_of", lambda document: "0" * 16)
    done = bfio("library", "verify", SMALL)
    assert done.status == 1
    assert f"NOT VERIFIED {SMALL}: digest: the problem differs" in done.out
    document = bfio("library", "verify", SMALL, "--json").json
    assert not document["sound"]
    assert document["certified"] == 0


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("list --kind stepp", "--kind: 'stepp' is unknown; did you mean step?"),
        ("list --status shut", "--status: 'shut' is unknown; use one of closed, claimed, open"),
        ("list nothing-*", "library: no entry matches; see bfio library list"),
        ("get step-4x8", "step-4x8: the library has no such entry; "),
        (f"get {SMALL} p.xls", "p.xls: has no known suffix; use .json, .mps or .lp"),
        (f"get {SMALL} --overwrite", "--overwrite: no FILE is written; name a FILE"),
        ("get wait-azure-code-3 p.mps", "kind wait has no program; write a .json file"),
        (f"check-solution {SMALL} none.json", "none.json: no such file; check the path"),
        (
            "check-solution fluid-stages-azure-conv-9x1 x.sol",
            "use bfio fluid fluid-stages-azure-conv-9x1.json --read-solution FILE",
        ),
    ],
)
def test_slips_are_one_line(bfio: Bfio, command: str, said: str) -> None:
    """Where, what, remedy; status 2."""
    Path("x.sol").write_text("Model status\nOptimal\n", encoding="utf-8")
    done = bfio("library", *command.split())
    assert done.status == 2
    (line,) = done.err.splitlines()
    assert said in line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "assignment: missing; give a JSON object"),
        ('{"assignment": [0]}', "assignment: has 1 entry; give 16, one per request"),
        ('{"assignment": 5}', "assignment: a number; write a list"),
        ("[]", "found.json: "),
    ],
)
def test_files_without_a_solution_are_one_line(bfio: Bfio, text: str, said: str) -> None:
    """Named by file and field."""
    Path("found.json").write_text(text, encoding="utf-8")
    done = bfio("library", "check-solution", SMALL, "found.json")
    assert done.status == 2
    (line,) = done.err.splitlines()
    assert said in line
