"""``bfio hindsight``."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from bfio.cli.commands.hindsight import COMMAND, _drawing
from bfio.kvcache.policy import BUILT_IN
from bfio.testing.instances import latency_problems
from formulations.hindsight_latency import (
    LatencyProblem,
    brute_force,
    memory_used,
    occupied_rounds,
)
from tests.cli.conftest import Bfio
from tests.cli.conftest import bfio as bfio
from tests.processes import python

COUNTEREXAMPLE = {
    "memory": 5,
    "requests": [{"arrival": 0, "prompt": 1, "output": o} for o in (1, 1, 3, 3)],
}
TWINS = {"memory": 8, "requests": [{"arrival": 0, "prompt": 1, "output": 4}] * 2}


def write(folder: Path, document: object) -> str:
    """Write a document and return its path."""
    path = folder / "requests.json"
    path.write_text(json.dumps(document))
    return str(path)


def test_an_algorithm_answers_with_a_checked_schedule(bfio: Bfio, tmp_path: Path) -> None:
    """Algorithm 1 on the counterexample of convention C, the default."""
    done = bfio("hindsight", write(tmp_path, COUNTEREXAMPLE), "--algorithm", "mc-sf", "--json")
    answer: dict[str, Any] = done.json
    assert done.status == 0
    assert (answer["objective"], answer["bound"]) == (13, None)
    assert (answer["starts"], answer["termination"]) == ([0, 0, 1, 4], "feasible")
    assert (answer["convention"], answer["violations"]) == ("C", {})
    assert (answer["verdict"], answer["peak_memory"]) == ("finished", 4)


def test_the_exact_method_proves_the_optimum(bfio: Bfio, tmp_path: Path) -> None:
    """It saves the one round that the algorithm wastes."""
    done = bfio("hindsight", write(tmp_path, COUNTEREXAMPLE), "--json", "--time-limit", "20")
    answer = done.json
    assert (done.status, answer["termination"]) == (0, "optimal")
    assert (answer["objective"], answer["bound"], answer["violations"]) == (12, 12, {})


def test_text_output_draws_the_schedule(bfio: Bfio, tmp_path: Path) -> None:
    """What it costs, who starts when, who waits and runs; memory 2 + 2 = 4, 2, 3, 4, 2, 3, 4 of 5.

    In convention C a request is in the cache from the round after its start on. Eighths of five
    tokens, rounded up: 4 are 7, 3 are 5, 2 are 4.
    """
    done = bfio("hindsight", write(tmp_path, COUNTEREXAMPLE), "--algorithm", "mc-sf")
    assert done.out.splitlines() == [
        "mc-sf: feasible, total latency 13 rounds, convention C",
        "request@start: 0@0, 1@0, 2@1, 3@4",
        "round      0",
        "request 0  ·█",
        "request 1  ·█",
        "request 2  ··███",
        "request 3  ·····███",
        "memory      ▇▄▅▇▄▅▇",
        "█ in the cache, · waiting; peak 4 of 5 tokens",
    ]


def test_streams_without_blocks_get_plain_marks(tmp_path: Path) -> None:
    """The same drawing, in which waiting and running stay apart."""
    words = ("hindsight", write(tmp_path, COUNTEREXAMPLE), "--algorithm", "mc-sf")
    done = python("-m", "bfio", *words, env={"PYTHONIOENCODING": "ascii"})
    assert done.stdout.splitlines()[-5:] == [
        "request 1  .#",
        "request 2  ..###",
        "request 3  .....###",
        "memory      %=+%=+%",
        "# in the cache, . waiting; peak 4 of 5 tokens",
    ]


@given(latency_problems(max_requests=3))
def test_the_drawing_says_what_the_schedule_says(problem: LatencyProblem) -> None:
    """Read back: arrivals, occupied rounds, and rounds whose memory is full or empty."""
    _, starts = brute_force(problem)
    lines = _drawing(problem, starts)
    if not starts:
        assert lines == []
        return
    used = memory_used(problem, starts)
    first, width = min(problem.arrival.tolist()), len("request 0  ")
    rows = [line[width:] for line in lines[1:-1]]
    for i, row in enumerate(rows[:-1]):
        assert len(row) - len(row.lstrip()) == problem.arrival[i] - first
        assert row.count("█") == occupied_rounds(problem)[i]
        assert row.index("█") == starts[i] + problem.convention.first_age - first
    for column, level in enumerate(rows[-1]):
        tokens = used.get(first + column, 0)
        assert (level == " ", level == "█") == (tokens == 0, 8 * tokens > 7 * problem.memory)


@pytest.mark.parametrize(
    ("count", "output", "drawn"), [(30, 1, True), (31, 1, False), (1, 99, True), (1, 100, False)]
)
def test_only_small_schedules_are_drawn(count: int, output: int, drawn: bool) -> None:
    """Thirty requests, and a hundred rounds: the one before the first of convention C counts."""
    zeros = np.zeros(count, dtype=np.int64)
    problem = LatencyProblem(10**3, zeros, zeros + 1, zeros + output)
    assert bool(_drawing(problem, zeros.tolist())) is drawn


@pytest.mark.parametrize(
    ("method", "trust"),
    [("exact", "proven in integers"), ("highs", "floating-point, unproven")],
)
def test_text_output_says_what_is_proven(
    bfio: Bfio, tmp_path: Path, method: str, trust: str
) -> None:
    """HiGHS alone claims the 12 that no integer bound of ours reaches without prices."""
    done = bfio("hindsight", write(tmp_path, COUNTEREXAMPLE), "--method", method)
    assert f"total latency 12 rounds, bound 12 ({trust}), convention C" in done.out


def test_a_loop_exits_3(bfio: Bfio, tmp_path: Path) -> None:
    """Nothing was found: no objective, no starts, the verdict says why."""
    file = write(tmp_path, TWINS)
    done = bfio("hindsight", file, "--algorithm", "alpha-greedy:alpha=0.25", "--json")
    assert done.status == 3
    assert (done.json["objective"], done.json["starts"]) == (None, None)
    assert (done.json["verdict"], done.json["termination"]) == ("loop", "failed")
    text = bfio("hindsight", file, "--algorithm", "alpha-greedy:alpha=0.25")
    assert text.status == 3
    assert "no schedule (the state recurred" in text.out


def test_a_seed_decides_the_clearing(bfio: Bfio, tmp_path: Path) -> None:
    """The final starts of a run with clearings are a feasible schedule all the same."""
    options = ("--algorithm", "beta-clearing:alpha=0.25:beta=0.5", "--seed", "3")
    done = bfio("hindsight", write(tmp_path, TWINS), *options, "--json")
    assert done.status == 0
    assert done.json["cleared"] > 0
    assert done.json["violations"] == {}
    text = bfio("hindsight", write(tmp_path, TWINS), *options).out
    assert f" cleared {done.json['cleared']} running request" in text


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({**TWINS, "memory": 4}, "requests[0]: its peak of 5 tokens exceeds the memory of 4"),
        ({**TWINS, "convention": "D"}, "convention: 'D' is unknown"),
        ({"memory": 4}, "document.requests: missing"),
        ({"memory": 4, "requests": None}, "requests: null; write a list"),
        ([], "document: a list; write an object with memory, requests"),
    ],
)
def test_bad_files_exit_2(bfio: Bfio, tmp_path: Path, document: object, message: str) -> None:
    """One line that names file and field."""
    done = bfio("hindsight", write(tmp_path, document), "--algorithm", "mc-sf")
    assert (done.status, done.out) == (2, "")
    assert message in done.err
    assert "requests.json" in done.err
    assert len(done.err.splitlines()) == 1


def test_unreadable_files_exit_2(bfio: Bfio, tmp_path: Path) -> None:
    """A missing file, a folder, bytes that are no text, an unknown algorithm."""
    assert "none.json: no such file" in bfio("hindsight", "none.json").err
    assert bfio("hindsight", str(tmp_path)).status == 2
    (tmp_path / "bytes.json").write_bytes(b"\xff\xff")
    assert "not UTF-8 text" in bfio("hindsight", "bytes.json").err
    done = bfio("hindsight", write(tmp_path, TWINS), "--algorithm", "sf")
    assert (done.status, "unknown algorithm" in done.err) == (2, True)


@pytest.mark.parametrize("method", ["exact", "cp-sat", "brute-force"])
def test_methods_agree(bfio: Bfio, tmp_path: Path, method: str) -> None:
    """Two requests of peak 5 under 9 tokens: 1@0 ... the same total, proven by each."""
    document = {
        "memory": 9,
        "requests": [{"arrival": 0, "prompt": 3, "output": 2}] * 2,
    }
    done = bfio("hindsight", write(tmp_path, document), "--method", method, "--json")
    answer = json.loads(done.out)
    # Both at once would peak at 10 tokens; one round apart they hold 4 + 5: starts 0 and 1.
    assert (answer["method"], answer["termination"]) == (method, "optimal")
    assert (answer["objective"], answer["bound"], sorted(answer["starts"])) == (5, 5, [0, 1])


def test_semi_online_says_what_to_change(bfio: Bfio, tmp_path: Path) -> None:
    """The request, its arrival, and two ways out."""
    late = {"memory": 8, "requests": [{"arrival": 2, "prompt": 1, "output": 4}]}
    done = bfio("hindsight", write(tmp_path, late), "--algorithm", "semi-online")
    assert done.err == (
        "error: requests[0].arrival: 2, but semi-online requires all arrivals at 0; "
        "set every arrival to 0, or use mc-sf\n"
    )


def test_a_policy_that_raises_exits_2(
    bfio: Bfio, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line with the policy, the time, what it raised and where; no traceback."""
    (tmp_path / "hasty_cache_policy.py").write_text("def f(state):\n    return [1 // 0]\n")
    monkeypatch.chdir(tmp_path)
    done = bfio("hindsight", write(tmp_path, TWINS), "--algorithm", "hasty_cache_policy:f")
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    assert "error: policy hasty_cache_policy:f, clock 0: raised ZeroDivisionError: " in done.err
    assert "hasty_cache_policy.py line 2; correct the policy" in done.err


def test_an_unknown_method(bfio: Bfio, tmp_path: Path) -> None:
    """One line, status 2."""
    done = bfio("hindsight", write(tmp_path, TWINS), "--method", "magic")
    assert (done.status, len(done.err.splitlines())) == (2, 1)


def test_an_algorithm_takes_no_method(bfio: Bfio, tmp_path: Path) -> None:
    """What would be ignored is refused."""
    options = ("--algorithm", "mc-sf", "--method", "exact")
    done = bfio("hindsight", write(tmp_path, TWINS), *options)
    assert (done.status, "omit one of them" in done.err) == (2, True)


def test_help_names_every_algorithm() -> None:
    """The text is written by hand, so that it appears at once."""
    assert all(name in COMMAND.description for name in BUILT_IN)
