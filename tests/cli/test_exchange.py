"""``--write`` and ``--read-solution`` of the commands that solve."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Bfio
from tests.places import DOCS

PROBLEMS = {
    "solve": {
        "capacity": [1, 2, 0],
        "base": [[40], [25], [60]],
        "contribution": [[18], [9], [30], [22], [5]],
    },
    "hindsight": {
        "memory": 9,
        "requests": [
            {"arrival": 0, "prompt": 2, "output": 3},
            {"arrival": 0, "prompt": 2, "output": 3},
            {"arrival": 1, "prompt": 4, "output": 2},
        ],
    },
    "makespan": {
        "workers": 2,
        "slots": 1,
        "requests": [{"prompt": 9, "output": 2}, {"prompt": 10, "output": 1}],
    },
    "fluid": {
        "classes": [
            {"rate": 2, "prompt": 3, "output": 2},
            {"rate": "3/2", "prompt": 1, "output": 5},
        ],
        "d0": "0.1",
        "d1": "1/50",
        "memory": 60,
    },
    "capacity": {
        "agents": [
            {"name": "1", "budget": 7, "overhead": 2, "per_token": "1/3"},
            {"name": "2", "budget": 5, "overhead": 1, "engines": 2},
        ],
        "stages": [
            {"type": "A", "agent": "1", "prefill": 3, "decode": 2, "rate": "1/7"},
            {"type": "A", "agent": "2", "prefill": "5/2", "decode": 1},
        ],
        "routes": [{"from": "A@1", "to": "A@2", "probability": "2/3"}],
    },
    "batch --state": {
        "budget": 9,
        "max_requests": 2,
        "requests": [
            {"prefill": 5, "decode": 1, "weight": 2, "finish_bonus": 7},
            {"prefill": 0, "decode": 3, "weight": 4},
            {"prefill": 9, "decode": 1},
        ],
    },
}
LIMITED = "fluid --latency 2"
PROBLEMS[LIMITED] = PROBLEMS["fluid"]
#: Those in fractions, and what the command calls the optimum.
LINEAR = {"fluid": "throughput", "capacity": "factor"}


def _write(command: str) -> str:
    Path("step.json").write_text(json.dumps(PROBLEMS[command]))
    return "step.json"


@pytest.mark.parametrize("command", PROBLEMS)
def test_the_recipes_bring_back_the_optimum(bfio: Bfio, command: str) -> None:
    """The snippets of docs/exchange.md solve what is written; the answer is read and judged."""
    file = _write(command)
    for name in ("step.lp", "step.mps"):
        told = bfio(*command.split(), file, "--write", name, "--json")
        assert told.status == 0
        assert told.json["digest"] in Path(name).read_text()
    snippets = re.findall(r"```python\n(.*?)```", (DOCS / "exchange.md").read_text(), re.DOTALL)
    recipes = [snippet for snippet in snippets if "step.lp" in snippet or "step.mps" in snippet]
    assert len(recipes) == 2
    for recipe in recipes:
        exec(recipe, {})
    ours = bfio(*command.split(), file, "--json").json
    for name in ("scip.sol", "highs.sol"):
        done = bfio(*command.split(), file, "--read-solution", name, "--json")
        assert done.status == 0
        assert done.json["violated"] == []
        if command == LIMITED:
            best = ours["limited"]["value"]
            assert best < ours["throughput"]
            assert (done.json["value"], done.json["optimum"]) == pytest.approx((best, best))
            continue
        if command in LINEAR:
            assert done.json["describes_optimum"]
            assert done.json["value"] == pytest.approx(ours[LINEAR[command]])
            continue
        best = ours["best"] if command == "batch --state" else ours
        assert done.json["objective"] == best["objective"]
        assert done.json["violations"] == {}
        assert done.json["status"] in ("optimal", "feasible, unproven")
        assert (done.json["proof"] is None) is (done.json["status"] != "optimal")
        assert name in bfio(*command.split(), file, "--read-solution", name).out


def test_every_answer_says_who_found_and_what_proved_it(bfio: Bfio) -> None:
    """Name and version of the solver, and the proof; nothing where nothing is proven."""
    file = _write("solve")
    proofs = {}
    for method in ("exact", "cp-sat", "highs", "pyomo", "brute-force", "two-stage"):
        answer = bfio("solve", file, "--method", method, "--json").json
        assert {"name", "version"} <= answer["solver"].keys()
        assert (answer["proof"] is not None) is (answer["termination"] == "optimal")
        proofs[method] = answer["proof"]
    assert "CP-SAT" in proofs["cp-sat"]
    assert "enumeration" in proofs["brute-force"]
    assert proofs["highs"] is proofs["two-stage"] is None
    assert "solver CP-SAT" in bfio("solve", file, "--method", "cp-sat").out
    for command in ("hindsight", "makespan", "fluid"):
        answer = bfio(command, _write(command), "--json").json
        assert answer["proof"]
        assert answer["solver"]["name"] == "bfio"
        assert f"proven by {answer['proof']}" in bfio(command, "step.json").out


def test_a_violated_solution_is_told(bfio: Bfio) -> None:
    """Exit status 3, and a sentence for each violation."""
    file = _write("hindsight")
    bfio("hindsight", file, "--write", "p.lp")
    program = Path("p.lp").read_text().partition("Minimize")[2]
    names = sorted(set(re.findall(r"x\(\d+,\d+\)", program)))
    chosen = {"x(0,0)": 2, "x(1,1)": 1}
    Path("bad.sol").write_text("".join(f"{n} {chosen.get(n, 0)}\n" for n in names))
    done = bfio("hindsight", file, "--read-solution", "bad.sol", "--json")
    assert (done.status, done.json["status"]) == (3, "infeasible")
    assert done.json["starts"] is None
    assert any("the cache holds" in told for told in done.json["violated"])
    told = bfio("hindsight", file, "--read-solution", "bad.sol")
    assert "bad.sol (plain): infeasible" in told.out
    assert "violated: round" in told.out


def test_files_are_not_replaced_without_a_word(bfio: Bfio) -> None:
    """The first stays as it is; with --overwrite equal problems give equal bytes."""
    file = _write("solve")
    assert bfio("solve", file, "--write", "p.lp").status == 0
    before = Path("p.lp").read_bytes()
    refused = bfio("solve", file, "--write", "p.lp")
    assert refused.status == 2
    assert "p.lp: the file exists; choose another name or add --overwrite" in refused.err
    assert bfio("solve", file, "--write", "p.lp", "--overwrite").status == 0
    assert Path("p.lp").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("solve --write p.txt", "use .lp or .mps"),
        ("solve --write p.lp --read-solution s", "not allowed with"),
        ("solve --write p.lp --method cp-sat", "--method: has no effect with --write"),
        ("solve --read-solution s --time-limit 1", "--time-limit: has no effect with --write"),
        ("solve --overwrite", "--overwrite: has no effect without --write"),
        ("solve --read-solution missing", "missing: no such file"),
        (
            "hindsight --write p.lp --algorithm mc-sf",
            "--algorithm cannot be combined with --method",
        ),
        ("fluid --program margin", "no program is written or checked"),
        ("fluid --write p.lp --program x", "use one of throughput"),
        ("fluid --write p.lp --nested", "use --program nested"),
        ("capacity --write p.lp --method highs", "--method: has no effect with --write"),
        (
            "capacity --write p.lp --between-tokens 9",
            "--between-tokens: cannot be combined with --write",
        ),
        ("capacity --write p.lp --priority middle", "use one of last, first"),
        ("batch --state --write p.lp --policy orca", "the batch program of --state has no policy"),
    ],
)
def test_what_cannot_be_done_is_told(bfio: Bfio, arguments: str, message: str) -> None:
    """One line each, and no file."""
    command = next(name for name in PROBLEMS if arguments.startswith(name))
    options = arguments.removeprefix(command).split()
    done = bfio(*command.split(), _write(command), *options)
    assert done.status == 2
    assert message in done.err
    assert done.err.count("\n") == 1
    assert not Path("p.lp").exists()


def test_many_problems_cannot_be_written(bfio: Bfio) -> None:
    """A file of lines holds more than one."""
    Path("steps.jsonl").write_text(json.dumps(PROBLEMS["solve"]) + "\n")
    assert (
        "cannot be combined with a .jsonl file"
        in bfio("solve", "steps.jsonl", "--write", "p.lp").err
    )
